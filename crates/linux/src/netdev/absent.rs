//! Why an interface has no NAPI instance that could be set, in one sentence for all who say it.

use crate::{device, ethtool, link};

/// What is known of an interface.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct AboutInterface {
    /// Its name.
    pub(crate) name: String,
    /// Of a virtual one, what it is (`veth`); `loopback`.
    pub(crate) kind: Option<String>,
    /// Driver of its hardware.
    pub(crate) driver: Option<String>,
    /// It is set up.
    pub(crate) is_up: Option<bool>,
    /// `rx-gro`.
    pub(crate) gro: Option<bool>,
    /// An XDP program is attached.
    pub(crate) has_xdp: bool,
}

/// Why an interface of the calling thread's namespace has no instance, and what to do.
#[must_use]
pub fn why_no_instance(name: &str) -> String {
    let all = link::all().unwrap_or_default();
    let found = all.into_iter().find(|(_, found, _)| found == name);
    let ifindex = found.as_ref().map(|(ifindex, ..)| *ifindex);
    let read = |file| device::read_file(name, file).ok();
    let flags = read("flags").and_then(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    let features = ifindex.and_then(|ifindex| ethtool::get(ifindex, ethtool::Group::Features).ok());
    why(&AboutInterface {
        name: name.to_owned(),
        kind: found.and_then(|(.., kind)| kind),
        driver: device::driver(name),
        // `include/uapi/linux/if.h IFF_UP`.
        is_up: flags.map(|flags| flags & 1 != 0),
        gro: features.and_then(|all| all.get("rx-gro").map(|value| value == "on")),
        has_xdp: link::has_xdp(name).unwrap_or(false),
    })
}

/// Kinds of interfaces whose packets arrive at the interfaces below them. Source: `ip-link(8)`.
pub(crate) const STACKED: [&str; 12] = [
    "bridge",
    "bond",
    "team",
    "vlan",
    "macvlan",
    "macvtap",
    "ipvlan",
    "ipvtap",
    "vrf",
    "vxlan",
    "geneve",
    "openvswitch",
];

/// Whether no mode can be meant for such an interface: it is software through and through, and has no instances with ids.
pub(crate) fn is_virtual(kind: &str) -> bool {
    STACKED.contains(&kind)
        || ["loopback", "tun", "dummy", "ifb", "wireguard", "ipip", "gre", "sit", "nlmon"].contains(&kind)
}

pub(crate) fn why(known: &AboutInterface) -> String {
    let AboutInterface { name, kind, driver, is_up, gro, has_xdp } = known;
    let why = match kind.as_deref() {
        Some("loopback") => "it is the loopback device, whose packets never pass an interrupt or a queue. No mode can be set there: take the \
                             interface that the clients use"
            .to_owned(),
        Some("tun") => "it is a TUN or TAP device: a program writes its packets, and no NAPI instance fetches them. Take the interface \
                        that they come to that program by"
            .to_owned(),
        Some(kind) if STACKED.contains(&kind) => format!(
            "it is a {kind} interface: its packets arrive at the interfaces below it, and these have the instances. `ip link` shows \
             them; take one of these"
        ),
        _ if *is_up == Some(false) => format!("it is down: ip link set {name} up"),
        Some("veth") if *gro == Some(false) && !has_xdp => {
            format!("it is a veth without generic receive offload: ethtool -K {name} gro on")
        }
        Some("veth") => "it is a veth, and its instances are gone again: try once more".to_owned(),
        Some(kind) => format!("it is a {kind} interface, which has none with an id: no mode can be set there"),
        None => {
            let driver = driver.as_deref().unwrap_or("not named");
            format!("its driver ({driver}) registers none with an id, or this kernel (before 6.8) lists none")
        }
    };
    format!("{name} has no NAPI instance: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, up, receive offload, and a word that the sentence must and one that it must not have.
    type Row = (Option<&'static str>, bool, Option<bool>, &'static str, &'static str);

    #[test]
    fn each_kind_of_interface_is_told_what_is_true_of_it() {
        let rows: [Row; 9] = [
            (Some("loopback"), true, Some(true), "loopback device", "ethtool"),
            (Some("bridge"), true, Some(true), "below it", "ethtool"),
            (Some("bridge"), false, Some(true), "below it", "is down"),
            (Some("macvlan"), true, None, "a macvlan interface", "ethtool"),
            (Some("tun"), true, Some(true), "TUN or TAP", "ethtool"),
            (Some("veth"), true, Some(false), "ethtool -K x0 gro on", "down"),
            (Some("veth"), false, Some(false), "ip link set x0 up", "ethtool"),
            (Some("wireguard"), true, None, "a wireguard interface", "ethtool"),
            (None, true, None, "(gve)", "ethtool"),
        ];
        for (kind, is_up, gro, has, has_not) in rows {
            let known = AboutInterface {
                name: "x0".to_owned(),
                kind: kind.map(ToOwned::to_owned),
                driver: kind.is_none().then(|| "gve".to_owned()),
                is_up: Some(is_up),
                gro,
                has_xdp: false,
            };
            let said = why(&known);
            assert!(said.contains(has) && !said.contains(has_not) && said.starts_with("x0 has no"), "{said}");
        }
    }
}

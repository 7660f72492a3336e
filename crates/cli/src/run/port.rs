//! `--port`: the packets of a port go to the queue of `--queues`, by a flow rule of the card.

use std::str::FromStr;

use anyhow::anyhow;
use napier_linux::change::{DeviceRef, FlowRuleKey, Key, Line, Queues, quoted};
use napier_linux::ethtool::rules::FlowType;

use crate::Usage;

/// A port, with the kinds of packets that are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FlowPort {
    flows: Vec<FlowType>,
    port: u16,
}

impl FromStr for FlowPort {
    type Err = String;

    /// `11211` and `tcp:11211` are of both versions of IP; `tcp4:11211` is of one.
    fn from_str(text: &str) -> Result<Self, String> {
        use FlowType::{Tcp4, Tcp6, Udp4, Udp6};
        let wrong = || format!("`{text}` is no port: such as 11211, udp:53 or tcp4:11211");
        let (kind, port) = text.split_once(':').unwrap_or(("tcp", text));
        let flows = match kind {
            "tcp" => vec![Tcp4, Tcp6],
            "udp" => vec![Udp4, Udp6],
            one => vec![[Tcp4, Tcp6, Udp4, Udp6].into_iter().find(|flow| flow.name() == one).ok_or_else(wrong)?],
        };
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        Ok(Self { flows, port })
    }
}

/// The rules that send it to a queue.
pub(crate) fn lines(
    wanted: Option<&FlowPort>,
    queues: Option<&Queues>,
    device: &DeviceRef,
) -> anyhow::Result<Vec<Line>> {
    let Some(FlowPort { flows, port }) = wanted else { return Ok(Vec::new()) };
    let Some(queues) = queues else {
        return Err(Usage(anyhow!(
            "--port {port} sends the packets of that port to a queue, and chooses none by itself: give --queues N too, such as \
             --queues 3 --port {port}"
        ))
        .into());
    };
    let mut all = queues.iter();
    let (Some(queue), None) = (all.next(), all.next()) else {
        return Err(Usage(anyhow!(
            "--port {port} sends packets to one queue, for a flow rule has one, and --queues {queues} are several: give one of them, or \
             omit --port and make a context for them where the driver has contexts (mlx5_core, bnxt_en): {}",
            by_context(queues, device, *port)
        ))
        .into());
    };
    let line = |flow: &FlowType| {
        let key = FlowRuleKey { device: device.clone(), flow: *flow, port: *port };
        Line::new(Key::FlowRule(key), FlowRuleKey::to_queue(queue))
    };
    Ok(flows.iter().map(line).collect())
}

/// What a person types so that a port's packets are spread over some queues alone.
fn by_context(queues: &Queues, device: &DeviceRef, port: u16) -> String {
    let name = quoted(&device.name);
    let (first, last) = (queues.iter().next().unwrap_or(0), queues.iter().last().unwrap_or(0));
    let spread = if usize::try_from(last - first).is_ok_and(|span| span + 1 == queues.count()) {
        format!("start {first} equal {}", queues.count())
    } else {
        format!("weight W0 W1 .., which are 1 for {} and 0 for the others", queues.words())
    };
    format!(
        "ethtool -X {name} context new {spread}, then ethtool -N {name} flow-type tcp4 dst-port {port} context N with the number that \
         it prints"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_of_both_versions_unless_it_says_which() {
        let flows = |text: &str| text.parse::<FlowPort>().map(|found| (found.flows.len(), found.port));
        assert_eq!((flows("11211"), flows("udp:53"), flows("tcp6:80")), (Ok((2, 11211)), Ok((2, 53)), Ok((1, 80))));
        assert!(["", "0", "65536", "sctp:1", "tcp"].iter().all(|text| flows(text).is_err()));
    }

    #[test]
    fn what_is_missing_is_said() {
        let device = DeviceRef { ifindex: 2, name: "eth0".to_owned() };
        let port = "11211".parse().expect("a port");
        let of = |queues: Option<&str>| {
            let queues = queues.map(|list| list.parse().expect("a list"));
            lines(Some(&port), queues.as_ref(), &device).map_err(|error| error.to_string())
        };
        assert!(of(None).expect_err("no queue").contains("--queues 3 --port 11211"));
        let said = of(Some("4-5")).expect_err("two");
        assert!(
            said.contains("give one of them") && said.contains("ethtool -X eth0 context new start 4 equal 2,"),
            "{said}"
        );
        assert!(said.contains("ethtool -N eth0 flow-type tcp4 dst-port 11211 context N"), "{said}");
        assert!(of(Some("1,3")).expect_err("apart").contains("weight W0 W1 .., which are 1 for queues 1,3"));
        let found: Vec<String> = of(Some("4")).expect("one").iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["flow rule of eth0 for tcp4 port 11211 = queue 4", "flow rule of eth0 for tcp6 port 11211 = queue 4"]
        );
    }
}

//! What the kernel says about an interface of the calling thread's namespace (`netdevice(7)`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};

/// What was asked about an interface.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Netdev {
    /// Its number.
    pub ifindex: u32,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Bytes of the largest IP packet.
    pub mtu: u32,
    /// Set up (`IFF_UP`).
    pub up: bool,
    /// Its link is there, whether or not it is set up.
    pub carrier: bool,
}

impl Netdev {
    /// Why the interface, whose name is `name`, cannot be used now, and what to do; `None`: it can.
    #[must_use]
    pub fn state(&self, name: &str) -> Option<String> {
        if !self.up {
            return Some(format!("{name} is down: ip link set {name} up"));
        }
        (!self.carrier).then(|| format!("{name} has no link: plug it in, or bring its peer up"))
    }
}

/// A socket for [`netdev`], in the namespace of the calling thread.
///
/// # Errors
///
/// As `socket(2)`.
pub fn query_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// A socket that is readable when an interface of the namespace has changed.
///
/// # Errors
///
/// As `socket(2)`.
pub fn change_socket() -> io::Result<OwnedFd> {
    /// `include/uapi/linux/rtnetlink.h`.
    const RTMGRP_LINK: u32 = 1;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?; // protocol 0 is NETLINK_ROUTE
    rustix::net::bind(&socket, &netlink::SocketAddrNetlink::new(0, RTMGRP_LINK))?;
    Ok(socket)
}

/// Asks about an interface.
///
/// # Errors
///
/// `ENODEV` if there is none.
pub fn netdev(socket: &OwnedFd, name: &str) -> io::Result<Netdev> {
    let flags = ask(socket, name, libc::SIOCGIFFLAGS as libc::Ioctl, |request| {
        // SAFETY: the kernel has filled this member in.
        unsafe { request.ifr_ifru.ifru_flags }
    })?;
    let mtu = ask(socket, name, libc::SIOCGIFMTU as libc::Ioctl, |request| {
        // SAFETY: as above.
        unsafe { request.ifr_ifru.ifru_mtu }
    })?;
    let ifindex = ask(socket, name, libc::SIOCGIFINDEX as libc::Ioctl, |request| {
        // SAFETY: as above.
        unsafe { request.ifr_ifru.ifru_ifindex }
    })?;
    let address = ask(socket, name, libc::SIOCGIFHWADDR as libc::Ioctl, |request| {
        // SAFETY: as above.
        unsafe { request.ifr_ifru.ifru_hwaddr.sa_data }
    })?;
    let flags = libc::c_int::from(flags);
    Ok(Netdev {
        ifindex: ifindex.cast_unsigned(),
        mac: std::array::from_fn(|at| address[at].cast_unsigned()),
        mtu: mtu.cast_unsigned(),
        up: flags & libc::IFF_UP != 0,
        // `IFF_RUNNING` follows the carrier up to a second late.
        carrier: carrier(socket, name)?,
    })
}

/// Name of the interface with this number.
///
/// # Errors
///
/// `ENODEV` if there is none.
pub fn name_of(socket: &OwnedFd, ifindex: u32) -> io::Result<String> {
    Ok(rustix::net::netdevice::index_to_name(socket, ifindex)?)
}

/// Whether the link is there (`ethtool`, "Link detected").
fn carrier(socket: &OwnedFd, name: &str) -> io::Result<bool> {
    /// `include/uapi/linux/ethtool.h`.
    const ETHTOOL_GLINK: u32 = 0x0a;
    let request = request(name)?;
    // A driver that does not say has no link to lose.
    Ok(ethtool_value(socket, request, ETHTOOL_GLINK, 0).map_or(true, |link| link != 0))
}

/// `include/uapi/linux/ethtool.h`.
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETH_FLAG_LRO: u32 = 1 << 15;

/// Whether large receive offload is in force (`ethtool -k`).
///
/// # Errors
///
/// As `netdevice(7)`.
pub fn lro(socket: &OwnedFd, name: &str) -> io::Result<bool> {
    Ok(ethtool_value(socket, request(name)?, ETHTOOL_GFLAGS, 0)? & ETH_FLAG_LRO != 0)
}

/// Switches it on (`ethtool -K lro on`).
///
/// # Errors
///
/// As `netdevice(7)`; `EOPNOTSUPP` where there is no such switch.
pub fn switch_lro_on(socket: &OwnedFd, name: &str) -> io::Result<()> {
    let flags = ethtool_value(socket, request(name)?, ETHTOOL_GFLAGS, 0)?;
    ethtool_value(socket, request(name)?, ETHTOOL_SFLAGS, flags | ETH_FLAG_LRO).map(drop)
}

/// One of `ethtool`'s requests for or with a number.
fn ethtool_value(socket: &OwnedFd, mut about: libc::ifreq, command: u32, data: u32) -> io::Result<u32> {
    /// `include/uapi/linux/ethtool.h` `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let mut value = Value { command, data };
    about.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request reads or fills in `value`, which has the size of its structure and lives through the call.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &raw mut about) };
    if failed < 0 { Err(io::Error::last_os_error()) } else { Ok(value.data) }
}

/// Name of the interface's driver (`ethtool -i`), if it says so.
pub fn driver(socket: &OwnedFd, name: &str) -> Option<String> {
    /// `include/uapi/linux/ethtool.h` `ETHTOOL_GDRVINFO`, and `struct ethtool_drvinfo` as far as it matters.
    #[repr(C)]
    struct DriverInfo {
        command: u32,
        driver: [u8; 32],
        rest: [u8; 160],
    }
    let mut info = DriverInfo { command: 3, driver: [0; 32], rest: [0; 160] };
    let mut about = request(name).ok()?;
    about.ifr_ifru.ifru_data = (&raw mut info).cast();
    // SAFETY: the request fills in `info`, which has the size of its structure and lives through the call.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &raw mut about) };
    let end = info.driver.iter().position(|&byte| byte == 0)?;
    (failed == 0).then(|| String::from_utf8_lossy(&info.driver[..end]).into_owned())
}

/// Receive queues of an interface (`ethtool -l`).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Channels {
    /// Those that only receive.
    pub receive: u32,
    /// Those that also send.
    pub combined: u32,
}

/// The receive queues of an interface that are in use, if its driver says so.
pub fn channels(socket: &OwnedFd, name: &str) -> Option<Channels> {
    /// `include/uapi/linux/ethtool.h` `ETHTOOL_GCHANNELS` and `struct ethtool_channels`.
    #[repr(C)]
    #[derive(Default)]
    struct ChannelsAnswer {
        command: u32,
        most: [u32; 4],
        receive: u32,
        transmit: u32,
        other: u32,
        combined: u32,
    }
    let mut answer = ChannelsAnswer { command: 0x3c, ..ChannelsAnswer::default() };
    let mut about = request(name).ok()?;
    about.ifr_ifru.ifru_data = (&raw mut answer).cast();
    // SAFETY: the request fills in `answer`, which has the size of its structure and lives through the call.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &raw mut about) };
    let ChannelsAnswer { receive, combined, .. } = answer;
    (failed == 0 && receive + combined > 0).then_some(Channels { receive, combined })
}

/// The XDP program on an interface.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Attached {
    /// It is called in the stack, not in the driver.
    pub generic: bool,
    /// The program's number.
    pub program: u32,
}

/// The XDP program on an interface of the calling thread's namespace, if there is one.
///
/// # Errors
///
/// As `rtnetlink(7)`; `ENODEV` if there is no such interface.
pub fn attached_xdp(ifindex: u32) -> io::Result<Option<Attached>> {
    // `include/uapi/linux/rtnetlink.h`, `if_link.h`.
    const RTM_GETLINK: u16 = 18;
    const NLM_F_REQUEST: u16 = 1;
    const NLMSG_ERROR: u16 = 2;
    const IFLA_XDP: u16 = 43;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut question = Vec::with_capacity(32);
    question.extend(32_u32.to_ne_bytes()); // struct nlmsghdr and struct ifinfomsg
    question.extend(RTM_GETLINK.to_ne_bytes());
    question.extend(NLM_F_REQUEST.to_ne_bytes());
    question.extend([0; 8]);
    question.extend([0; 4]);
    question.extend(ifindex.to_ne_bytes());
    question.extend([0; 8]);
    rustix::io::write(&socket, &question)?;
    let mut answer = vec![0; 32 << 10];
    let len = rustix::io::read(&socket, &mut answer[..])?;
    let answer = &answer[..len];
    let kind = answer.get(4..6).map_or(NLMSG_ERROR, |kind| u16::from_ne_bytes([kind[0], kind[1]]));
    if kind == NLMSG_ERROR {
        let code =
            answer.get(16..20).and_then(|code| code.first_chunk()).map_or(-libc::EIO, |code| i32::from_ne_bytes(*code));
        return Err(io::Error::from_raw_os_error(-code));
    }
    let xdp = attributes(answer.get(32..).unwrap_or_default()).find(|(kind, _)| *kind == IFLA_XDP);
    Ok(xdp.and_then(|(_, nested)| attached_of(nested)))
}

fn attached_of(nested: &[u8]) -> Option<Attached> {
    // `include/uapi/linux/if_link.h`.
    const IFLA_XDP_ATTACHED: u16 = 2;
    const IFLA_XDP_PROG_ID: u16 = 4;
    const XDP_ATTACHED_NONE: u8 = 0;
    const XDP_ATTACHED_SKB: u8 = 2;
    let found = |wanted| attributes(nested).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let mode = *found(IFLA_XDP_ATTACHED)?.first()?;
    let program = found(IFLA_XDP_PROG_ID).and_then(|id| id.first_chunk()).map_or(0, |id| u32::from_ne_bytes(*id));
    (mode != XDP_ATTACHED_NONE).then_some(Attached { generic: mode == XDP_ATTACHED_SKB, program })
}

/// Attributes of a netlink message: type and value. What is cut short ends them.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let &[l0, l1, k0, k1, ..] = rest else { return None };
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & 0x3fff, value))
    })
}

fn ask<R>(socket: &OwnedFd, name: &str, what: libc::Ioctl, read: impl FnOnce(&libc::ifreq) -> R) -> io::Result<R> {
    let mut about = request(name)?;
    // SAFETY: each of these requests fills the structure in and touches nothing else.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut about) };
    if failed < 0 { Err(io::Error::last_os_error()) } else { Ok(read(&about)) }
}

/// A request about an interface.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all of it is numbers, for which zero is legal.
    let mut about: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= about.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in about.ifr_name.iter_mut().zip(bytes) {
        *to = from.cast_signed();
    }
    Ok(about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_large_receive_offload_says_so() {
        let socket = query_socket().expect("a socket");
        assert!(!lro(&socket, "lo").expect("loopback tells its flags"));
        // Refused for want of the switch, or of the capability.
        assert!(switch_lro_on(&socket, "lo").is_err());
        assert!(lro(&socket, "no-such-one").is_err());
    }
}

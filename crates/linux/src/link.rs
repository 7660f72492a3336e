//! Requests about interfaces to the namespace of the calling thread (`rtnetlink(7)`).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_bindings::rt_addr::{self, Ifaddrmsg};
pub(crate) use netlink_bindings::rt_link::RtnlLinkStats64 as Counters;
use netlink_bindings::rt_link::{self, IfinfoFlags, Ifinfomsg, IterableLinkAttrs};
use netlink_bindings::rt_neigh::{self, Ndmsg};
use netlink_bindings::traits::{NetlinkRequest, Protocol};
use netlink_socket2::{NetlinkSocket, ReplyError};

const AF_INET: u8 = 2; // include/linux/socket.h
const AF_INET6: u8 = 10;
/// `include/uapi/linux/neighbour.h`: never asked for again.
const NUD_PERMANENT: u16 = 0x80;
/// `include/uapi/linux/if_addr.h`: usable at once, without looking for a duplicate.
const IFA_F_NODAD: u32 = 2;

/// A kernel's answer as a plain error.
pub(crate) fn plain(error: ReplyError) -> io::Error {
    // The kernel's own words, where it has some.
    io::Error::new(error.as_io_error().kind(), error.to_string())
}

/// Makes a veth called `name` and its peer, of which the kernel chooses the name. Both have this many queues.
pub(crate) fn add_pair(name: &str, queues: u16) -> io::Result<()> {
    let mut request = rt_link::Request::new().set_create().set_excl().op_newlink_do(&Ifinfomsg::new());
    request
        .encode()
        .push_ifname_bytes(name.as_bytes())
        .push_num_tx_queues(queues.into())
        .push_num_rx_queues(queues.into())
        .nested_linkinfo()
        .push_kind(c"veth");
    NetlinkSocket::new().request(&request)?.recv_ack().map_err(plain)
}

/// What the kernel says of an interface.
fn named<T>(name: &str, read: impl FnOnce(&Ifinfomsg, &IterableLinkAttrs<'_>) -> io::Result<T>) -> io::Result<T> {
    let mut request = rt_link::Request::new().op_getlink_do(&Ifinfomsg::new());
    request.encode().push_ifname_bytes(name.as_bytes());
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(&request)?;
    let (header, attributes) = replies.recv_one().map_err(plain)?;
    read(&header, &attributes)
}

/// The same of all interfaces.
fn each<T>(read: impl Fn(&Ifinfomsg, &IterableLinkAttrs<'_>) -> io::Result<T>) -> io::Result<Vec<T>> {
    let request = rt_link::Request::new().op_getlink_dump(&Ifinfomsg::new());
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(&request)?;
    let mut found = Vec::new();
    while let Some(reply) = replies.recv() {
        let (header, attributes) = reply.map_err(plain)?;
        found.push(read(&header, &attributes)?);
    }
    Ok(found)
}

fn index_of(header: &Ifinfomsg) -> u32 {
    header.ifi_index.cast_unsigned()
}

fn name_of(attributes: &IterableLinkAttrs<'_>) -> io::Result<String> {
    Ok(attributes.get_ifname().map_err(io::Error::other)?.to_string_lossy().into_owned())
}

/// Index of an interface, and that of its peer.
pub(crate) fn indices(name: &str) -> io::Result<(u32, u32)> {
    named(name, |header, attributes| Ok((index_of(header), attributes.get_link().map_err(io::Error::other)?)))
}

/// Index of an interface.
pub(crate) fn index(name: &str) -> io::Result<u32> {
    named(name, |header, _| Ok(index_of(header)))
}

/// All interfaces: number, name, and of a virtual one what it is (`veth`, `loopback`).
pub(crate) fn all() -> io::Result<Vec<(u32, String, Option<String>)>> {
    each(|header, attributes| {
        let kind = attributes.get_linkinfo().and_then(|info| info.get_kind().map(|kind| kind.to_string_lossy()));
        let kind = kind.ok().map(|kind| kind.into_owned());
        let is_loopback = header.ifi_flags & IfinfoFlags::Loopback as u32 != 0;
        let kind = kind.or_else(|| is_loopback.then(|| "loopback".to_owned()));
        Ok((index_of(header), name_of(attributes)?, kind))
    })
}

/// An interface, and what it leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LinkRow {
    pub(crate) ifindex: u32,
    pub(crate) name: String,
    /// Of a virtual one what it is.
    pub(crate) kind: Option<String>,
    /// The interface below it, or the other end of its pair.
    pub(crate) link: Option<u32>,
    /// The namespace of that by the number that this one has for it ([`nsid`]); `None` if it is here too.
    pub(crate) link_nsid: Option<i32>,
    /// The interface that it is a part of: a bond, a bridge.
    pub(crate) master: Option<u32>,
}

/// All interfaces, with what they lead to.
pub(crate) fn rows() -> io::Result<Vec<LinkRow>> {
    each(|header, attributes| {
        let kind = attributes.get_linkinfo().and_then(|info| info.get_kind().map(|kind| kind.to_string_lossy()));
        Ok(LinkRow {
            ifindex: index_of(header),
            name: name_of(attributes)?,
            kind: kind.ok().map(|kind| kind.into_owned()),
            link: attributes.get_link().ok().filter(|link| *link != 0),
            link_nsid: attributes.get_link_netnsid().ok(),
            master: attributes.get_master().ok(),
        })
    })
}

/// A request for the number of a namespace; the bindings have none for it.
struct NsidRequest([u8; 12]);

impl NetlinkRequest for NsidRequest {
    fn protocol(&self) -> Protocol {
        /// `include/uapi/linux/rtnetlink.h RTM_GETNSID`.
        const RTM_GETNSID: u16 = 90;
        Protocol::Raw { protonum: 0, request_type: RTM_GETNSID }
    }

    fn flags(&self) -> u16 {
        0
    }

    fn payload(&self) -> &[u8] {
        &self.0
    }

    type ReplyType<'buf> = &'buf [u8];

    fn decode_reply(bytes: &[u8]) -> &[u8] {
        // Behind `struct rtgenmsg`, which is filled up to 4.
        bytes.get(4..).unwrap_or_default()
    }
}

/// The number that the calling thread's namespace has for another one; `None` if it has none. Source: `net/core/net_namespace.c
/// rtnl_net_getid`.
pub(crate) fn nsid(of: BorrowedFd<'_>) -> io::Result<Option<i32>> {
    const NETNSA_NSID: u16 = 1;
    const NETNSA_FD: u16 = 3;
    let mut bytes = [0; 12];
    bytes[4..6].copy_from_slice(&8_u16.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NETNSA_FD.to_ne_bytes());
    bytes[8..].copy_from_slice(&of.as_raw_fd().to_ne_bytes());
    let request = NsidRequest(bytes);
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(&request)?;
    let mut found = None;
    while let Some(reply) = replies.recv() {
        let attributes = reply.map_err(plain)?;
        let number = attributes.get(2..4).filter(|kind| **kind == NETNSA_NSID.to_ne_bytes()).and(attributes.get(4..8));
        found = number.and_then(|number| number.try_into().ok()).map(i32::from_ne_bytes).or(found);
    }
    Ok(found.filter(|number| *number >= 0))
}

/// All interfaces with their counters: number, name, whether it is up.
pub(crate) fn counters() -> io::Result<Vec<(u32, String, bool, Counters)>> {
    each(|header, attributes| {
        let is_up = header.ifi_flags & IfinfoFlags::Up as u32 != 0;
        let counters = attributes.get_stats64().map_err(io::Error::other)?;
        Ok((index_of(header), name_of(attributes)?, is_up, counters))
    })
}

/// Counters of an interface, and of a virtual one what it is (`veth`).
pub(crate) fn received(ifindex: u32) -> io::Result<(Counters, Option<String>)> {
    let request = rt_link::Request::new().op_getlink_do(&header(ifindex));
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(&request)?;
    let (_, attributes) = replies.recv_one().map_err(plain)?;
    let kind =
        attributes.get_linkinfo().and_then(|info| info.get_kind().map(|kind| kind.to_string_lossy().into_owned()));
    Ok((attributes.get_stats64().map_err(io::Error::other)?, kind.ok()))
}

/// Name of an interface. `ENODEV` where the namespace has none with this number.
pub(crate) fn name(ifindex: u32) -> io::Result<String> {
    name_and_state(ifindex).map(|(name, _)| name)
}

/// The same, and whether it is up (`IFF_UP` of `netdevice(7)`).
pub(crate) fn name_and_state(ifindex: u32) -> io::Result<(String, bool)> {
    let request = rt_link::Request::new().op_getlink_do(&header(ifindex));
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(&request)?;
    let (header, attributes) = replies.recv_one().map_err(|error| match error.as_io_error().raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => plain(error),
    })?;
    Ok((name_of(&attributes)?, header.ifi_flags & IfinfoFlags::Up as u32 != 0))
}

/// Whether packets pass: the kernel activates a transmit queue some time after its interface came up, and drops what it
/// is given before.
pub(crate) fn is_operational(name: &str) -> io::Result<bool> {
    /// `include/uapi/linux/if.h`.
    const IF_OPER_UP: u8 = 6;
    named(name, |_, attributes| Ok(attributes.get_operstate().map_err(io::Error::other)? == IF_OPER_UP))
}

/// Whether an XDP program is attached.
pub(crate) fn has_xdp(name: &str) -> io::Result<bool> {
    named(name, |_, attributes| {
        let attached = attributes.get_xdp().and_then(|xdp| xdp.get_attached());
        Ok(attached.is_ok_and(|mode| mode != 0))
    })
}

/// What to change of an interface.
#[derive(Default)]
pub(crate) struct Change<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) mtu: Option<u32>,
    pub(crate) netns: Option<BorrowedFd<'a>>,
    pub(crate) up: Option<bool>,
}

pub(crate) fn change(ifindex: u32, change: &Change<'_>) -> io::Result<()> {
    let up = IfinfoFlags::Up as u32;
    let (flags, mask) = change.up.map_or((0, 0), |wanted| (if wanted { up } else { 0 }, up));
    let header = Ifinfomsg { ifi_flags: flags, ifi_change: mask, ..header(ifindex) };
    let mut request = rt_link::Request::new().op_setlink_do(&header);
    let mut attributes = request.encode();
    if let Some(name) = change.name {
        attributes = attributes.push_ifname_bytes(name.as_bytes());
    }
    if let Some(mac) = change.mac {
        attributes = attributes.push_address(&mac);
    }
    if let Some(mtu) = change.mtu {
        attributes = attributes.push_mtu(mtu);
    }
    if let Some(netns) = change.netns {
        attributes = attributes.push_net_ns_fd(netns.as_raw_fd().cast_unsigned());
    }
    drop(attributes);
    NetlinkSocket::new().request(&request)?.recv_ack().map_err(plain)
}

pub(crate) fn delete(ifindex: u32) -> io::Result<()> {
    let request = rt_link::Request::new().op_dellink_do(&header(ifindex));
    NetlinkSocket::new().request(&request)?.recv_ack().map_err(plain)
}

pub(crate) fn add_address(ifindex: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
    let family = family(address);
    let header = Ifaddrmsg { ifa_family: family, ifa_index: ifindex, ifa_prefixlen: prefix, ..Default::default() };
    let mut request = rt_addr::Request::new().set_create().op_newaddr_do(&header);
    let attributes = request.encode().push_local(address);
    if address.is_ipv6() {
        drop(attributes.push_flags(IFA_F_NODAD));
    } else {
        drop(attributes);
    }
    NetlinkSocket::new().request(&request)?.recv_ack().map_err(plain)
}

/// Addresses of all interfaces, with the lengths of their prefixes, and whose they are.
fn each_address() -> io::Result<Vec<(IpAddr, u8, u32)>> {
    let request = rt_addr::Request::new().op_getaddr_dump(&Ifaddrmsg::default());
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(&request)?;
    let mut found = Vec::new();
    while let Some(reply) = replies.recv() {
        let (header, attributes) = reply.map_err(plain)?;
        // Of a point-to-point interface `IFA_ADDRESS` is the peer's; IPv6 has that one alone.
        if let Ok(address) = attributes.get_local().or_else(|_| attributes.get_address()) {
            found.push((address, header.ifa_prefixlen, header.ifa_index));
        }
    }
    Ok(found)
}

/// Addresses of all interfaces, and whose they are.
pub(crate) fn all_addresses() -> io::Result<Vec<(IpAddr, u32)>> {
    Ok(each_address()?.into_iter().map(|(address, _, ifindex)| (address, ifindex)).collect())
}

/// Addresses of an interface, with the lengths of their prefixes.
pub(crate) fn addresses(ifindex: u32) -> io::Result<Vec<(IpAddr, u8)>> {
    let own = each_address()?.into_iter().filter(|(.., of)| *of == ifindex);
    Ok(own.map(|(address, prefix, _)| (address, prefix)).collect())
}

pub(crate) fn add_neighbour(ifindex: u32, address: IpAddr, mac: [u8; 6]) -> io::Result<()> {
    let header = Ndmsg {
        ndm_family: family(address),
        ndm_ifindex: ifindex.cast_signed(),
        ndm_state: NUD_PERMANENT,
        ..Default::default()
    };
    let mut request = rt_neigh::Request::new().set_create().set_replace().op_newneigh_do(&header);
    request.encode().push_dst(address).push_lladdr(&mac);
    NetlinkSocket::new().request(&request)?.recv_ack().map_err(plain)
}

fn header(ifindex: u32) -> Ifinfomsg {
    Ifinfomsg { ifi_index: ifindex.cast_signed(), ..Default::default() }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

//! Where a program listens, as its namespace tells (`proc_pid_net(5)`). Others may listen there too, so that only sockets count of
//! which the program has a descriptor.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use napier_kv::load::net::Proto;

/// Ports that are taken first where there are several: memcached's and Redis'.
const KNOWN_PORTS: [u16; 2] = [11_211, 6379];

/// Addresses and ports at which something listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listening(Vec<(IpAddr, u16)>);

impl Listening {
    /// Of processes that are in one network namespace.
    pub(super) fn of(pids: &[u32], proto: Proto) -> Self {
        let tables = match proto {
            Proto::Tcp => ["tcp", "tcp6"],
            Proto::Udp => ["udp", "udp6"],
        };
        let own: HashSet<u64> = pids.iter().flat_map(|pid| sockets_of(*pid)).collect();
        // A process that has just ended listens nowhere.
        let read = |table: &&str| {
            pids.iter()
                .find_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok())
                .unwrap_or_default()
        };
        let is_own = &|inode: Option<u64>| inode.is_some_and(|inode| own.contains(&inode));
        Self(tables.iter().flat_map(|table| parse(&read(table), proto, is_own)).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The port at which requests to this address arrive.
    pub(super) fn port(&self, address: IpAddr) -> Option<u16> {
        let reached = self.0.iter().filter(|(at, _)| at.is_unspecified() || *at == address).map(|(_, port)| *port);
        let mut ports: Vec<u16> = reached.collect();
        ports.sort_unstable();
        KNOWN_PORTS.into_iter().find(|known| ports.contains(known)).or(ports.first().copied())
    }

    /// Why none is reached.
    pub(super) fn out_of_reach(&self, address: Ipv4Addr) -> String {
        let at: Vec<String> =
            self.0.iter().map(|(at, port)| std::net::SocketAddr::new(*at, *port).to_string()).collect();
        format!(
            "it listens at {} alone, and requests come over an interface with the address {address}: let it listen on all \
             addresses (memcached -l 0.0.0.0, redis-server --bind 0.0.0.0)",
            at.join(", ")
        )
    }
}

/// What is said of a program that listens nowhere.
pub(super) fn nothing(proto: Proto, within: Duration) -> String {
    let port = match proto {
        Proto::Tcp => "TCP port",
        Proto::Udp => "UDP port (memcached needs -U 11211, and redis has none: --proto tcp)",
    };
    format!("within {} s it listened on no {port}", within.as_secs())
}

/// Inodes of the sockets that a process has descriptors of: links to `socket:[4711]`.
fn sockets_of(pid: u32) -> Vec<u64> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let inode = |to: &str| to.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    entries.filter_map(|entry| inode(std::fs::read_link(entry.path()).ok()?.to_str()?)).collect()
}

/// Listening sockets of a table: `sl local_address rem_address st ... inode`, those alone whose inode is one.
fn parse(table: &str, proto: Proto, is_own: &dyn Fn(Option<u64>) -> bool) -> Vec<(IpAddr, u16)> {
    // `include/net/tcp_states.h`: TCP_LISTEN; a datagram socket without a peer is in TCP_CLOSE.
    let listens = match proto {
        Proto::Tcp => "0A",
        Proto::Udp => "07",
    };
    let line = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _, state) = (words.next()?, words.next()?, words.next()?);
        let (address, port) = local.split_once(':')?;
        // tx:rx, tr:when, retrnsmt, uid, timeout, inode
        let inode = words.nth(5).and_then(|inode| inode.parse().ok());
        (state == listens && is_own(inode)).then_some((address_of(address)?, u16::from_str_radix(port, 16).ok()?))
    };
    table.lines().skip(1).filter_map(line).collect()
}

/// An address as words of 32 bits in the machine's order.
fn address_of(hex: &str) -> Option<IpAddr> {
    let words: Vec<[u8; 4]> = hex
        .as_bytes()
        .chunks(8)
        .map(|word| Some(u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?.to_ne_bytes()))
        .collect::<Option<_>>()?;
    match words[..] {
        [v4] => Some(IpAddr::from(v4)),
        [a, b, c, d] => {
            let bytes: [u8; 16] = [a, b, c, d].concat().try_into().ok()?;
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "  sl  local_address rem_address   st tx_queue\n   0: 0100007F:2BCB 00000000:0000 0A 0:0\n   1: \
                       00000000:18EB 00000000:0000 0A 0:0\n   2: 01004D0A:2BCB 02004D0A:4E20 01 0:0\n";
    const TCP6: &str = "head\n   0: 00000000000000000000000000000000:2BCB 0:0 0A\n   1: 00000000000000000000000001000000:0050 0:0 0A\n";

    const ALL: &dyn Fn(Option<u64>) -> bool = &|_| true;

    #[test]
    fn sockets_of_others_do_not_count() {
        let table =
            "head\n 0: 00000000:2BCB 0:0 0A 0:0 0:0 0 0 0 700 1 x\n 1: 00000000:18EB 0:0 0A 0:0 0:0 0 0 0 701 1 x\n";
        let of = |inode| parse(table, Proto::Tcp, &move |own| own == Some(inode));
        assert_eq!((of(701), of(7)), (vec![([0, 0, 0, 0].into(), 6379)], vec![]));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(Listening::of(&[std::process::id()], Proto::Tcp).port([127, 0, 0, 1].into()).is_some(), port > 0);
    }

    #[test]
    fn the_kernels_tables_are_read() {
        let v4 = parse(TCP, Proto::Tcp, ALL);
        assert_eq!(v4, [([127, 0, 0, 1].into(), 11_211), ([0, 0, 0, 0].into(), 6379)]);
        let v6 = parse(TCP6, Proto::Tcp, ALL);
        assert_eq!(v6, [(Ipv6Addr::UNSPECIFIED.into(), 11_211), (Ipv6Addr::LOCALHOST.into(), 80)]);
        assert_eq!(parse(TCP, Proto::Udp, ALL), []);
        assert_eq!(parse("head\n 0: x:y\n", Proto::Tcp, ALL), []);
    }

    #[test]
    fn a_port_is_one_that_the_interface_reaches() {
        let here = IpAddr::from([10, 77, 0, 1]);
        assert_eq!(Listening(parse(TCP, Proto::Tcp, ALL)).port(here), Some(6379));
        assert_eq!(Listening(parse(TCP6, Proto::Tcp, ALL)).port(here), Some(11_211));
        let loopback = Listening(vec![([127, 0, 0, 1].into(), 11_211)]);
        assert_eq!(loopback.port(here), None);
        assert!(loopback.out_of_reach([10, 77, 0, 1].into()).contains("127.0.0.1:11211 alone"));
    }
}

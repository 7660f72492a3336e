//! TCP connections to a program's ports as the kernel knows them: round trips, bytes, retransmissions. Nothing of the program is touched: the
//! kernel fills a row for each connection that passes a filter, and holds its lock for that long. Source: `sock_diag(7)`,
//! `include/uapi/linux/inet_diag.h`, `include/uapi/linux/tcp.h struct tcp_info`, `net/ipv4/inet_diag.c inet_diag_bc_run`,
//! `net/ipv4/tcp.c tcp_get_info`.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use crate::Netns;
use crate::descriptors::sockets::{BUFFER, LISTEN, MESSAGE, dump, open, request};
use crate::descriptors::{Kind, Process};
use crate::netdev::attributes;
use crate::process::Roots;

/// Ports that a filter names; a program that listens on more is looked at by all connections of its namespace.
const PORTS_MAX: usize = 64;
/// `INET_DIAG_INFO`, as an attribute and as a bit of what is asked for.
const INFO: u16 = 2;
/// `include/net/tcp_states.h`: those that carry data from the peer, or may.
const CONNECTED: u32 = 1 << 1 | 1 << 8;
/// Where the lower half of a number of 64 bits is.
const LOW: usize = if cfg!(target_endian = "big") { 4 } else { 0 };
const TCP: u8 = libc::IPPROTO_TCP as u8;

/// One connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnectionRow {
    /// `SO_COOKIE`: no other socket gets it.
    pub cookie: u64,
    /// Its own port.
    pub port: u16,
    /// Smoothed round trip of its segments in us: seven eighths of what it was, one eighth of the newest. It ends when the peer acknowledges, so it has in it
    /// what the packet of the acknowledgement waited here, and what the peer waited before it sent that; it is not how long a request takes.
    pub srtt_us: u32,
    /// Its deviation.
    pub rttvar_us: u32,
    /// Shortest round trip of the last minutes (`net.ipv4.tcp_min_rtt_wlen`).
    pub min_rtt_us: u32,
    /// Segments that came.
    pub segs_in: u32,
    /// Of these, with data.
    pub data_segs_in: u32,
    /// Bytes that came.
    pub bytes_received: u64,
    /// Bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Segments that were sent again.
    pub retransmissions: u32,
    /// Bytes in a second, as last estimated; of a program that has little to send it is what it had.
    pub delivery_rate: u64,
}

/// Why a program's connections cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionsError {
    /// It has none to look at.
    #[error("it listens on no TCP port and has no TCP connection")]
    NoTcp,
    /// Its descriptors are not to be seen.
    #[error("its descriptors cannot be looked at: {0}; run it as root")]
    Hidden(io::Error),
    /// The kernel does not list sockets.
    #[error("the kernel lists no sockets here (sock_diag): {0}")]
    NotListed(io::Error),
}

/// Which are the program's.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Which {
    /// Those on ports on which it listens.
    Ports(BTreeSet<u16>),
    /// It listens on none: those that it has, by inode.
    Inodes(BTreeSet<u64>),
}

/// Looks at a program's connections.
#[derive(Debug)]
pub struct Connections {
    fd: OwnedFd,
    families: Vec<u8>,
    which: Which,
    program: Vec<u8>,
    buffer: Vec<u8>,
}

impl Connections {
    /// Those of a program that runs, in its network namespace.
    ///
    /// # Errors
    /// [`ConnectionsError`].
    pub fn of(roots: &Roots) -> Result<Self, ConnectionsError> {
        let processes: Vec<Process> = roots.pids().into_iter().filter_map(|pid| Process::open(pid).ok()).collect();
        let (mut inodes, mut refused) = (BTreeSet::new(), None);
        for process in &processes {
            match process.descriptors() {
                Ok(found) => inodes.extend(found.into_iter().filter_map(|(_, kind)| match kind {
                    Kind::Socket(inode) => Some(inode),
                    Kind::Epoll | Kind::Ring(_) => None,
                })),
                Err(error) => refused = Some(io::Error::other(error.to_string())),
            }
        }
        match refused {
            Some(error) if inodes.is_empty() => return Err(ConnectionsError::Hidden(error)),
            _ => {}
        }
        let netns = processes.iter().find_map(Process::netns_apart);
        let fd = open_in(netns.as_ref()).map_err(ConnectionsError::NotListed)?;
        Self::by(fd, &inodes)
    }

    /// Those of sockets with these inodes, or on the ports of those that listen.
    fn by(fd: OwnedFd, inodes: &BTreeSet<u64>) -> Result<Self, ConnectionsError> {
        let mut buffer = vec![0; BUFFER];
        let (mut listening, mut connected) = (BTreeSet::new(), BTreeSet::new());
        for family in FAMILIES {
            let asked = request(family, TCP, CONNECTED | 1 << LISTEN, 0, &[]);
            let mut each = |message: &[u8]| {
                let Some(head) = DiagHead::parse(message).filter(|head| inodes.contains(&head.inode)) else { return };
                let place = if head.is_listening { &mut listening } else { &mut connected };
                place.insert((family, head.port));
            };
            dump(&fd, &mut buffer, &asked, &mut each).map_err(ConnectionsError::NotListed)?;
        }
        let places = if listening.is_empty() { &connected } else { &listening };
        if places.is_empty() {
            return Err(ConnectionsError::NoTcp);
        }
        let families: BTreeSet<u8> = places.iter().map(|(family, _)| *family).collect();
        let which = match listening.is_empty() {
            true => Which::Inodes(inodes.clone()),
            false => Which::Ports(listening.iter().map(|(_, port)| *port).collect()),
        };
        let program = match &which {
            Which::Ports(ports) if ports.len() <= PORTS_MAX => filter(ports),
            Which::Ports(_) | Which::Inodes(_) => Vec::new(),
        };
        Ok(Self { fd, families: families.into_iter().collect(), which, program, buffer })
    }

    /// The ports on which it listens; empty where its connections are known by their descriptors.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        match &self.which {
            Which::Ports(ports) => ports.iter().copied().collect(),
            Which::Inodes(_) => Vec::new(),
        }
    }

    /// All that there are now, one dump for each family of addresses.
    ///
    /// # Errors
    /// As the system says it.
    pub fn look(&mut self, each: &mut dyn FnMut(ConnectionRow)) -> io::Result<()> {
        let Self { fd, families, which, program, buffer } = self;
        for family in families {
            let asked = request(*family, TCP, CONNECTED, 1 << (INFO - 1), program);
            dump(fd, buffer, &asked, &mut |message| {
                let Some(head) = DiagHead::parse(message) else { return };
                let is_its = match which {
                    Which::Ports(ports) => ports.contains(&head.port),
                    Which::Inodes(inodes) => inodes.contains(&head.inode),
                };
                if let Some(row) = is_its.then(|| row(&head, message)).flatten() {
                    each(row);
                }
            })?;
        }
        Ok(())
    }
}

const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];

fn open_in(netns: Option<&Netns>) -> io::Result<OwnedFd> {
    netns.map_or_else(open, |netns| netns.run(open).map_err(io::Error::other)?)
}

/// `struct inet_diag_msg`, as far as it is used.
struct DiagHead {
    inode: u64,
    cookie: u64,
    port: u16,
    is_listening: bool,
}

impl DiagHead {
    fn parse(message: &[u8]) -> Option<Self> {
        let message: &[u8; MESSAGE] = message.first_chunk()?;
        let word = |at: usize| u32::from_ne_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]);
        Some(Self {
            inode: word(68).into(),
            cookie: u64::from(word(44)) | u64::from(word(48)) << 32,
            port: u16::from_be_bytes([message[4], message[5]]),
            is_listening: message[1] == LISTEN,
        })
    }
}

/// A row of an answer; `None` where this kernel's `struct tcp_info` has less (before Linux 4.9).
fn row(head: &DiagHead, message: &[u8]) -> Option<ConnectionRow> {
    // Many rows come at a time: the struct is cut to what is read of it once.
    const READ: usize = 168;
    let mut all = attributes(message.get(MESSAGE..)?).flatten();
    let info: &[u8; READ] = all.find_map(|(kind, value)| (kind == INFO).then_some(value))?.first_chunk()?;
    let word = |at: usize| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    let long = |at: usize| u64::from(word(at + LOW)) | u64::from(word(at + 4 - LOW)) << 32;
    Some(ConnectionRow {
        cookie: head.cookie,
        port: head.port,
        srtt_us: word(68),
        rttvar_us: word(72),
        retransmissions: word(100),
        bytes_acked: long(120),
        bytes_received: long(128),
        segs_in: word(140),
        min_rtt_us: word(148),
        data_segs_in: word(152),
        delivery_rate: long(160),
    })
}

/// Lets sockets on these ports pass: each port is a comparison of 8 bytes, and a jump to the end where it holds, but for the last, behind which the end
/// is. What is jumped 4 bytes beyond the end does not pass. Source: `struct inet_diag_bc_op`, `inet_diag_bc_audit`.
fn filter(ports: &BTreeSet<u16>) -> Vec<u8> {
    /// `INET_DIAG_BC_JMP`, `INET_DIAG_BC_S_EQ` (since Linux 4.16).
    const JUMP: u8 = 1;
    const SAME: u8 = 11;
    /// A comparison and the jump behind it.
    const STEP: u16 = 12;
    let op = |code: u8, yes: u8, no: u16| {
        let no = no.to_ne_bytes();
        [code, yes, no[0], no[1]]
    };
    let mut program = Vec::new();
    for (at, port) in ports.iter().enumerate() {
        let behind = u16::try_from(ports.len() - 1 - at).expect("a few ports");
        program.extend(op(SAME, 8, STEP));
        program.extend(op(0, 0, *port));
        if behind > 0 {
            // From here to the end: the last step has no jump, and this jump is counted instead.
            program.extend(op(JUMP, 4, behind * STEP));
        }
    }
    program
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;

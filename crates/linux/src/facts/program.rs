//! A program, from outside: its threads in `/proc`, its descriptors by `pidfd_getfd(2)`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use napier_core::control::NapiInfo;
use rustix::net::{getpeername, getsockname};

use super::machine::{names, text};
use super::{Epoll, EpollParams, FactsError, Program, Ring, Socket, Thread};
use crate::change::KeyError;
use crate::descriptors::copies::{self, Asked};
use crate::descriptors::ring::RingState;
use crate::descriptors::{Kind, Process, RingValue};
use crate::socket::BusyOption;
use crate::{Netns, epoll, link, netdev, socket, sys};

/// Descriptors of a program that are looked at; of more it is said.
const DESCRIPTORS_MAX: usize = 16384;

/// The namespace of a process, or of a thread.
///
/// # Errors
/// There is no such process, or it is another user's.
pub fn namespace_of(pid: u32) -> io::Result<Netns> {
    Ok(Netns::of(File::open(format!("/proc/{pid}/ns/net"))?.into()))
}

/// What a process has now, with what could not be seen of it. Its connections are counted by the interfaces of the calling thread's namespace; if
/// it is in another one, by those here whose instances its sockets have learned, and the others by `NAME of its namespace`.
///
/// # Errors
/// There is no such process.
pub fn program(pid: u32) -> Result<(Program, Vec<String>), FactsError> {
    let mut unseen = Vec::new();
    read(pid, &mut unseen).map(|program| (program, unseen))
}

pub(super) fn read(pid: u32, unseen: &mut Vec<String>) -> Result<Program, FactsError> {
    let name = text(&format!("/proc/{pid}/comm")).ok_or(FactsError::NoProgram { pid })?;
    let tids = names(&format!("/proc/{pid}/task"), "").into_iter().filter_map(|tid| tid.parse().ok());
    let threads = tids.filter_map(|tid| Thread::of(tid).ok()).collect();
    let mut program = Program { pid, name, threads, ..Program::default() };
    if let Err(why) = descriptors(&mut program, unseen) {
        unseen.push(format!("epoll instances and sockets of {pid}: {why}"));
    }
    Ok(program)
}

/// How often the threads of a process went to sleep so far.
pub(super) fn sleeps(pid: u32) -> Option<u64> {
    let of = |tid: String| {
        let status = text(&format!("/proc/{pid}/task/{tid}/status"))?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse::<u64>().ok()
    };
    let all: Vec<u64> = names(&format!("/proc/{pid}/task"), "").into_iter().filter_map(of).collect();
    if all.is_empty() { None } else { Some(all.iter().sum()) }
}

fn descriptors(program: &mut Program, unseen: &mut Vec<String>) -> Result<(), KeyError> {
    let pid = program.pid;
    let process = Process::open(pid)?;
    let mut found = process.descriptors()?;
    if found.len() > DESCRIPTORS_MAX {
        unseen.push(format!("descriptors of {pid} beyond the first {DESCRIPTORS_MAX}"));
        found.truncate(DESCRIPTORS_MAX);
    }
    // A copy has effects: each is there for these calls only, and no thread waits for its close.
    let asked = found.iter().map(|(fd, kind)| Asked { process: process.clone(), fd: *fd, kind: *kind }).collect();
    let (wanted, places) = (found.clone(), Places::of(&process));
    let answers = copies::each(asked, move |at, copy| match wanted[at] {
        (fd, Kind::Epoll) => DescriptorFacts::Epoll(epoll_facts(pid, fd, copy)),
        (fd, Kind::Ring(_)) => DescriptorFacts::Ring(ring_facts(fd, copy)),
        (fd, Kind::Socket(_)) => DescriptorFacts::Socket(fd, socket_facts(fd, copy), ends(copy)),
    });
    for answer in answers {
        match answer {
            Ok(DescriptorFacts::Epoll(epoll)) => program.epolls.push(epoll),
            Ok(DescriptorFacts::Ring(ring)) => program.rings.push(ring),
            Ok(DescriptorFacts::Socket(fd, socket, ends)) => {
                places.note(fd, ends, socket.as_ref().and_then(|facts| facts.napi_id), program);
                program.sockets.extend(socket);
            }
            // A descriptor that was closed meanwhile is passed over.
            Err(KeyError::Gone(_) | KeyError::Away(_)) => {}
            Err(error) => return Err(error),
        }
    }
    program.epolls.sort_by_key(|epoll| epoll.fd);
    program.sockets.sort_by_key(|socket| socket.fd);
    program.rings.sort_by_key(|ring| ring.fd);
    Ok(())
}

enum DescriptorFacts {
    Epoll(Epoll),
    Ring(Ring),
    Socket(i32, Option<Socket>, ConnectionEnds),
}

fn epoll_facts(pid: u32, fd: i32, own: BorrowedFd<'_>) -> Epoll {
    let params = epoll::params(own).ok().map(|params| EpollParams {
        busy_poll_usecs: params.busy_poll_usecs,
        busy_poll_budget: params.busy_poll_budget,
        prefer_busy_poll: params.prefer_busy_poll,
    });
    // `proc_pid_fdinfo(5)`: a line for each descriptor that it waits for.
    let info = text(&format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let member = |line: &str| line.strip_prefix("tfd:")?.split_whitespace().next()?.parse().ok();
    Epoll { fd, params, members: info.lines().filter_map(member).collect() }
}

/// `None` for a socket that neither busy polls nor has received from an instance.
fn socket_facts(fd: i32, own: BorrowedFd<'_>) -> Option<Socket> {
    let get = |option| socket::get(own, option).unwrap_or(0);
    let napi_id = u32::try_from(get(BusyOption::IncomingNapiId)).ok().filter(|id| *id != 0);
    let busy_poll_usecs = u32::try_from(get(BusyOption::BusyPoll)).unwrap_or(0);
    let prefer_busy_poll = get(BusyOption::PreferBusyPoll) != 0;
    let is_any = napi_id.is_some() || busy_poll_usecs != 0 || prefer_busy_poll;
    is_any.then_some(Socket { fd, busy_poll_usecs, prefer_busy_poll, napi_id })
}

fn ring_facts(fd: i32, own: BorrowedFd<'_>) -> Ring {
    let (polls, value) = match RingState::of(own) {
        Ok(RingState::Off) => (Some(false), RingValue::default()),
        Ok(RingState::Polls(value) | RingState::Named(value)) => (Some(true), value),
        Err(_) => (None, RingValue::default()),
    };
    Ring { fd, polls, busy_poll_usecs: value.busy_poll_usecs, prefer_busy_poll: value.prefer_busy_poll }
}

/// What a socket is between.
enum ConnectionEnds {
    /// It is of another family.
    Other,
    /// Own address and peer's, if it is connected.
    Internet(Option<(IpAddr, IpAddr)>),
}

fn ends(socket: BorrowedFd<'_>) -> ConnectionEnds {
    let domain = sys::socket_option(socket, libc::SO_DOMAIN).unwrap_or(-1);
    if domain != libc::AF_INET && domain != libc::AF_INET6 {
        return ConnectionEnds::Other;
    }
    let address = |found: rustix::io::Result<rustix::net::SocketAddrAny>| {
        found.ok().and_then(|found| SocketAddr::try_from(found).ok()).map(|address| address.ip().to_canonical())
    };
    let peer = getpeername(socket).and_then(|peer| peer.ok_or(rustix::io::Errno::NOTCONN));
    ConnectionEnds::Internet(address(getsockname(socket)).zip(address(peer)))
}

/// Which address is which interface's, in the namespace of a program.
struct Places {
    addresses: BTreeMap<IpAddr, String>,
    /// Which instance is which interface's in the namespace of the calling thread, if the program is in another one.
    instances: Option<BTreeMap<u32, String>>,
}

/// By what the interfaces of a program's own namespace are told from those of the calling thread's.
const THERE: &str = " of its namespace";

impl Places {
    fn of(process: &Process) -> Self {
        match process.netns_apart() {
            None => Self { addresses: addresses(""), instances: None },
            Some(netns) => {
                let names = interfaces();
                let infos = netdev::napi_dump(None).unwrap_or_default();
                let instance = |info: NapiInfo| Some((info.id, names.get(&info.ifindex)?.clone()));
                let addresses = netns.run(|| addresses(THERE)).unwrap_or_default();
                Self { addresses, instances: Some(infos.into_iter().filter_map(instance).collect()) }
            }
        }
    }

    /// Where the packets of a connection between these two come in: of one with an address of our own, by loopback.
    fn by_address(&self, own: IpAddr, peer: IpAddr) -> Option<&str> {
        let is_here = peer.is_loopback() || self.addresses.contains_key(&peer);
        if is_here { Some("lo") } else { self.addresses.get(&own).map(String::as_str) }
    }

    /// Counts a socket where its packets come in.
    fn note(&self, fd: i32, ends: ConnectionEnds, napi_id: Option<u32>, program: &mut Program) {
        let ConnectionEnds::Internet(ends) = ends else { return };
        program.internet.insert(fd);
        let Some((own, peer)) = ends else { return };
        let learned = napi_id.and_then(|id| self.instances.as_ref()?.get(&id)).map(String::as_str);
        if let Some(device) = learned.or_else(|| self.by_address(own, peer)) {
            let through = program.connections.entry(device.to_owned()).or_default();
            through.count += 1;
            through.with_id += u32::from(napi_id.is_some());
        }
    }
}

/// Interfaces of the calling thread's namespace, by their numbers.
fn interfaces() -> BTreeMap<u32, String> {
    link::all().unwrap_or_default().into_iter().map(|(ifindex, name, _)| (ifindex, name)).collect()
}

/// Addresses of the calling thread's namespace and the names of their interfaces, with `end` behind.
fn addresses(end: &str) -> BTreeMap<IpAddr, String> {
    let names = interfaces();
    let named = |(address, ifindex): (IpAddr, u32)| Some((address, format!("{}{end}", names.get(&ifindex)?)));
    link::all_addresses().unwrap_or_default().into_iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_with_an_address_of_this_machine_come_by_loopback() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let addresses = [(ip("10.0.0.1"), "eth0".to_owned()), (ip("127.0.0.1"), "lo".to_owned())].into();
        let places = Places { addresses, instances: None };
        assert_eq!(places.by_address(ip("10.0.0.1"), ip("10.0.0.2")), Some("eth0"));
        assert_eq!(places.by_address(ip("10.0.0.1"), ip("10.0.0.1")), Some("lo"));
        assert_eq!(places.by_address(ip("127.0.0.1"), ip("127.0.0.1")), Some("lo"));
        assert_eq!(places.by_address(ip("10.0.0.9"), ip("10.0.0.2")), None, "an address that has gone");
    }

    #[test]
    fn own_connections_and_epoll_instances_are_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let client = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let (server, _) = listener.accept().expect("accepted");
        let inner = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).expect("made");
        let outer = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).expect("made");
        let data = rustix::event::epoll::EventData::new_u64(0);
        let readable = rustix::event::epoll::EventFlags::IN;
        rustix::event::epoll::add(&inner, &server, data, readable).expect("added");
        rustix::event::epoll::add(&outer, &inner, data, readable).expect("added");
        let (found, unseen) = program(std::process::id()).expect("it runs");
        if !unseen.is_empty() {
            return napier_testkit::skip!("own_connections_and_epoll_instances_are_found", "{unseen:?}");
        }
        use std::os::fd::AsRawFd as _;
        assert!([client.as_raw_fd(), listener.as_raw_fd()].iter().all(|fd| found.internet.contains(fd)));
        assert!(found.connections["lo"].count >= 2, "{:?}", found.connections);
        assert_eq!(found.outer_of(inner.as_raw_fd()), Some(outer.as_raw_fd()));
        assert_eq!(found.outer_of(outer.as_raw_fd()), None);
    }
}

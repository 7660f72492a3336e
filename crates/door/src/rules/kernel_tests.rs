//! The kernel is asked the same: any sequence of calls on one of its sockets at loopback, beside the table.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept, bind, connect, connect_unspec, getpeername,
    listen, recv, sendto, socket_with,
};

use super::*;

/// Where connections lead: to one that takes them, and to one that answers no SYN because as many wait as may.
struct Places {
    open: TcpListener,
    full: OwnedFd,
    /// What fills it.
    _waits: TcpStream,
}

fn local(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().expect("bound")
}

fn made() -> OwnedFd {
    socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket")
}

fn address_of(socket: &OwnedFd) -> SocketAddr {
    rustix::net::getsockname(socket).expect("bound").try_into().expect("an address of IP")
}

impl Places {
    fn new() -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let full = made();
        bind(&full, &any).expect("bound");
        // One may wait (`include/net/sock.h sk_acceptq_is_full`).
        listen(&full, 0).expect("it listens");
        let waits = TcpStream::connect(address_of(&full)).expect("connected");
        // It is full when the last segment of that handshake has come, which may be later.
        let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(&full, PollFlags::IN)], Some(&patience)), Ok(1), "one waits there");
        Self { open: TcpListener::bind(any).expect("bound"), full, _waits: waits }
    }
}

/// What is asked, as numbers that proptest makes.
const ASKED: [AskedOfSocket; 9] = [
    AskedOfSocket::Bind(Whose::Engine),
    AskedOfSocket::Listen,
    AskedOfSocket::Accept,
    AskedOfSocket::Connect(Whose::Engine, true),
    AskedOfSocket::Connect(Whose::Engine, false),
    AskedOfSocket::Dissolve,
    AskedOfSocket::PeerName,
    AskedOfSocket::SendTo,
    AskedOfSocket::Receive,
];

/// Whether the kernel would be asked for something that waits, or that the door refuses because a pair cannot do it.
fn is_left_out(stage: Stage, asked: AskedOfSocket) -> bool {
    let would_wait = matches!((stage, asked), (Stage::Connecting, AskedOfSocket::Connect(_, true)));
    let has_begun = matches!(stage, Stage::Listening | Stage::Connecting | Stage::Connected);
    would_wait || (has_begun && asked == AskedOfSocket::Dissolve)
}

/// Asks the kernel, and keeps what connections need to last.
fn kernel(socket: &OwnedFd, asked: AskedOfSocket, places: &Places, kept: &mut Vec<TcpStream>) -> Result<(), Errno> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let waits = asked == AskedOfSocket::Connect(Whose::Engine, true);
    fcntl_setfl(socket, if waits { OFlags::empty() } else { OFlags::NONBLOCK }).expect("a flag");
    match asked {
        AskedOfSocket::Bind(_) => bind(socket, &any),
        AskedOfSocket::Listen => listen(socket, 4),
        AskedOfSocket::Accept => accept(socket).map(drop),
        AskedOfSocket::Connect(_, true) => connect(socket, &local(&places.open))
            .inspect(|()| kept.push(places.open.accept().expect("it was connected").0)),
        AskedOfSocket::Connect(_, false) => connect(socket, &address_of(&places.full)),
        AskedOfSocket::Dissolve => connect_unspec(socket),
        AskedOfSocket::PeerName => getpeername(socket).map(drop),
        AskedOfSocket::SendTo => {
            sendto(socket, b"x", SendFlags::NOSIGNAL | SendFlags::DONTWAIT, &local(&places.open)).map(drop)
        }
        AskedOfSocket::Receive => recv(socket, &mut [0_u8; 1], RecvFlags::DONTWAIT).map(drop),
    }
}

/// What the kernel says where the table says this, and where the socket is then.
fn expected(stage: Stage, asked: AskedOfSocket) -> (Result<(), Errno>, Stage) {
    let error = |error| Err(Errno::from_raw_os_error(error));
    match (asked, verdict(stage, asked)) {
        (_, Verdict::Refuse(number)) => (error(number), stage),
        (AskedOfSocket::Bind(_), Verdict::Act) => (Ok(()), Stage::Bound { is_any: false }),
        (AskedOfSocket::Listen, Verdict::Act) => (Ok(()), Stage::Listening),
        // None has connected.
        (AskedOfSocket::Accept, Verdict::Act) => (error(libc::EAGAIN), stage),
        (AskedOfSocket::Connect(_, true), Verdict::Act) => (Ok(()), Stage::Connected),
        (AskedOfSocket::Connect(_, false), Verdict::Act) => (error(libc::EINPROGRESS), Stage::Connecting),
        // It does not block here.
        (AskedOfSocket::SendTo, Verdict::Wait) | (AskedOfSocket::Receive, Verdict::Act) => (error(libc::EAGAIN), stage),
        (AskedOfSocket::PeerName | AskedOfSocket::SendTo, Verdict::Act) | (AskedOfSocket::Dissolve, Verdict::Done) => {
            (Ok(()), stage)
        }
        (asked, answer) => panic!("{stage:?} {asked:?} {answer:?}"),
    }
}

fn agree(calls: &[usize], places: &Places) {
    let (socket, mut kept) = (made(), Vec::new());
    let mut stage = Stage::Fresh;
    for (at, call) in calls.iter().enumerate() {
        let asked = ASKED[*call];
        if is_left_out(stage, asked) {
            continue;
        }
        let (answer, then) = expected(stage, asked);
        assert_eq!(kernel(&socket, asked, places, &mut kept), answer, "{stage:?} {asked:?} after {:?}", &calls[..at]);
        stage = then;
    }
}

#[test]
fn the_kernel_answers_any_sequence_of_calls_as_the_table_does() {
    let places = Places::new();
    // All of three calls, and some longer ones.
    for calls in 0..ASKED.len().pow(3) {
        agree(&[calls % ASKED.len(), calls / ASKED.len() % ASKED.len(), calls / ASKED.len().pow(2)], &places);
    }
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 150, ..ProptestConfig::default() });
    let sequences = prop::collection::vec(0..ASKED.len(), 4..14);
    let done = runner.run(&sequences, |calls| {
        agree(&calls, &places);
        Ok(())
    });
    done.expect("the kernel and the table agree");
}

//! A program: its sockets, and what is done for its calls and at events of them. Two threads have it in turn: its own one (`thread`), which does its calls and shares nothing with
//! those of other programs, so that one that stalls it, by memory that takes long to read, stalls itself; and the carrier of its bytes (`carrier`).

mod accept;
mod calls;
mod carrier;
mod connect;
mod datagrams;
mod rights;
mod rings;
mod send;
mod settings;
mod socket;
mod thread;
mod timed;
mod token;
mod turn;
mod twin;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use napier_linux::process::{Given, HeldSocketCall, Notifier, OptionRights};
use napier_runtime::control::mode::Mode;
use napier_runtime::engine::Engine;
use napier_runtime::event::EventContext;
use napier_runtime::socket::{NetNs, SocketOption};
use rustix::event::epoll;
use rustix::net::sockopt::set_socket_linger;

use crate::near::{Near, NearBell};
use crate::near_datagrams::NearDatagrams;
use crate::relay::{CHUNK_BYTES, Far, Relay, Room};
use crate::rules::reach::Reach;
use crate::view::{ShownProgram, SocketView};
pub(crate) use carrier::Carrier;
use carrier::Share;
use rings::ProgramRings;
use socket::{Backlogged, Behind, LastErrors, ProgramSocket, Sockets};
use thread::ThreadWaits;
pub(crate) use thread::{Goodbye, serve};
use timed::Timed;

/// What all programs have of the engine.
pub(crate) struct Offer {
    pub(crate) engine: Engine,
    pub(crate) netns: NetNs,
    pub(crate) reach: Reach,
    /// Of the contexts of carriers.
    pub(crate) mode: Option<Mode>,
    /// Each program has one.
    pub(crate) carriers: Vec<Arc<Carrier>>,
    /// Programs of several users may have it, who share no port.
    pub(crate) for_all_users: bool,
    /// What this kernel asks of programs.
    pub(crate) kernel: OptionRights,
    /// Connections between them.
    pub(crate) near: Arc<Near>,
    /// Datagrams between them.
    pub(crate) near_datagrams: Arc<NearDatagrams>,
}

/// Where a program is served.
struct ServedProgram {
    offer: Arc<Offer>,
    name: String,
    notifier: Notifier,
    /// What its own thread waits for: its calls, and what of its sockets is not carried.
    epoll: Arc<OwnedFd>,
    context: EventContext,
    carrier: Arc<Carrier>,
    /// Its own thread has something to do when it is rung.
    to_thread: Arc<OwnedFd>,
    sockets: Sockets,
    errors: LastErrors,
    /// Connections with more to do.
    again: VecDeque<u64>,
    /// Those that have failed, and how, which its own thread is to tell.
    failed: HashMap<u64, i32>,
    scratch: Box<[u8; CHUNK_BYTES]>,
    /// A datagram and its head; empty until there is a socket for some.
    record: Vec<u8>,
    /// Bytes of datagrams that are left over.
    left_bytes: usize,
    /// For bytes that are left over.
    room: Room,
    /// Of its carrier's turns.
    share: Share,
    /// Connections that wait at all listeners.
    waiting: usize,
    timed: Timed,
    /// Its carrier looks at them, too.
    rings: Arc<Mutex<ProgramRings>>,
    /// By which other programs of the engine tell of connections.
    bell: Arc<NearBell>,
    shown: Arc<ShownProgram>,
    /// No process of the program is left; what it has written is still sent.
    is_over: bool,
}

/// What a program's thread does for its sockets for datagrams.
struct DatagramCalls<'s>(&'s mut ServedProgram);

impl ServedProgram {
    fn new(
        offer: &Arc<Offer>,
        (name, shown): (&str, &Arc<ShownProgram>),
        notifier: Notifier,
        (carrier, waits): (&Arc<Carrier>, &ThreadWaits),
        number: u16,
    ) -> Self {
        Self {
            offer: offer.clone(),
            name: name.to_owned(),
            notifier,
            epoll: waits.epoll.clone(),
            context: waits.context.clone(),
            carrier: carrier.clone(),
            to_thread: waits.to_thread.clone(),
            sockets: Sockets::of_program(number),
            errors: LastErrors::default(),
            again: VecDeque::new(),
            failed: HashMap::new(),
            scratch: Box::new([0; CHUNK_BYTES]),
            record: Vec::new(),
            left_bytes: 0,
            room: Room::default(),
            share: Share::default(),
            waiting: 0,
            timed: Timed::default(),
            rings: Arc::default(),
            bell: waits.bell.clone(),
            shown: shown.clone(),
            is_over: false,
        }
    }

    /// Takes note of a socket, and watches the engine's end of its pair.
    fn enter(&mut self, socket: ProgramSocket) -> io::Result<u64> {
        let token = self.sockets.insert(socket);
        self.watch(token).inspect_err(|_| drop(self.sockets.remove(token)))?;
        Ok(token)
    }

    /// Watches the engine's end of a pair.
    fn watch(&mut self, token: u64) -> io::Result<()> {
        let Self { sockets, epoll, carrier, .. } = self;
        let socket = sockets.get(token).expect("it was entered");
        let by = if socket.is_carried() { &carrier.epoll } else { &**epoll };
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        Ok(epoll::add(by, &socket.own, epoll::EventData::new_u64(token), flags)?)
    }

    /// Lets a socket that this thread has watched be a connection, whose bytes are carried; whether there was room for that.
    fn connected_by(&mut self, token: u64, far: Far) -> bool {
        let Some(socket) = self.sockets.get(token) else { return true };
        let _ = epoll::delete(&*self.epoll, &socket.own);
        self.carry(token, far)
    }

    /// The same with one that no thread watches yet.
    fn carry(&mut self, token: u64, far: Far) -> bool {
        let is_watched = match &far {
            Far::Wire(stream) => self.carrier.context.add(stream, connect::WATCHED, token).is_ok(),
            Far::Near(end, _) => {
                let flags = epoll::EventFlags::from_bits_retain(connect::WATCHED.bits());
                epoll::add(&self.carrier.epoll, end, epoll::EventData::new_u64(token | token::OF_NEAR), flags).is_ok()
            }
        };
        let Some(socket) = self.sockets.get(token) else { return true };
        socket.behind = Behind::Connection(Box::new(Relay::new(far)));
        is_watched && self.watch(token).is_ok()
    }

    /// The program has closed its socket, or it is no socket of the engine's any more.
    fn remove(&mut self, token: u64) {
        self.shown.remove(token);
        let Some(socket) = self.sockets.remove(token) else { return };
        if self.is_over && self.sockets.is_empty() {
            carrier::ring(&self.to_thread);
        }
        for held in socket.sends.0 {
            self.answer(held, Err(libc::EPIPE));
        }
        let calls: Vec<HeldSocketCall> = match socket.behind {
            Behind::Listener(listening) => {
                self.waiting -= listening.waiting.len();
                // As those that no program accepts (`net/ipv4/inet_connection_sock.c inet_csk_listen_stop`).
                for (arrived, _) in &listening.waiting {
                    match arrived {
                        Backlogged::Engine(far) => far.reset_on_close(),
                        Backlogged::Kernel(fd) => {
                            let _ = set_socket_linger(fd, Some(Duration::ZERO));
                        }
                    }
                }
                listening.accepts.into()
            }
            Behind::Handshake { waits, .. } => waits,
            Behind::Connection(mut relay) => {
                turn::note_left(&self.shown, &mut relay);
                relay.close(&mut self.room);
                Vec::new()
            }
            Behind::Datagrams(mut datagrams) => {
                self.left_bytes -= datagrams.forget_left();
                Vec::new()
            }
            Behind::Nothing | Behind::Place { .. } => Vec::new(),
        };
        for held in calls {
            self.answer(held, Err(libc::EINVAL));
        }
    }

    /// Answers a call of no socket in particular.
    fn answer(&mut self, held: HeldSocketCall, result: Result<i32, i32>) {
        self.is_heard(held, result);
    }

    /// Answers such a call; whether the program has the answer.
    fn is_heard(&mut self, held: HeldSocketCall, result: Result<i32, i32>) -> bool {
        let given = self.notifier.answer(held, result);
        self.shown.note(|counts| counts.unheard += u64::from(matches!(given, Ok(Given::Gone))));
        matches!(given, Ok(Given::Heard(_)))
    }

    /// Answers a call that has changed a socket: one that is made again because the program did not hear that gets the same answer.
    fn answer_of(&mut self, token: u64, held: HeldSocketCall, result: Result<i32, i32>) {
        if let Ok(Given::Gone) = self.notifier.answer(held, result) {
            self.shown.note(|counts| counts.unheard += 1);
            // What did not act is done when the call is made again.
            if result != Err(libc::EINTR)
                && let Some(socket) = self.sockets.get(token)
            {
                socket.unheard = Some((held, result));
            }
        }
    }

    /// Those of some calls that still wait; the others have ended, and their places are free.
    fn still_waiting<C: FromIterator<HeldSocketCall>>(&mut self, calls: impl IntoIterator<Item = HeldSocketCall>) -> C {
        let notifier = &mut self.notifier;
        let waits = |held: &HeldSocketCall| {
            let is_waiting = notifier.is_waiting(held);
            if !is_waiting {
                // No program hears it.
                let _ = notifier.answer(*held, Err(libc::EINTR));
            }
            is_waiting
        };
        calls.into_iter().filter(waits).collect()
    }

    /// The call is the kernel's.
    fn leave_to_kernel(&mut self, held: HeldSocketCall) {
        // It may have ended meanwhile.
        let _ = self.notifier.go_on(held);
    }

    /// Shows what has become of a socket.
    fn show(&mut self, token: u64) {
        let Some(socket) = self.sockets.get(token) else { return };
        let (state, waiting) = match &socket.behind {
            Behind::Nothing => ("fresh", 0),
            Behind::Place { .. } => ("bound", 0),
            Behind::Listener(listening) => ("listening", listening.waiting.len()),
            Behind::Handshake { .. } => ("connecting", 0),
            Behind::Connection(_) => ("connected", 0),
            Behind::Datagrams(datagrams) => (datagrams.state(), 0),
        };
        let peer = socket.peer();
        let of_stream = socket.stream().and_then(|stream| stream.getsockopt(SocketOption::IncomingNapiId).ok());
        let of_datagrams = || match &socket.behind {
            Behind::Datagrams(datagrams) => datagrams.socket.as_ref()?.getsockopt(SocketOption::IncomingNapiId).ok(),
            Behind::Nothing
            | Behind::Place { .. }
            | Behind::Listener(_)
            | Behind::Handshake { .. }
            | Behind::Connection(_) => None,
        };
        let napi_id = of_stream.or_else(of_datagrams);
        let napi_id = napi_id.and_then(|id| u32::try_from(id).ok());
        let is_fast = match &socket.behind {
            Behind::Connection(relay) => relay.is_fast(),
            Behind::Datagrams(_) => true,
            Behind::Nothing | Behind::Place { .. } | Behind::Listener(_) | Behind::Handshake { .. } => false,
        };
        let view = SocketView {
            program: self.name.clone(),
            pid: socket.seen.0,
            protocol: if socket.kind() == libc::SOCK_DGRAM { "udp" } else { "tcp" }.to_owned(),
            door: if is_fast { "fast" } else { "slow" }.to_owned(),
            mode: self.offer.mode.map(|mode| mode.to_string()),
            queue: None,
            napi_id: napi_id.unwrap_or(0),
            state: state.to_owned(),
            local: socket.local(),
            peer,
            waiting,
        };
        self.shown.put(token, view);
    }
}

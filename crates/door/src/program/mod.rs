//! The thread that serves one program: its held calls, its pairs and its connections. It shares nothing with the threads of other programs but the
//! engine, so that one that stalls this thread, by memory that takes long to read, stalls itself.

mod accept;
mod calls;
mod connect;
mod datagrams;
mod rights;
mod rings;
mod send;
mod settings;
mod socket;
mod timed;
mod turn;
mod twin;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use napier_linux::Netns;
use napier_linux::process::{Given, HeldSocketCall, Notifier, OptionRights, wait_for_one};
use napier_runtime::control::mode::Mode;
use napier_runtime::engine::Engine;
use napier_runtime::event::EventContext;
use napier_runtime::socket::{NetNs, SocketOption};
use rustix::event::epoll;
use rustix::net::sockopt::set_socket_linger;

use crate::limits::SOCKETS_MAX;
use crate::near::{Near, NearBell};
use crate::near_datagrams::NearDatagrams;
use crate::relay::{CHUNK_BYTES, Far, Room};
use crate::rules::reach::Reach;
use crate::view::{ShownProgram, SocketView};
use rings::ProgramRings;
use socket::{Backlogged, Behind, LastErrors, ProgramSocket, Sockets};
use timed::Timed;

/// What all programs have of the engine.
pub(crate) struct Offer {
    pub(crate) engine: Engine,
    pub(crate) netns: NetNs,
    pub(crate) reach: Reach,
    /// Of each program's context.
    pub(crate) mode: Option<Mode>,
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
struct ServedProgram<'n> {
    offer: Arc<Offer>,
    name: String,
    notifier: &'n mut Notifier,
    epoll: OwnedFd,
    context: EventContext,
    sockets: Sockets,
    errors: LastErrors,
    /// Connections with more to do.
    again: VecDeque<u64>,
    scratch: Box<[u8; CHUNK_BYTES]>,
    /// A datagram and its head; empty until there is a socket for some.
    record: Vec<u8>,
    /// Bytes of datagrams that are left over.
    left_bytes: usize,
    /// For bytes that are left over.
    room: Room,
    /// Connections that wait at all listeners.
    waiting: usize,
    timed: Timed,
    rings: ProgramRings,
    /// By which other programs of the engine tell of connections.
    bell: Arc<NearBell>,
    /// The connections whose rings had news, for its room.
    news: Vec<u64>,
    shown: Arc<ShownProgram>,
    /// No process of the program is left; what it has written is still sent.
    is_over: bool,
}

/// What a program's thread does for its sockets for datagrams.
struct DatagramCalls<'s, 'n>(&'s mut ServedProgram<'n>);

/// Serves a program until nothing of it runs any more, or `stop` can be read; in the network namespace `place`, if it is another than the engine's. What it still calls is for [`Goodbye::let_all_go_on`].
pub(crate) fn serve(
    offer: &Arc<Offer>,
    name: &str,
    mut notifier: Notifier,
    place: Option<&Netns>,
    shown: &Arc<ShownProgram>,
    stop: &OwnedFd,
) -> Goodbye {
    let _counted = offer.engine.count_thread("door", None);
    let served = catch_unwind(AssertUnwindSafe(|| -> io::Result<()> {
        if let Some(place) = place {
            // What the program gets of the kernel's is of its own namespace from here on.
            place.enter().map_err(io::Error::other)?;
        }
        let mut served = ServedProgram::new(offer, name, &mut notifier, shown, stop)?;
        served.run()
    }));
    notifier.let_kept_go_on();
    let mut left = Goodbye(notifier);
    if !matches!(served, Ok(Ok(()))) {
        // It counts as a program until the door closes.
        left.until(Some(stop));
    }
    left
}

/// A program that is not served any more, and may live on.
pub(crate) struct Goodbye(Notifier);

impl Goodbye {
    /// One that never was served.
    pub(crate) const fn of(notifier: Notifier) -> Self {
        Self(notifier)
    }

    /// What is left of the program goes on with the kernel's sockets, as long as it and this process live: a call without an answer would wait
    /// for ever. When this process has ended the keeper does the same.
    pub(crate) fn let_all_go_on(mut self) {
        self.until(None);
    }

    fn until(&mut self, stop: Option<&OwnedFd>) {
        let notifier = &mut self.0;
        // Each turn waits for a call, and the last process of the program ends it.
        loop {
            match notifier.receive() {
                Ok(Some(held)) => drop(notifier.go_on(held)),
                Ok(None) => {}
                Err(_) => return,
            }
            let fds = [Some(notifier.as_fd()), stop.map(OwnedFd::as_fd)];
            let fds: Vec<_> = fds.into_iter().flatten().collect();
            match wait_for_one(&fds, Duration::from_secs(3600)) {
                Ok(Some(1)) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

impl<'n> ServedProgram<'n> {
    fn new(
        offer: &Arc<Offer>,
        name: &str,
        notifier: &'n mut Notifier,
        shown: &Arc<ShownProgram>,
        stop: &OwnedFd,
    ) -> io::Result<Self> {
        let context = EventContext::with_members_max(&offer.engine, SOCKETS_MAX as u32 * 2);
        if let Some(mode) = offer.mode {
            context.set_mode(mode).map_err(io::Error::other)?;
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = |fd, token| epoll::add(&epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN);
        watch(notifier.as_fd(), turn::CALLS)?;
        watch(context.descriptor()?, turn::CONTEXT)?;
        watch(stop.as_fd(), turn::STOP)?;
        let bell = Arc::new(NearBell::new()?);
        watch(bell.as_fd(), turn::BELL)?;
        Ok(Self {
            offer: offer.clone(),
            name: name.to_owned(),
            notifier,
            epoll,
            context,
            sockets: Sockets::default(),
            errors: LastErrors::default(),
            again: VecDeque::new(),
            scratch: Box::new([0; CHUNK_BYTES]),
            record: Vec::new(),
            left_bytes: 0,
            room: Room::default(),
            waiting: 0,
            timed: Timed::default(),
            rings: ProgramRings::default(),
            bell,
            news: Vec::new(),
            shown: shown.clone(),
            is_over: false,
        })
    }

    /// Takes note of a socket, and watches the engine's end of its pair.
    fn enter(&mut self, socket: ProgramSocket) -> io::Result<u64> {
        let token = self.sockets.insert(socket);
        let socket = self.sockets.get(token).expect("it was entered");
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        let watched = epoll::add(&self.epoll, &socket.own, epoll::EventData::new_u64(token), flags);
        if let Err(error) = watched {
            self.sockets.remove(token);
            return Err(error.into());
        }
        Ok(token)
    }

    /// Watches what a connection's bytes are for; whether there was room for that.
    fn watch(&self, far: &Far, token: u64) -> bool {
        match far {
            Far::Wire(stream) => self.context.add(stream, connect::WATCHED, token).is_ok(),
            Far::Near(end, _) => {
                let flags = epoll::EventFlags::from_bits_retain(connect::WATCHED.bits());
                epoll::add(&self.epoll, end, epoll::EventData::new_u64(token | turn::OF_NEAR), flags).is_ok()
            }
        }
    }

    /// The program has closed its socket, or it is no socket of the engine's any more.
    fn remove(&mut self, token: u64) {
        self.shown.remove(token);
        let Some(socket) = self.sockets.remove(token) else { return };
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
        let notifier = &mut *self.notifier;
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

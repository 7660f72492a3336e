//! Ways of receiving, servers that echo by each of them, and a client that loses nothing unnoticed.

use std::net::SocketAddr;
use std::thread::JoinHandle;

use napier_runtime::control::NapiSet;
use napier_runtime::engine::Engine;
use napier_runtime::event::{EpollParamsRequest, Event, EventContext, Interest, Timeout};
use napier_runtime::raw::{RawBusyPoll, RawPort};
use napier_runtime::socket::{SocketOption, UdpSocket};

use super::{PATIENCE, frames, prefer};

/// A way of receiving: what is set on the instance, and how the program reads.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Softirq,
    Deferral,
    Threaded,
    Workqueue,
    ThreadedBusyPoll,
    BusyRead,
    SeparatePoller,
    EventBusyPoll,
    EventSuspension,
}

impl Mode {
    pub(crate) const ALL: [Self; 9] = [
        Self::Softirq,
        Self::Deferral,
        Self::Threaded,
        Self::Workqueue,
        Self::ThreadedBusyPoll,
        Self::BusyRead,
        Self::SeparatePoller,
        Self::EventBusyPoll,
        Self::EventSuspension,
    ];

    /// What napi-set gets; everything is named, so that nothing of another mode is left.
    pub(crate) fn settings(self) -> NapiSet {
        let (defer, gro_ns, suspend_ns) = match self {
            Self::Softirq | Self::Threaded | Self::Workqueue | Self::ThreadedBusyPoll => (0, 0, 0),
            Self::Deferral => (100, 20_000, 0),
            Self::BusyRead | Self::SeparatePoller | Self::EventBusyPoll => (100, 200_000, 0),
            Self::EventSuspension => (100, 50_000, 20_000_000),
        };
        let threaded = match self {
            Self::Threaded => Some(1),
            Self::ThreadedBusyPoll => Some(2),
            Self::Workqueue => None,
            _ => Some(0),
        };
        NapiSet {
            id: None,
            defer_hard_irqs: Some(defer),
            gro_flush_timeout: Some(gro_ns),
            irq_suspend_timeout: Some(suspend_ns),
            threaded,
            workqueue: self == Self::Workqueue,
        }
    }

    /// The parameters of the event context; `None`: the program blocks in a receive instead.
    pub(crate) fn event_params(self) -> Option<EpollParamsRequest> {
        match self {
            Self::EventBusyPoll => Some(prefer(64)),
            Self::EventSuspension => Some(prefer(0)),
            _ => None,
        }
    }

    /// `SO_BUSY_POLL` and its companions of a blocking receive.
    pub(crate) fn busy_read(self) -> RawBusyPoll {
        match self {
            Self::BusyRead | Self::EventBusyPoll | Self::EventSuspension => {
                RawBusyPoll { usecs: 400, prefer: true, budget: 16 }
            }
            _ => RawBusyPoll::default(),
        }
    }
}

/// The message that ends a server. It comes over the network like any other, so a server waits without a time limit
/// and a wake-up that is lost shows as a stall.
const STOP: [u8; 8] = [0xff; 8];

/// Echoes datagrams by blocking receives.
pub(crate) fn echo_blocking(socket: UdpSocket, busy: RawBusyPoll) -> JoinHandle<()> {
    socket.setsockopt(SocketOption::BusyPoll, busy.usecs.cast_signed()).unwrap();
    socket.setsockopt(SocketOption::PreferBusyPoll, i32::from(busy.prefer)).unwrap();
    socket.setsockopt(SocketOption::BusyPollBudget, i32::from(busy.budget)).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).unwrap();
            socket.send_to(&buffer[..len], from).unwrap();
            if buffer[..len] == STOP {
                return;
            }
        }
    })
}

/// Echoes datagrams by an event context.
pub(crate) fn echo_by_events(context: EventContext, socket: UdpSocket, interest: Interest) -> JoinHandle<()> {
    socket.set_nonblocking(true).unwrap();
    context.add(&socket, interest, 7).unwrap();
    std::thread::spawn(move || {
        let (mut events, mut buffer) = ([Event::default(); 8], [0; 2048]);
        loop {
            let ready = context.wait(&mut events, Timeout::Never).unwrap();
            assert!(ready == 1 && events[0].data == 7);
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                // Never EAGAIN: clients leave fewer requests unanswered than a ring has slots.
                socket.send_to(&buffer[..len], from).unwrap();
                if buffer[..len] == STOP {
                    return;
                }
            }
        }
    })
}

/// Echoes frames of a raw port in place.
pub(crate) fn echo_raw(port: RawPort) -> JoinHandle<()> {
    std::thread::spawn(move || {
        loop {
            assert!(port.wait(None), "a wait without a time limit ends with frames");
            let mut stop = false;
            while let Some(mut frame) = port.next() {
                if !frames::is_udp(frame.data()) {
                    continue;
                }
                frames::turn_round(frame.data_mut());
                stop |= frame.data().ends_with(&STOP);
                while let Err(back) = port.forward(frame) {
                    frame = back;
                    std::thread::yield_now();
                }
            }
            port.flush();
            if stop {
                return;
            }
        }
    })
}

/// Starts the server that suits the mode.
pub(crate) fn echo(engine: &Engine, mode: Mode, socket: UdpSocket) -> JoinHandle<()> {
    match mode.event_params() {
        None => echo_blocking(socket, mode.busy_read()),
        Some(params) => {
            let context = EventContext::new(engine);
            context.set_params(params).unwrap();
            echo_by_events(context, socket, Interest::IN)
        }
    }
}

/// Sends `count` numbered requests, at most `window` of them unanswered, and checks that each is answered once.
pub(crate) fn round_trips(client: &UdpSocket, server: SocketAddr, count: usize, window: usize) {
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answered = vec![false; count];
    let (mut sent, mut done) = (0, 0);
    while done < count {
        while sent < count && sent - done < window {
            client.send_to(&(sent as u64).to_le_bytes(), server).unwrap();
            sent += 1;
        }
        let mut buffer = [0; 64];
        let (len, from) = client
            .recv_from(&mut buffer)
            .unwrap_or_else(|error| panic!("stalled or lost: {done} of {sent} requests answered: {error}"));
        assert_eq!((len, from), (8, server));
        let number = u64::from_le_bytes(buffer[..8].try_into().unwrap()) as usize;
        assert!(!std::mem::replace(&mut answered[number], true), "request {number} was answered twice");
        done += 1;
    }
}

/// Ends a server of this module.
pub(crate) fn stop(client: &UdpSocket, server: SocketAddr, thread: JoinHandle<()>) {
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send_to(&STOP, server).unwrap();
    let mut buffer = [0; 64];
    let (len, _) = client.recv_from(&mut buffer).expect("the server answers its last request");
    assert_eq!(buffer[..len], STOP);
    thread.join().unwrap();
}

//! The server: workers that answer requests, each with the sockets of its own NAPI instance only.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use napier_kv::DATAGRAM_BYTES_MAX;
use napier_kv::service::serve;
use napier_kv::table::Table;
use napier_runtime::control::plan::{Plan, apply};
use napier_runtime::engine::{Engine, EngineSink};
use napier_runtime::event::{Event, EventContext, Interest, Timeout, UserEvent};
use napier_runtime::socket::{NetNs, ReusePort, UdpSocket};

use crate::modes::ServerStyle;
use crate::roll_call::Ready;

/// Events that one wait returns at most, as libevent's first allocation.
pub const EVENTS_MAX: usize = 64;

/// Requests taken from one socket before the next event is looked at, as memcached's `-R`.
pub(crate) const REQUESTS_PER_EVENT: usize = 20;

/// How long a blocked worker goes without looking whether it should stop.
const STOP_LOOK: Duration = Duration::from_millis(100);

const DATA_LISTENER: u64 = u64::MAX;
const DATA_STOP: u64 = u64::MAX - 1;

/// What the workers have done, all together.
#[derive(Default)]
pub struct ServerCounters {
    /// Answered.
    pub requests: AtomicU64,
    /// Waits that returned at least one event.
    pub waits_with_events: AtomicU64,
    /// Returned by waits.
    pub events: AtomicU64,
}

/// What every worker needs, whatever its sockets are.
pub(crate) struct Common {
    pub(crate) table: Arc<Table>,
    pub(crate) counters: Arc<ServerCounters>,
    pub(crate) stop: Arc<AtomicBool>,
    /// Told once the worker can be reached; dropped without a word if it failed.
    pub(crate) ready: Ready,
}

/// What a worker on the engine's datagram sockets needs.
pub struct WorkerSetup {
    /// Of the device and the workers.
    pub engine: Engine,
    /// Where the socket is bound.
    pub netns: NetNs,
    /// What it is bound to.
    pub address: SocketAddrV4,
    /// What is served.
    pub table: Arc<Table>,
    /// What all workers have done.
    pub counters: Arc<ServerCounters>,
    /// Ends workers that do not wait for events.
    pub stop: Arc<AtomicBool>,
    /// Processor that the worker is pinned to.
    pub cpu: usize,
    /// Told once the worker can be reached; dropped without a word if it failed.
    pub ready: Ready,
}

impl WorkerSetup {
    fn socket(&self) -> anyhow::Result<UdpSocket> {
        UdpSocket::builder()
            .reuse_port(ReusePort::ByNapi)
            .bind(&self.netns, SocketAddr::V4(self.address))
            .with_context(|| format!("binding the server's socket to {}", self.address))
    }
}

/// A worker with an event context; runs until `stop` is triggered.
pub struct EventWorker {
    setup: WorkerSetup,
    context: EventContext,
    listener: UdpSocket,
    timeout: Timeout,
    flows: Vec<UdpSocket>,
    reply: Box<[u8; DATAGRAM_BYTES_MAX]>,
}

impl EventWorker {
    /// Opens the context and the socket.
    ///
    /// # Errors
    /// What the socket and the context refuse.
    pub fn new(setup: WorkerSetup, plan: &Plan, stop: &UserEvent) -> anyhow::Result<Self> {
        // One for each flow that there may be at most, and what a worker watches beside.
        let context = EventContext::with_members_max(&setup.engine, EventContext::MEMBERS_DEFAULT + 2);
        apply(&mut EngineSink::Context(&context), plan)?;
        let listener = setup.socket()?;
        listener.set_nonblocking(true)?;
        context.add(&listener, Interest::IN, DATA_LISTENER)?;
        context.add(stop, Interest::IN, DATA_STOP)?;
        let timeout = plan.wait().map_or(Timeout::Never, |longest| Timeout::After(longest.into()));
        Ok(Self { setup, context, listener, timeout, flows: Vec::new(), reply: Box::new([0; DATAGRAM_BYTES_MAX]) })
    }

    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        let mut events = [Event::default(); EVENTS_MAX];
        self.say_ready();
        while self.turn(&mut events)? {}
        Ok(())
    }

    /// Tells the starter that the worker can be reached.
    pub fn say_ready(&self) {
        self.setup.ready.say();
    }

    /// Where the worker waits.
    pub fn context(&self) -> &EventContext {
        &self.context
    }

    /// One wait and what it brings; false once the worker shall stop.
    ///
    /// # Errors
    /// What a wait or a new flow's socket refuses.
    pub fn turn(&mut self, events: &mut [Event]) -> anyhow::Result<bool> {
        let ready = self.context.wait(events, self.timeout)?;
        if ready > 0 {
            self.setup.counters.waits_with_events.fetch_add(1, Ordering::Relaxed);
            self.setup.counters.events.fetch_add(ready as u64, Ordering::Relaxed);
        }
        for event in &events[..ready] {
            match event.data {
                DATA_STOP => return Ok(false),
                DATA_LISTENER => self.accept()?,
                flow => self.serve_flow(usize::try_from(flow)?),
            }
        }
        Ok(true)
    }

    /// The first datagram of a flow: answers it and gives the flow a socket of its own, as a server that
    /// splits its connections by NAPI instance does.
    fn accept(&mut self) -> anyhow::Result<()> {
        let mut datagram = [0; DATAGRAM_BYTES_MAX];
        for _ in 0..REQUESTS_PER_EVENT {
            let Ok((bytes, from)) = self.listener.recv_from(&mut datagram) else { return Ok(()) };
            let answer = serve(&self.setup.table, &datagram[..bytes], &mut self.reply[..]);
            if answer > 0 {
                // A full ring loses the answer, as a full queue does anywhere; the device counts it.
                let _ = self.listener.send_to(&self.reply[..answer], from);
            }
            if self.flows.iter().any(|flow| flow.peer_addr().ok() == Some(from)) {
                continue;
            }
            let flow = self.setup.socket()?;
            flow.set_nonblocking(true)?;
            flow.connect(from)?;
            self.context.add(&flow, Interest::IN, self.flows.len() as u64)?;
            self.flows.push(flow);
        }
        Ok(())
    }

    fn serve_flow(&mut self, flow: usize) {
        let (table, socket) = (&self.setup.table, &self.flows[flow]);
        let peer = socket.peer_addr().ok();
        let mut served = 0;
        let _ = socket.recv_batch(REQUESTS_PER_EVENT, &mut |datagram, from| {
            served += 1;
            // Between bind and connect the socket may have got datagrams of other flows.
            answer_in_place(socket, (peer != Some(from)).then_some(from), table, datagram);
        });
        self.setup.counters.requests.fetch_add(served, Ordering::Relaxed);
    }
}

/// Serves one request and writes the answer straight into the frame that carries it, to the socket's peer or to `to`.
fn answer_in_place(socket: &UdpSocket, to: Option<SocketAddr>, table: &Table, datagram: &[u8]) {
    let _ = socket.send_with(to, DATAGRAM_BYTES_MAX, |payload: &mut [u8]| serve(table, datagram, payload));
}

/// A worker that blocks in a receive which busy polls (`SO_BUSY_POLL`).
pub(crate) fn run_blocking(setup: &WorkerSetup, plan: &Plan) -> anyhow::Result<()> {
    let socket = setup.socket()?;
    apply(&mut EngineSink::Socket(&socket), plan)?;
    socket.set_read_timeout(Some(STOP_LOOK))?;
    let mut datagram = [0; DATAGRAM_BYTES_MAX];
    let mut reply = [0; DATAGRAM_BYTES_MAX];
    setup.ready.say();
    while !setup.stop.load(Ordering::Relaxed) {
        let Ok((bytes, from)) = socket.recv_from(&mut datagram) else { continue };
        let answer = serve(&setup.table, &datagram[..bytes], &mut reply);
        if answer > 0 {
            let _ = socket.send_to(&reply[..answer], from);
        }
        setup.counters.requests.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs one worker in the mode of a plan.
///
/// # Errors
/// As [`EventWorker::new`] and [`EventWorker::turn`].
pub fn run_worker(setup: WorkerSetup, plan: &Plan, stop: &UserEvent) -> anyhow::Result<()> {
    let engine = setup.engine.clone();
    let _counted = engine.count_thread("worker", Some(setup.cpu));
    match ServerStyle::of(plan) {
        ServerStyle::EventContext => EventWorker::new(setup, plan, stop)?.run(),
        ServerStyle::BlockingReceive => run_blocking(&setup, plan),
    }
}

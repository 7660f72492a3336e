//! The server: the workers of `serve kv`, and for datagrams on the engine workers that have a socket for each flow.

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, bail};
use napier_kv::DATAGRAM_BYTES_MAX;
use napier_kv::load::net::Proto;
use napier_kv::profile::Profile;
use napier_kv::serve::engine::EngineNet;
use napier_kv::serve::net::{EVENTS_MAX, Net, REQUESTS_PER_EVENT, TOKEN_STOP};
use napier_kv::serve::now_ms;
use napier_kv::serve::worker::{Addresses, Worker, run_blocking};
use napier_kv::service::Service;
use napier_kv::session::{Server, Turn, udp};
use napier_runtime::control::plan::{Plan, apply};
use napier_runtime::engine::{Engine, EngineSink};
use napier_runtime::event::{Event, EventContext, Interest, Timeout, UserEvent};
use napier_runtime::socket::{NetNs, ReusePort, UdpSocket};

use super::addresses::SERVER;
use crate::modes::ServerStyle;
use crate::roll_call::Ready;

/// Why a mode that blocks in a receive has no row over TCP.
pub(crate) const ONE_SOCKET: &str = "it blocks in a receive on one socket per worker, and TCP has one per connection";

/// Memory of records and connections: no workload of the comparison comes near it, so nothing is evicted or refused.
const STORE_BYTES_MAX: usize = usize::MAX / 2;

const DATA_LISTENER: u64 = u64::MAX - 1;

/// A server with every record of the profile. Each request takes the given time beside, drawn from the seed.
pub fn filled(profile: &Profile, workers: usize, service: Option<(&Service, u64)>) -> Server {
    let server = Server::new(STORE_BYTES_MAX, workers, now_ms());
    let server = match service {
        Some((service, seed)) => server.with_service(service, seed),
        None => server,
    };
    profile.fill(&server.store, server.started_ms());
    server
}

/// What every worker needs, whatever its sockets are.
pub struct Common {
    /// What is served.
    pub server: Arc<Server>,
    /// Number of the worker.
    pub index: usize,
    /// Ends workers that do not wait for events.
    pub stop: Arc<AtomicBool>,
    /// Told once the worker can be reached; dropped without a word if it failed.
    pub ready: Ready,
}

impl Common {
    /// Runs the worker of `serve kv` at an address, in the mode of a plan.
    pub(crate) fn run<N: Net>(&self, net: N, at: SocketAddrV4, proto: Proto, plan: &Plan) -> anyhow::Result<()> {
        let at = SocketAddr::V4(at);
        match (ServerStyle::of(plan), proto) {
            (ServerStyle::EventContext, proto) => {
                let at = match proto {
                    Proto::Tcp => Addresses { memcached: Some(at), ..Addresses::default() },
                    Proto::Udp => Addresses { udp: Some(at), ..Addresses::default() },
                };
                let mut worker = Worker::new(net, &self.server, self.index, at)?;
                self.ready.say();
                worker.run(plan.wait().map(Duration::from)).context("waiting for events")
            }
            (ServerStyle::BlockingReceive, Proto::Udp) => {
                let stopped = || self.stop.load(Ordering::Relaxed);
                run_blocking(&net, &self.server, self.index, at, plan, || self.ready.say(), stopped)
                    .with_context(|| format!("binding the server's socket to {at}"))
            }
            (ServerStyle::BlockingReceive, Proto::Tcp) => bail!(ONE_SOCKET),
        }
    }
}

/// The mode that workers are in, which may change while they serve.
#[derive(Debug)]
pub struct WorkerMode {
    /// How often it has changed.
    number: AtomicU64,
    plan: Mutex<Plan>,
}

impl WorkerMode {
    /// From the start.
    #[must_use]
    pub fn new(plan: Plan) -> Arc<Self> {
        Arc::new(Self { number: AtomicU64::new(0), plan: Mutex::new(plan) })
    }

    /// Each worker takes another plan when it next has events.
    pub(crate) fn change(&self, plan: &Plan) {
        self.plan.lock().expect("no thread panics with it").clone_from(plan);
        self.number.fetch_add(1, Ordering::Release);
    }

    /// The number of the plan, before the plan itself: what changes in between is taken at the next look.
    fn now(&self) -> (u64, Plan) {
        let number = self.number.load(Ordering::Acquire);
        (number, self.plan.lock().expect("no thread panics with it").clone())
    }
}

/// What a worker on the engine's datagram sockets needs.
pub struct WorkerSetup {
    /// What every worker needs.
    pub common: Common,
    /// Of the device and the workers.
    pub engine: Engine,
    /// Where the socket is bound.
    pub netns: NetNs,
    /// Processor that the worker is pinned to.
    pub cpu: usize,
    /// How it waits.
    pub mode: Arc<WorkerMode>,
    /// Tells it to stop.
    pub stop: Arc<UserEvent>,
}

impl WorkerSetup {
    fn socket(&self) -> anyhow::Result<UdpSocket> {
        UdpSocket::builder()
            .reuse_port(ReusePort::ByNapi)
            .nonblocking(true)
            .bind(&self.netns, SERVER)
            .with_context(|| format!("binding the server's socket to {SERVER}"))
    }
}

/// A worker with an event context; runs until `stop` is triggered.
pub struct EventWorker {
    setup: WorkerSetup,
    context: EventContext,
    listener: UdpSocket,
    timeout: Timeout,
    /// Of the mode that the context is made for.
    mode_number: u64,
    flows: Vec<(SocketAddr, UdpSocket)>,
    /// Of all turns: nothing expires in this workload.
    now_ms: u64,
    answer: Vec<u8>,
}

impl EventWorker {
    /// Opens the context and the socket.
    ///
    /// # Errors
    /// What the socket and the context refuse.
    pub fn new(setup: WorkerSetup) -> anyhow::Result<Self> {
        let listener = setup.socket()?;
        let (mode_number, plan) = setup.mode.now();
        let context = open(&setup, &plan, &listener, &[])?;
        let now_ms = setup.common.server.started_ms();
        let timeout = timeout(&plan);
        Ok(Self { setup, context, listener, timeout, mode_number, flows: Vec::new(), now_ms, answer: Vec::new() })
    }

    /// A context of the mode that is to be from now on, with the same sockets. The other one ends, and lets go of interrupts that it keeps
    /// suspended.
    #[cold]
    fn change_mode(&mut self) -> anyhow::Result<()> {
        let (mode_number, plan) = self.setup.mode.now();
        self.context = open(&self.setup, &plan, &self.listener, &self.flows)?;
        (self.mode_number, self.timeout) = (mode_number, timeout(&plan));
        Ok(())
    }

    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        let mut events = [Event::default(); EVENTS_MAX];
        self.say_ready();
        while self.turn(&mut events)? {}
        Ok(())
    }

    /// Tells the starter that the worker can be reached.
    pub fn say_ready(&self) {
        self.setup.common.ready.say();
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
        if self.setup.mode.number.load(Ordering::Relaxed) != self.mode_number {
            self.change_mode()?;
        }
        let ready = self.context.wait(events, self.timeout)?;
        if ready > 0 {
            let Common { server, index, .. } = &self.setup.common;
            server.worker(*index).add(|c| &c.waits_with_events, 1);
            server.worker(*index).add(|c| &c.events, ready as u64);
        }
        for event in &events[..ready] {
            match event.data {
                TOKEN_STOP => return Ok(false),
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
            let turn = turn(&self.setup.common, self.now_ms);
            udp::serve(&turn, &datagram[..bytes], &mut self.answer, |answer| {
                // A full ring loses the answer, as a full queue does anywhere; the device counts it.
                let _ = self.listener.send_to(answer, from);
            });
            if self.flows.iter().any(|(peer, _)| *peer == from) {
                continue;
            }
            let flow = self.setup.socket()?;
            flow.connect(from)?;
            self.context.add(&flow, Interest::IN, self.flows.len() as u64)?;
            self.flows.push((from, flow));
        }
        Ok(())
    }

    fn serve_flow(&mut self, flow: usize) {
        let Self { setup, flows, answer, now_ms, .. } = self;
        let (turn, (peer, socket)) = (turn(&setup.common, *now_ms), &flows[flow]);
        let _ = socket.recv_batch(REQUESTS_PER_EVENT, &mut |datagram, from| {
            udp::serve(&turn, datagram, answer, |answer| {
                // Between bind and connect the socket may have got datagrams of other flows.
                let _ = if from == *peer { socket.send(answer) } else { socket.send_to(answer, from) };
            });
        });
    }
}

/// A context of a plan that watches all sockets of a worker, and its end.
fn open(
    setup: &WorkerSetup,
    plan: &Plan,
    listener: &UdpSocket,
    flows: &[(SocketAddr, UdpSocket)],
) -> anyhow::Result<EventContext> {
    // One for each flow that there may be at most, and what a worker watches beside.
    let context = EventContext::with_members_max(&setup.engine, EventContext::MEMBERS_DEFAULT + 2);
    apply(&mut EngineSink::Context(&context), plan)?;
    context.add(listener, Interest::IN, DATA_LISTENER)?;
    context.add(&*setup.stop, Interest::IN, TOKEN_STOP)?;
    for (flow, (_, socket)) in flows.iter().enumerate() {
        context.add(socket, Interest::IN, flow as u64)?;
    }
    Ok(context)
}

fn timeout(plan: &Plan) -> Timeout {
    plan.wait().map_or(Timeout::Never, |longest| Timeout::After(longest.into()))
}

fn turn(common: &Common, now_ms: u64) -> Turn<'_> {
    Turn { server: &common.server, stats: common.server.worker(common.index), now_ms }
}

/// Runs one worker on the engine's datagram sockets in the mode of its setup, or in that to which it changes.
///
/// # Errors
/// As [`EventWorker::new`] and [`EventWorker::turn`].
pub fn run_worker(setup: WorkerSetup) -> anyhow::Result<()> {
    let engine = setup.engine.clone();
    let _counted = engine.count_thread("worker", Some(setup.cpu));
    let (_, plan) = setup.mode.now();
    match ServerStyle::of(&plan) {
        ServerStyle::EventContext => EventWorker::new(setup)?.run(),
        ServerStyle::BlockingReceive => {
            let net = EngineNet::new(&engine, &setup.netns, &setup.stop, &Plan::default(), 0)?;
            setup.common.run(net, SERVER, Proto::Udp, &plan)
        }
    }
}

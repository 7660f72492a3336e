//! Where server and client run: on a link of the engine, or on the kernel's sockets over a veth pair.

use std::net::{SocketAddr, SocketAddrV4, TcpStream as KernelStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use napier_core::control::plan::Plan;
use napier_kv::serve::engine::EngineNet;
use napier_kv::serve::kernel::{KernelNet, KernelStop};
use napier_kv::serve::net::Net;
use napier_runtime::device::LinkConfig;
use napier_runtime::event::UserEvent;
use napier_runtime::socket::TcpStream as EngineStream;
use napier_sys::sched::pin_current_thread;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Case;
use super::client::{self, ClientOutcome};
use super::server::serve;
use crate::apply;
use crate::bench::kernel_pair::{put_in_force, veth};
use crate::bench::rounds::Stopped;
use crate::cpus::CpuLayout;
use crate::pair::{Pair, TESTED_IP};
use crate::roll_call::{Ready, RollCall};

/// The server's port.
const PORT: u16 = 9001;
/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Slots of the link's rings: as a NIC's by default.
const RING_SIZE: u32 = 1024;
/// Each buffer of a connection of the engine, in bytes, at least and at most.
const BUFFER_BYTES: (usize, usize) = (8 << 10, 128 << 10);
/// Descriptors beside two for each connection.
const DESCRIPTORS_BESIDE: u64 = 100;

const SERVER: SocketAddr = SocketAddr::V4(SocketAddrV4::new(TESTED_IP, PORT));

/// Starts the workers, and the client once they listen; ends the workers by `stop`.
fn both(
    workers: usize,
    work: impl Fn(usize, &Ready) -> anyhow::Result<()> + Sync,
    client: impl FnOnce() -> anyhow::Result<ClientOutcome> + Send,
    stop: impl Fn(),
) -> anyhow::Result<ClientOutcome> {
    let call = RollCall::new(workers);
    let work = &work;
    std::thread::scope(|scope| {
        let voices: Vec<Ready> = (0..workers).map(|_| call.voice()).collect();
        let threads: Vec<_> =
            voices.into_iter().enumerate().map(|(index, ready)| scope.spawn(move || work(index, &ready))).collect();
        let outcome = if call.all_ready() {
            scope.spawn(client).join().expect("the client does not panic")
        } else {
            Err(anyhow::anyhow!("the server did not start"))
        };
        stop();
        for thread in threads {
            // Why a server failed says more than what its client saw of it.
            thread.join().expect("a server does not panic").context("the server failed")?;
        }
        outcome
    })
}

/// Connections, all of them before the first request.
fn connect<N: Net>(
    net: &N,
    count: u32,
    one: impl Fn() -> std::io::Result<N::Stream>,
) -> anyhow::Result<Vec<N::Stream>> {
    let connected = (0..count).map(|token| {
        let stream = one()?;
        net.join(&stream, token.into())?;
        Ok(stream)
    });
    connected.collect::<std::io::Result<_>>().context("connecting")
}

/// Runs a case on a link between two ends of an engine.
pub(super) fn on_engine(case: &Case, cpus: &CpuLayout, interrupted: &AtomicBool) -> Result<ClientOutcome, Stopped> {
    let queues = u16::try_from(cpus.workers.len()).expect("bounded by the options");
    let link = LinkConfig { queues, ring_size: RING_SIZE, ..LinkConfig::default() };
    let pair = Pair::new(&link, &cpus.workers, &[cpus.client])?;
    let plan = case.mode.plan();
    apply::mode_on_device(&pair.engine, &pair.tested, case.mode, |queue| cpus.poller(queue))?;
    let (stop, never) = (UserEvent::new(), UserEvent::new());
    let connections = case.connections;
    let members = connections as usize;
    let buffer = case.message_bytes().next_power_of_two().clamp(BUFFER_BYTES.0, BUFFER_BYTES.1);
    let work = |index: usize, ready: &Ready| -> anyhow::Result<()> {
        let _counted = pair.engine.count_thread("server", Some(cpus.workers[index]));
        let net = EngineNet::new(&pair.engine, &pair.tested_ns, &stop, &plan, members)?.with_buffers(buffer);
        Ok(serve(net, SERVER, &plan, &case.job(index), ready)?)
    };
    let client = || {
        let _counted = pair.engine.count_thread("client", Some(cpus.client));
        let net = EngineNet::new(&pair.engine, &pair.peer_ns, &never, &Plan::default(), members)?;
        let builder = EngineStream::builder().rcvbuf(buffer).sndbuf(buffer).connect_timeout(CONNECT_MAX);
        let streams = connect(&net, connections, || builder.connect(&pair.peer_ns, SERVER))?;
        client::run(net, streams, case.ask, (case.load, case.length), interrupted)
    };
    Ok(both(cpus.workers.len(), work, client, || stop.trigger())?)
}

/// Runs a case on the kernel's sockets, over a veth pair between two namespaces of its own.
pub(super) fn on_kernel(case: &Case, cpus: &CpuLayout, interrupted: &AtomicBool) -> Result<ClientOutcome, Stopped> {
    descriptors_for(case.connections)?;
    let pair = veth(u16::try_from(cpus.workers.len()).expect("bounded by the options"))?;
    let plan = case.mode.plan();
    let of_thread = |queue| Some(cpus.poller(queue).unwrap_or(cpus.workers[0]));
    put_in_force(pair.left(), &plan, of_thread)?;
    let (stop, never) = (KernelStop::new()?, KernelStop::new()?);
    let work = |index: usize, ready: &Ready| -> anyhow::Result<()> {
        pin_current_thread(cpus.workers[index]);
        // Sockets belong to the namespace of the thread that makes them.
        pair.left().netns().enter()?;
        let net = KernelNet::new(&stop, &plan).context("an event context of the kernel")?;
        Ok(serve(net, SERVER, &plan, &case.job(index), ready)?)
    };
    let client = || {
        pin_current_thread(cpus.client);
        pair.right().netns().enter()?;
        let net = KernelNet::new(&never, &Plan::default())?;
        let streams = connect(&net, case.connections, || KernelStream::connect_timeout(&SERVER, CONNECT_MAX))?;
        client::run(net, streams, case.ask, (case.load, case.length), interrupted)
    };
    Ok(both(cpus.workers.len(), work, client, || stop.raise())?)
}

/// Raises the soft limit of descriptors as far as they are needed.
fn descriptors_for(connections: u32) -> Result<(), Stopped> {
    let needed = 2 * u64::from(connections) + DESCRIPTORS_BESIDE;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let most = maximum.unwrap_or(needed);
    if most < needed || setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).is_err() {
        let give = "raise ulimit -n, or give fewer connections";
        return Err(Stopped::Refused(format!("needs {needed} descriptors, this process may have {most}: {give}")));
    }
    Ok(())
}

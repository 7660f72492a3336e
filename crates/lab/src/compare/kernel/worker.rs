//! The server on plain sockets of the kernel: the same requests, table and styles as on the engine's.
//!
//! A worker has one socket for all its flows, as memcached has: the shape that costs the kernel least. It takes as many
//! requests from it per event as the engine's worker takes, each with a `recvfrom` and a `sendto` of its own.

use std::mem::MaybeUninit;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use anyhow::Context as _;
use napier_runtime::{Engine, set_kernel_busy_poll};
use napier_veth::Netns;
use rustix::event::{EventfdFlags, epoll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::time::Timespec;

use super::set_epoll;
use crate::compare::server::{EVENTS_MAX, REQUESTS_PER_EVENT, STOP_LOOK, ServerCounters};
use crate::kv::DATAGRAM_BYTES_MAX;
use crate::kv::service::serve;
use crate::kv::table::Table;
use crate::modes::ServerStyle;

const DATA_SOCKET: u64 = 0;
const DATA_STOP: u64 = 1;

/// Ends the waits of all workers, once and for all.
#[derive(Clone, Debug)]
pub(crate) struct StopFd(Arc<OwnedFd>);

impl StopFd {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).context("an eventfd")?;
        Ok(Self(Arc::new(fd)))
    }

    pub(crate) fn trigger(&self) {
        // Nobody reads it, so it stays readable; a counter that is full is readable too.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for StopFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What every worker needs.
#[derive(Clone)]
pub(crate) struct KernelSetup {
    /// Counts the worker's CPU time.
    pub(crate) engine: Engine,
    pub(crate) netns: Netns,
    pub(crate) address: SocketAddrV4,
    pub(crate) table: Arc<Table>,
    pub(crate) counters: Arc<ServerCounters>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) stop_fd: StopFd,
    /// Processor that the worker is pinned to.
    pub(crate) cpu: usize,
    /// Told once the worker can be reached; dropped without a word if it failed.
    pub(crate) ready: SyncSender<()>,
}

impl KernelSetup {
    fn socket(&self) -> anyhow::Result<UdpSocket> {
        let fd = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseport(&fd, true)?;
        rustix::net::bind(&fd, &self.address)
            .with_context(|| format!("binding the server's socket to {} in the kernel", self.address))?;
        Ok(fd.into())
    }
}

/// Runs one worker in the style of the mode, in the namespace of the server.
pub(crate) fn run_worker(setup: KernelSetup, style: &ServerStyle) -> anyhow::Result<()> {
    let engine = setup.engine.clone();
    let _counted = engine.count_thread("worker", Some(setup.cpu));
    setup.netns.enter()?;
    match *style {
        ServerStyle::EventContext { params, wait_timeout_ns } => {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("an event context of the kernel")?;
            if let Some(params) = params {
                set_epoll(epoll.as_fd(), params)?;
            }
            run_events(&setup, &epoll, wait_timeout_ns)
        }
        ServerStyle::BlockingReceive { busy_poll_usecs, prefer_busy_poll } => {
            run_blocking(&setup, busy_poll_usecs, prefer_busy_poll)
        }
    }
}

fn run_events(setup: &KernelSetup, epoll: &OwnedFd, wait_timeout_ns: Option<u64>) -> anyhow::Result<()> {
    let socket = setup.socket()?;
    socket.set_nonblocking(true)?;
    epoll::add(epoll, &socket, epoll::EventData::new_u64(DATA_SOCKET), epoll::EventFlags::IN)?;
    epoll::add(epoll, &setup.stop_fd, epoll::EventData::new_u64(DATA_STOP), epoll::EventFlags::IN)?;
    let timeout = wait_timeout_ns.map(|ns| Timespec::try_from(Duration::from_nanos(ns))).transpose()?;
    let mut worker = Worker::new(setup);
    let mut events = [MaybeUninit::uninit(); EVENTS_MAX];
    setup.ready.send(())?;
    loop {
        let (ready, _) = match epoll::wait(epoll, &mut events, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other.context("waiting for events")?,
        };
        if !ready.is_empty() {
            setup.counters.waits_with_events.fetch_add(1, Ordering::Relaxed);
            setup.counters.events.fetch_add(ready.len() as u64, Ordering::Relaxed);
        }
        for event in ready {
            if event.data.u64() == DATA_STOP {
                return Ok(());
            }
            let mut left = REQUESTS_PER_EVENT;
            while left > 0 && worker.serve_one(&socket) {
                left -= 1;
            }
        }
    }
}

fn run_blocking(setup: &KernelSetup, usecs: u32, prefer: bool) -> anyhow::Result<()> {
    let socket = setup.socket()?;
    set_kernel_busy_poll(socket.as_fd(), usecs, prefer).context("busy-polling options of the server's socket")?;
    socket.set_read_timeout(Some(STOP_LOOK))?;
    let mut worker = Worker::new(setup);
    setup.ready.send(())?;
    while !setup.stop.load(Ordering::Relaxed) {
        worker.serve_one(&socket);
    }
    Ok(())
}

struct Worker<'a> {
    setup: &'a KernelSetup,
    datagram: [u8; DATAGRAM_BYTES_MAX],
    reply: [u8; DATAGRAM_BYTES_MAX],
}

impl<'a> Worker<'a> {
    fn new(setup: &'a KernelSetup) -> Self {
        Self { setup, datagram: [0; DATAGRAM_BYTES_MAX], reply: [0; DATAGRAM_BYTES_MAX] }
    }

    /// Takes and answers one request; false if there was none.
    fn serve_one(&mut self, socket: &UdpSocket) -> bool {
        // Without a request, or with the error of an earlier answer: either way the next wait says more.
        let Ok((bytes, from)) = socket.recv_from(&mut self.datagram) else { return false };
        let answer = serve(&self.setup.table, &self.datagram[..bytes], &mut self.reply);
        if answer > 0 {
            // A full queue loses the answer; the interface counts it.
            let _ = socket.send_to(&self.reply[..answer], from);
        }
        self.setup.counters.requests.fetch_add(1, Ordering::Relaxed);
        true
    }
}

//! The server on plain sockets of the kernel: the same requests, table and styles as on the engine's.
//!
//! A worker has one socket for all its flows, as memcached has: the shape that costs the kernel least. It takes as many
//! requests from it per event as the engine's worker takes, each with a `recvfrom` and a `sendto` of its own.

use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use napier_core::control::plan::Plan;
use napier_kv::DATAGRAM_BYTES_MAX;
use napier_kv::serve::kernel::{KernelNet, KernelStop};
use napier_kv::serve::net::{EVENTS_MAX, Net as _, TOKEN_STOP};
use napier_kv::service::serve;

use crate::compare::case::SERVER;
use crate::compare::server::{Common, REQUESTS_PER_EVENT};
use crate::modes::ServerStyle;

const TOKEN_SOCKET: u64 = 0;

/// Runs one worker in the mode of a plan, on a thread that is in the server's namespace.
pub(crate) fn run_worker(common: &Common, stop: &KernelStop, plan: &Plan) -> anyhow::Result<()> {
    let binding = || format!("binding the server's socket to {SERVER} in the kernel");
    let net = KernelNet::new(stop, plan).context("an event context of the kernel")?;
    match ServerStyle::of(plan) {
        ServerStyle::EventContext => {
            let socket = net.bind(SERVER.into(), TOKEN_SOCKET).with_context(binding)?;
            run_events(common, net, &socket, plan.wait().map(Duration::from))
        }
        ServerStyle::BlockingReceive => {
            let socket = net.bind_blocking(SERVER.into(), plan).with_context(binding)?;
            let mut worker = Worker::new(common);
            common.ready.say();
            while !common.stop.load(Ordering::Relaxed) {
                worker.serve_one(&socket);
            }
            Ok(())
        }
    }
}

fn run_events(
    common: &Common,
    mut net: KernelNet,
    socket: &UdpSocket,
    wait_max: Option<Duration>,
) -> anyhow::Result<()> {
    let mut worker = Worker::new(common);
    let mut ready = Vec::with_capacity(EVENTS_MAX);
    common.ready.say();
    loop {
        ready.clear();
        net.wait(wait_max, &mut ready).context("waiting for events")?;
        if !ready.is_empty() {
            common.counters.waits_with_events.fetch_add(1, Ordering::Relaxed);
            common.counters.events.fetch_add(ready.len() as u64, Ordering::Relaxed);
        }
        for token in &ready {
            if *token == TOKEN_STOP {
                return Ok(());
            }
            let mut left = REQUESTS_PER_EVENT;
            while left > 0 && worker.serve_one(socket) {
                left -= 1;
            }
        }
    }
}

struct Worker<'a> {
    common: &'a Common,
    datagram: [u8; DATAGRAM_BYTES_MAX],
    reply: [u8; DATAGRAM_BYTES_MAX],
}

impl<'a> Worker<'a> {
    fn new(common: &'a Common) -> Self {
        Self { common, datagram: [0; DATAGRAM_BYTES_MAX], reply: [0; DATAGRAM_BYTES_MAX] }
    }

    /// Takes and answers one request; false if there was none.
    fn serve_one(&mut self, socket: &UdpSocket) -> bool {
        // Without a request, or with the error of an earlier answer: either way the next wait says more.
        let Ok((bytes, from)) = socket.recv_from(&mut self.datagram) else { return false };
        let answer = serve(&self.common.table, &self.datagram[..bytes], &mut self.reply);
        if answer > 0 {
            // A full queue loses the answer; the interface counts it.
            let _ = socket.send_to(&self.reply[..answer], from);
        }
        self.common.counters.requests.fetch_add(1, Ordering::Relaxed);
        true
    }
}

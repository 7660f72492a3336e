//! The server over TCP: the workers of `serve kv`, which are the same code on the engine's sockets and on the kernel's.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use napier_core::control::plan::Plan;
use napier_kv::profile::Profile;
use napier_kv::serve::net::Net;
use napier_kv::serve::now_ms;
use napier_kv::serve::worker::{Addresses, Worker};
use napier_kv::session::Server;
use napier_kv::store::{How, NEVER_MS, Put};

use super::case::SERVER;
use super::server::{Common, ServerCounters};

/// Memory of records and connections: no workload of the comparison comes near it, so nothing is evicted or refused.
const STORE_BYTES_MAX: usize = usize::MAX / 2;

/// Why a mode that blocks in a receive has no row.
pub(crate) const ONE_SOCKET: &str = "it blocks in a receive on one socket per worker, and TCP has one per connection";

/// A server with every record of the profile.
pub(crate) fn filled(profile: &Profile, workers: usize) -> anyhow::Result<Server> {
    let now_ms = now_ms();
    let server = Server::new(STORE_BYTES_MAX, workers, now_ms);
    profile
        .fill_with(|key, flags, value| {
            let put = Put { how: How::Set, cas: 0, flags, expires_ms: NEVER_MS, value };
            server.store.put(now_ms, key, &put).map(|_| ())
        })
        .context("filling the store")?;
    Ok(server)
}

/// Runs one worker until it is told to stop.
pub(crate) fn run_worker<N: Net>(
    net: N,
    common: &Common,
    server: &Server,
    index: usize,
    plan: &Plan,
) -> anyhow::Result<()> {
    let at = Addresses { memcached: Some(SERVER.into()), ..Addresses::default() };
    let mut worker = Worker::new(net, server, index, at)?;
    common.ready.say();
    worker.run(plan.wait().map(Duration::from)).context("waiting for events")
}

/// What the workers have counted, where the report looks for it.
pub(crate) fn count(server: &Server, counters: &ServerCounters) {
    let totals = server.totals();
    counters.requests.store(totals.requests, Ordering::Relaxed);
    counters.waits_with_events.store(totals.waits_with_events, Ordering::Relaxed);
    counters.events.store(totals.events, Ordering::Relaxed);
}

//! A server from its start to its summary.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use napier_kv::serve::engine::EngineNet;
use napier_kv::serve::kernel::{KernelNet, KernelStop};
use napier_kv::serve::worker::{Addresses, Worker, run_blocking};
use napier_kv::session::{Server, Totals};
use napier_kv::store::StoreStats;
use napier_runtime::engine::ThreadRole;
use napier_runtime::event::UserEvent;
use napier_runtime::socket::StackCounters;
use napier_sys::usage::thread_usage;
use serde::Serialize;

use super::device::{DeviceConfig, OneDevice, turned_away};
use super::limits::{self, Limits};
use crate::device::Device;
use crate::modes::{Mode, ServerStyle};
use crate::roll_call::RollCall;

/// How often it is looked whether the server shall stop.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// What a server is to be.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Where its sockets are, and the address that it is reached at.
    pub device: DeviceConfig,
    /// Port of memcached's protocols, over TCP and UDP.
    pub port: u16,
    /// Port of RESP2.
    pub resp_port: Option<u16>,
    /// Port of sockperf's messages, over TCP and UDP.
    pub sockperf_port: Option<u16>,
    /// How packets are delivered; `None` leaves it as it is.
    pub mode: Option<Mode>,
    /// Threads that serve.
    pub workers: usize,
    /// Bounds on what clients can take.
    pub limits: Limits,
}

/// What a server did.
#[derive(Clone, Debug, Serialize)]
pub struct ServeReport {
    /// Name of the device.
    pub device: String,
    /// Name of the mode.
    pub mode: Option<String>,
    /// Threads that served.
    pub workers: usize,
    /// From being ready to the end, in seconds.
    pub seconds: f64,
    /// What was counted.
    pub counters: Totals,
    /// Records in the end.
    pub records: u64,
    /// Memory of them, in bytes.
    pub record_bytes: u64,
    /// Records that had to make room.
    pub evictions: u64,
    /// CPU time in seconds: of the workers, and in the engine of the threads that deliver packets to them.
    pub cpu_s: f64,
    /// The part of it that the workers spent in the kernel, in seconds.
    pub cpu_system_s: f64,
    /// Interrupts of the device; null where they are not the server's to count.
    pub interrupts: Option<u64>,
    /// Time that the softirq threads could have run and had no CPU, in seconds; null on the kernel's sockets.
    pub softirq_run_delay_s: Option<f64>,
    /// Packets dropped because their checksum was wrong; null on the kernel's sockets, which count them elsewhere.
    pub wrong_checksums: Option<u64>,
    /// Frames that are missing from the recording, because too many came at once or the file took no more; null without one.
    pub frames_not_recorded: Option<u64>,
    /// Why the file of the recording took no more; null if it took all, and without one.
    pub recording_failure: Option<String>,
}

impl ServeConfig {
    /// Checks what can be checked before anything is started.
    ///
    /// # Errors
    /// The first field that cannot be; the message says what it may be.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!((1..=256).contains(&self.workers), "--workers must be 1 to 256");
        self.limits.check()?;
        ensure!(self.port != 0, "--port must be 1 to 65535");
        let more = [("--resp-port", self.resp_port), ("--sockperf-port", self.sockperf_port)];
        for (name, port) in more {
            ensure!(port != Some(0), "{name} must be 1 to 65535");
            ensure!(port != Some(self.port), "{name} must be another than --port");
            ensure!(
                port.is_none() || self.mode != Some(Mode::BusyRead),
                "in mode busy-read each worker blocks in a receive on its UDP socket, so there is no {name}"
            );
        }
        ensure!(
            self.resp_port.is_none() || self.resp_port != self.sockperf_port,
            "--sockperf-port must be another than --resp-port"
        );
        Ok(())
    }

    fn addresses(&self) -> Addresses {
        let at = |port| SocketAddr::new(self.device.ip, port);
        Addresses {
            memcached: Some(at(self.port)),
            udp: Some(at(self.port)),
            redis: self.resp_port.map(at),
            sockperf: self.sockperf_port.map(at),
        }
    }

    fn style(&self) -> ServerStyle {
        match self.mode {
            Some(mode) => mode.params().server,
            None => ServerStyle::EventContext { params: None, wait_timeout_ns: None },
        }
    }
}

/// Runs a server until `interrupted`. `on_ready` is called once it can be reached.
///
/// # Errors
/// It cannot be reached, or the mode cannot be applied; the message says what to change.
pub fn serve(
    config: &ServeConfig,
    interrupted: &AtomicBool,
    on_ready: &mut dyn FnMut(),
) -> anyhow::Result<ServeReport> {
    config.check()?;
    let server = Server::new(config.limits.memory_bytes, config.workers, napier_kv::serve::now_ms())
        .with_connections_max(config.limits.connections);
    match &config.device.device {
        Device::Kernel { interface } => {
            if let Some(mode) = config.mode.filter(|mode| *mode != Mode::Base) {
                bail!(
                    "mode {mode} is set on the NAPI instances of an interface, and this command changes none that is \
                     not its own: `napier compare --peer kernel` makes one, and a device of the engine has them"
                );
            }
            serve_on_kernel(config, interface.as_deref(), &server, interrupted, on_ready)
        }
        _ => serve_on_engine(config, &server, interrupted, on_ready),
    }
}

/// CPU time of the workers.
#[derive(Clone, Copy, Default)]
struct Used {
    cpu: Duration,
    system: Duration,
}

fn serve_on_kernel(
    config: &ServeConfig,
    interface: Option<&str>,
    server: &Server,
    interrupted: &AtomicBool,
    on_ready: &mut dyn FnMut(),
) -> anyhow::Result<ServeReport> {
    if interface.is_none() {
        for at in config.addresses().each() {
            ensure_free(at)?;
        }
    }
    limits::raise_descriptors(config.limits.connections, config.workers);
    let (stop, stopped) = (KernelStop::new()?, AtomicBool::new(false));
    let run_one = |index: usize, ready: &dyn Fn()| -> anyhow::Result<()> {
        let addresses = config.addresses();
        match config.style() {
            ServerStyle::EventContext { params, wait_timeout_ns } => {
                let net = KernelNet::new(&stop, params).context("setting up the place to wait (EPIOCSPARAMS)")?;
                let worker = Worker::new(net.on(interface), server, index, addresses)?;
                let mut worker = worker.with_idle_timeout(config.limits.idle_timeout);
                ready();
                Ok(worker.run(wait_timeout_ns.map(Duration::from_nanos))?)
            }
            ServerStyle::BlockingReceive { busy_poll_usecs, prefer_busy_poll } => {
                let net = KernelNet::new(&stop, None)?.on(interface);
                let at = addresses.udp.expect("it is always there");
                let busy = (busy_poll_usecs, prefer_busy_poll);
                Ok(run_blocking(&net, server, index, at, busy, ready, || stopped.load(Ordering::Relaxed))?)
            }
        }
    };
    let raise = || {
        stopped.store(true, Ordering::Relaxed);
        stop.raise();
    };
    let (seconds, used) = run_workers(config.workers, interrupted, &run_one, &raise, on_ready, &mut || Ok(()))?;
    Ok(report(config, server, seconds, used, None))
}

/// Workers share their ports, and would share them with another server of the same user as well, unnoticed.
fn ensure_free(at: SocketAddr) -> anyhow::Result<()> {
    let tried = TcpListener::bind(at).and_then(|_| UdpSocket::bind(at));
    match tried.map(|_| ()).map_err(|error| (error.kind(), error)) {
        Err((ErrorKind::AddrInUse, _)) => {
            bail!("another program is at {at} already: stop it, or choose another port")
        }
        Err((ErrorKind::AddrNotAvailable, _)) => bail!("this machine has no address {}: give another --ip", at.ip()),
        Err((ErrorKind::PermissionDenied, _)) => {
            bail!("port {} needs CAP_NET_BIND_SERVICE: choose one from 1024 on", at.port())
        }
        tried => tried.map_err(|(_, error)| error).with_context(|| format!("cannot be reached at {at}")),
    }
}

fn serve_on_engine(
    config: &ServeConfig,
    server: &Server,
    interrupted: &AtomicBool,
    on_ready: &mut dyn FnMut(),
) -> anyhow::Result<ServeReport> {
    let mut one = OneDevice::start(&config.device)?;
    // Instances that come with a peer come without a mode: it is applied whenever a peer has come.
    let mut in_force_for = None;
    let mut put_in_force = || -> anyhow::Result<()> {
        let peers @ (_, has_peer) = one.peers();
        if let Some(mode) = config.mode
            && has_peer
            && in_force_for != Some(peers)
        {
            let done = one.configure(&mode.params());
            // A peer that goes meanwhile takes its instances along, and the next one is set up anew.
            if one.peers() == peers {
                done.with_context(|| format!("applying mode {mode}"))?;
                in_force_for = Some(peers);
            }
        }
        Ok(())
    };
    let (stop, stopped) = (UserEvent::new(), AtomicBool::new(false));
    let (engine, netns) = (one.engine.clone(), one.netns.clone());
    let run_one = |index: usize, ready: &dyn Fn()| -> anyhow::Result<()> {
        let _counted = engine.count_thread("worker", None);
        let addresses = config.addresses();
        match config.style() {
            ServerStyle::EventContext { params, wait_timeout_ns } => {
                let net = EngineNet::new(&engine, &netns, &stop, params, config.limits.connections)?;
                let net = net.with_buffers(config.limits.buffer_bytes());
                let worker = Worker::new(net, server, index, addresses)?;
                let mut worker = worker.with_idle_timeout(config.limits.idle_timeout);
                ready();
                Ok(worker.run(wait_timeout_ns.map(Duration::from_nanos))?)
            }
            ServerStyle::BlockingReceive { busy_poll_usecs, prefer_busy_poll } => {
                let net = EngineNet::new(&engine, &netns, &stop, None, 0)?;
                let at = addresses.udp.expect("it is always there");
                let busy = (busy_poll_usecs, prefer_busy_poll);
                Ok(run_blocking(&net, server, index, at, busy, ready, || stopped.load(Ordering::Relaxed))?)
            }
        }
    };
    let mut delivering = Duration::ZERO;
    let raise = || {
        stopped.store(true, Ordering::Relaxed);
        stop.trigger();
    };
    let (mut told, mut told_why) = (false, None);
    let mut on_tick = || {
        let why = turned_away(&one.device);
        if why != told_why {
            // Whoever is at the other end may be another tomorrow: the server goes on trying.
            why.iter().for_each(|why| eprintln!("napier: {why}; trying again"));
            told_why = why;
        }
        if !told && let Some(why) = one.recording_failure() {
            // At once: the server goes on, perhaps for days.
            eprintln!("napier: {why}; nothing more is recorded, the server goes on");
            told = true;
        }
        put_in_force().and_then(|()| one.check())
    };
    let (seconds, mut used) = run_workers(config.workers, interrupted, &run_one, &raise, on_ready, &mut on_tick)?;
    for thread in one.engine.thread_times() {
        // Workers have counted themselves.
        if !matches!(thread.role, ThreadRole::Program { .. }) {
            delivering += thread.cpu;
        }
    }
    used.cpu += delivering;
    let recorded = one.finish_capture();
    let frames_not_recorded = recorded.as_ref().map(|recorded| recorded.missing);
    let recording_failure = recorded.and_then(|recorded| recorded.failure);
    let interrupts = one.interrupts();
    let run_delay = one.engine.softirq_stats().iter().map(|cpu| cpu.run_delay_ns).sum();
    let run_delay = Duration::from_nanos(run_delay);
    Ok(ServeReport {
        softirq_run_delay_s: Some(run_delay.as_secs_f64()),
        wrong_checksums: Some(wrong_checksums(&one.netns.counters())),
        frames_not_recorded,
        recording_failure,
        ..report(config, server, seconds, used, Some(interrupts))
    })
}

/// Runs the worker of a number; it calls back once it can be reached.
type RunOne<'a> = dyn Fn(usize, &dyn Fn()) -> anyhow::Result<()> + Sync + 'a;

/// Starts the workers, waits until all can be reached, then until `interrupted` or one of them fails, and ends them.
/// `on_tick` is called again and again meanwhile.
fn run_workers(
    workers: usize,
    interrupted: &AtomicBool,
    run_one: &RunOne<'_>,
    stop: &dyn Fn(),
    on_ready: &mut dyn FnMut(),
    on_tick: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<(f64, Used)> {
    let used = Mutex::new(Used::default());
    let call = RollCall::new(workers);
    std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(workers);
        for index in 0..workers {
            let (ready, used) = (call.voice(), &used);
            let thread = std::thread::Builder::new().name(format!("kv/{index}")).spawn_scoped(scope, move || {
                let result = run_one(index, &|| ready.say());
                drop(ready);
                let usage = thread_usage();
                let mut sum = used.lock().expect("no holder of the lock panics");
                sum.cpu += usage.user + usage.system;
                sum.system += usage.system;
                result
            });
            match thread {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    stop();
                    return Err(error).context("starting a worker");
                }
            }
        }
        let all_ready = call.all_ready();
        let begun = Instant::now();
        let mut ticked = Ok(());
        if all_ready {
            ticked = on_tick();
            on_ready();
            while ticked.is_ok()
                && !interrupted.load(Ordering::Relaxed)
                && threads.iter().all(|thread| !thread.is_finished())
            {
                std::thread::sleep(STOP_LOOK);
                ticked = on_tick();
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        stop();
        for thread in threads {
            thread.join().expect("workers do not panic")?;
        }
        ticked.map(|()| seconds)
    })
    .map(|seconds| (seconds, *used.lock().expect("no holder of the lock panics")))
}

fn wrong_checksums(counters: &StackCounters) -> u64 {
    counters.ip_ext_in_csum_errors
        + counters.udp_in_csum_errors
        + counters.udp6_in_csum_errors
        + counters.tcp_in_csum_errors
}

fn report(config: &ServeConfig, server: &Server, seconds: f64, used: Used, interrupts: Option<u64>) -> ServeReport {
    let StoreStats { records, bytes, evictions, .. } = server.store_stats();
    ServeReport {
        device: config.device.device.name(),
        mode: config.mode.map(|mode| mode.to_string()),
        workers: config.workers,
        seconds,
        counters: server.totals(),
        records,
        record_bytes: bytes,
        evictions,
        cpu_s: used.cpu.as_secs_f64(),
        cpu_system_s: used.system.as_secs_f64(),
        interrupts,
        softirq_run_delay_s: None,
        wrong_checksums: None,
        frames_not_recorded: None,
        recording_failure: None,
    }
}

impl std::fmt::Display for ServeReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Totals { requests, gets, get_hits, sets, refused, connections, datagrams, .. } = self.counters;
        writeln!(f, "requests     {requests} ({gets} gets, {get_hits} of them found, {sets} sets, {refused} refused)")?;
        writeln!(f, "connections  {connections}, and {datagrams} datagrams")?;
        let Totals { connections_refused, connections_refused_memory, connections_idle, .. } = self.counters;
        let Totals { connections_out_of_memory, requests_out_of_memory, accepts_paused, .. } = self.counters;
        let refused = connections_refused + connections_refused_memory;
        if refused + connections_idle + connections_out_of_memory + requests_out_of_memory + accepts_paused > 0 {
            writeln!(
                f,
                "limits       {refused} connections refused ({connections_refused_memory} for want of memory), \
                 {connections_idle} idle and {connections_out_of_memory} without memory for an answer closed, \
                 {requests_out_of_memory} requests without memory, {accepts_paused} pauses without descriptors"
            )?;
        }
        writeln!(f, "records      {} in {} bytes, {} evicted", self.records, self.record_bytes, self.evictions)?;
        let Self { cpu_s, cpu_system_s, seconds, workers, .. } = self;
        writeln!(
            f,
            "CPU          {cpu_s:.3} s in {seconds:.3} s, {workers} workers; {cpu_system_s:.3} s in the kernel"
        )?;
        if let Some(interrupts) = self.interrupts {
            writeln!(f, "interrupts   {interrupts}")?;
        }
        if let Some(waited) = self.softirq_run_delay_s {
            writeln!(f, "softirq      threads waited {waited:.3} s for a CPU")?;
        }
        if let Some(wrong @ 1..) = self.wrong_checksums {
            let hint = "on veth the sender has to compute them: ethtool -K IF tx off, at its end";
            writeln!(f, "checksums    {wrong} packets were dropped, for theirs was wrong ({hint})")?;
        }
        if let Some(frames) = self.frames_not_recorded {
            writeln!(f, "recording    {frames} frames are missing")?;
        }
        match &self.recording_failure {
            Some(why) => writeln!(f, "             {why}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_says_what_softirq_threads_waited_for() {
        let server = Server::new(0, 1, 0);
        let report = |softirq_run_delay_s| ServeReport {
            device: "memif:x".to_owned(),
            mode: None,
            workers: 1,
            seconds: 2.0,
            counters: server.totals(),
            records: 0,
            record_bytes: 0,
            evictions: 0,
            cpu_s: 1.0,
            cpu_system_s: 0.5,
            interrupts: None,
            softirq_run_delay_s,
            wrong_checksums: None,
            frames_not_recorded: None,
            recording_failure: None,
        };
        let said = report(Some(0.25)).to_string();
        assert!(said.contains("\nsoftirq      threads waited 0.250 s for a CPU\n"), "{said}");
        assert!(!report(None).to_string().contains("softirq"), "the kernel's are not counted here");
    }
}

//! A server from its start to its summary.

use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use napier_control::ControlSocket;
use napier_kv::serve::engine::EngineNet;
use napier_kv::serve::kernel::{KernelNet, KernelStop};
use napier_kv::session::Server;
use napier_runtime::engine::ThreadRole;
use napier_runtime::event::UserEvent;
use napier_runtime::socket::StackCounters;

pub use super::config::ServeConfig;
use super::device::{OneDevice, turned_away};
use super::limits;
pub use super::report::ServeReport;
use super::workers::{run_workers, serve_on};
use crate::apply;
use crate::device::Device;
use crate::modes::Mode;

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
    let server = match &config.service {
        Some((service, seed)) => server.with_service(service, *seed),
        None => server,
    };
    match &config.device.device {
        Device::Kernel { interface } => {
            if let Some(mode) = config.mode.filter(|mode| *mode != Mode::Base) {
                bail!(
                    "mode {mode} is set on the NAPI instances of an interface, and `serve` changes none of the kernel's: give \
                     `napier run --dev IF --mode {mode} -- napier serve kv`, or a device of the engine, such as --over memif:SOCKET"
                );
            }
            serve_on_kernel(config, interface.as_deref(), &server, interrupted, on_ready)
        }
        _ => serve_on_engine(config, &server, interrupted, on_ready),
    }
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
    let run_one = |index: usize, ready: &dyn Fn()| {
        let net = KernelNet::new(&stop, &config.plan()).context("setting up the place to wait")?;
        serve_on(net.on(interface), config, server, index, ready, &stopped)
    };
    let raise = || {
        stopped.store(true, Ordering::Relaxed);
        stop.raise();
    };
    let (seconds, used) = run_workers(config.workers, interrupted, &run_one, &raise, on_ready, &mut || Ok(()))?;
    Ok(ServeReport::new(config, server, seconds, used, None))
}

/// Workers share their ports, and would share them with another server of the same user as well, unnoticed.
fn ensure_free(at: std::net::SocketAddr) -> anyhow::Result<()> {
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
    one.left_to_kernel().iter().for_each(|left| eprintln!("napier: {left}"));
    let _showing = config.shown.set(&one.engine);
    let control = config.control.then(|| ControlSocket::open(&one.engine)).transpose();
    // It is for looking and setting; the server does without.
    let _control = control.unwrap_or_else(|why| {
        eprintln!("napier: {why}; the server goes on without a control socket");
        None
    });
    let (stop, stopped) = (UserEvent::new(), AtomicBool::new(false));
    let (engine, netns) = (one.engine.clone(), one.netns.clone());
    let run_one = |index: usize, ready: &dyn Fn()| {
        let _counted = engine.count_thread("worker", None);
        let net = EngineNet::new(&engine, &netns, &stop, &config.plan(), config.limits.connections)?;
        serve_on(net.with_buffers(config.limits.buffer_bytes()), config, server, index, ready, &stopped)
    };
    let raise = || {
        stopped.store(true, Ordering::Relaxed);
        stop.trigger();
    };
    let mut look = DeviceWatch::new(config.mode);
    let mut on_tick = || look.at(&one);
    let (seconds, mut used) = run_workers(config.workers, interrupted, &run_one, &raise, on_ready, &mut on_tick)?;
    // Workers have counted themselves.
    let others =
        one.engine.thread_times().into_iter().filter(|thread| !matches!(thread.role, ThreadRole::Program { .. }));
    used.cpu += others.map(|thread| thread.cpu).sum::<Duration>();
    let recorded = one.finish_capture();
    let run_delay = Duration::from_nanos(one.engine.softirq_stats().iter().map(|cpu| cpu.run_delay_ns).sum());
    let (counters, device) = (one.netns.counters(), one.device.stats());
    Ok(ServeReport {
        in_force: one.in_force(),
        softirq_run_delay_s: Some(run_delay.as_secs_f64()),
        wrong_checksums: Some(wrong_checksums(&counters)),
        fragments: Some(counters.ip_reasm_fails + counters.ip6_reasm_fails),
        too_long: Some(device.rx_too_long + one.device.xdp_stats().map_or(0, |stats| stats.rx_dropped)),
        paths_lowered: Some(counters.path_mtu_lowered),
        black_holes: Some(counters.tcp_black_holes),
        frames_not_recorded: recorded.as_ref().map(|recorded| recorded.missing),
        recording_failure: recorded.and_then(|recorded| recorded.failure),
        ..ServeReport::new(config, server, seconds, used, Some(one.interrupts()))
    })
}

/// What is looked after on an engine's device while it is served on.
pub(super) struct DeviceWatch {
    mode: Option<Mode>,
    /// The peers whose instances have the mode.
    in_force_for: Option<(u64, bool)>,
    /// Why the other end will not have this side, as it was said last.
    turned_away: Option<String>,
    /// That nothing more is recorded was said.
    told_of_recording: bool,
}

impl DeviceWatch {
    pub(super) fn new(mode: Option<Mode>) -> Self {
        Self { mode, in_force_for: None, turned_away: None, told_of_recording: false }
    }

    pub(super) fn at(&mut self, one: &OneDevice) -> anyhow::Result<()> {
        let why = turned_away(&one.device);
        if why != self.turned_away {
            // Another may be at the other end tomorrow: the server goes on trying.
            why.iter().for_each(|why| eprintln!("napier: {why}; trying again"));
            self.turned_away = why;
        }
        if !self.told_of_recording
            && let Some(why) = one.recording_failure()
        {
            // At once: the server goes on, perhaps for days.
            eprintln!("napier: {why}; nothing more is recorded, the server goes on");
            self.told_of_recording = true;
        }
        self.put_in_force(one)?;
        one.check()
    }

    /// Instances that come with a peer come without a mode: it is applied whenever a peer has come.
    fn put_in_force(&mut self, one: &OneDevice) -> anyhow::Result<()> {
        let peers @ (_, has_peer) = one.peers();
        if let Some(mode) = self.mode
            && has_peer
            && self.in_force_for != Some(peers)
        {
            // A thread of an instance stays where the system has it; a group has a CPU, and polls on each that softirqs run on.
            let cpu = |queue| if mode == Mode::Group { one.device.irq_cpu(queue as u16) } else { None };
            let done = apply::mode_on_device(&one.engine, &one.device, mode, cpu);
            // A peer that goes meanwhile takes its instances along, and the next one is set up anew.
            if one.peers() == peers {
                done.with_context(|| format!("applying mode {mode}"))?;
                self.in_force_for = Some(peers);
            }
        }
        Ok(())
    }
}

fn wrong_checksums(counters: &StackCounters) -> u64 {
    counters.ip_ext_in_csum_errors
        + counters.udp_in_csum_errors
        + counters.udp6_in_csum_errors
        + counters.tcp_in_csum_errors
}

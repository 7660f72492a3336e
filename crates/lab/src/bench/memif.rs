//! `bench memif`: one side of a memif whose other side is another process, Napier or any other.
//!
//! One thread polls, receives and sends, as testpmd's forwarding core does. Packets have 64 bytes.

use std::time::{Duration, Instant};

use napier_runtime::device::{EndConfig, MemifConfig, MemifRole};
use napier_runtime::engine::Engine;
use napier_runtime::raw::{RawBusyPoll, RawPort};
use serde::Serialize;

use super::rtt::FRAME_BYTES;
use super::stat::Spread;
use crate::pair::never_interrupt;
use crate::serve::device::wait_for_peer;

/// How long to wait for the other process.
const PEER_PATIENCE: Duration = Duration::from_secs(60);
/// Turns between two readings of the clock.
const CLOCK_EVERY: u32 = 64;

/// What this side does.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemifMode {
    /// Sends back what it receives (testpmd: io).
    Forward,
    /// Sends as fast as the other side receives (testpmd: txonly).
    Send,
    /// Receives and drops (testpmd: rxonly).
    Receive,
}

impl MemifMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Forward, Self::Send, Self::Receive];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct MemifBenchConfig {
    /// Which side this is.
    pub role: MemifRole,
    /// Path of the control socket, or `@` and a name.
    pub socket: String,
    /// What this side does.
    pub mode: MemifMode,
    /// Packets per turn, 1 to 64.
    pub batch: u16,
    /// Packets that this side sends first where it forwards; they stay on the way.
    pub first: u32,
    /// Processor of the thread; any, if none.
    pub cpu: Option<usize>,
    /// Runs, one after the other.
    pub runs: u32,
    /// Length of each run.
    pub length: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct MemifBench {
    /// What this side did.
    pub mode: MemifMode,
    /// Packets per turn.
    pub batch: u16,
    /// Packets per second through this side: received, or sent where it only sends.
    pub packets_per_s: Spread,
    /// Time of the thread per packet, waiting included.
    pub ns_per_packet: Spread,
    /// Share of the turns that found something to do.
    pub busy_turns: Spread,
    /// Runs behind the figures: fewer than asked for if the peer went before the last.
    pub runs: u32,
    /// Packets over all runs.
    pub packets: u64,
    /// Packets that were received and could not be sent on.
    pub dropped: u64,
}

/// How long a side goes on after its last run for the other one's, at most.
const LINGER_MAX: Duration = Duration::from_millis(500);

/// How often it looks meanwhile whether the other side has gone.
const LINGER_LOOK: Duration = Duration::from_millis(10);

/// One run: what one thread did.
#[derive(Default)]
struct MemifTally {
    packets: u64,
    dropped: u64,
    turns: u64,
    busy: u64,
    took: Duration,
}

/// Waits for the other process and measures.
///
/// # Errors
/// The device could not be made, or the other process does not come or goes away.
pub fn memif(config: &MemifBenchConfig) -> anyhow::Result<MemifBench> {
    let cpus = napier_runtime::available_cpus();
    let cpu = config.cpu.unwrap_or(cpus[0]);
    let engine = Engine::builder().softirq_cpus(&[cpu]).start()?;
    let end = EndConfig {
        name: "memif0".to_owned(),
        netns: engine.namespace(),
        mac: [2, 0, 0, 0x77, 1, u8::from(config.role == MemifRole::Client)],
        addresses: Vec::new(),
        irq_cpus: vec![cpu],
    };
    let device = engine.add_memif(MemifConfig::new(config.role, &config.socket), end)?;
    // Before the peer is there: its first packets are for the port.
    let port = RawPort::bind(&device, 0)?;
    wait_for_peer(&device, &format!("memif:{}", config.socket), PEER_PATIENCE)?;
    never_interrupt(&engine, &device)?;
    port.set_busy_poll(RawBusyPoll { usecs: 1, prefer: true, budget: config.batch });
    let _counted = engine.count_thread("memif", config.cpu);
    // Where the other side has no room yet, fewer are on the way.
    port.build_batch(config.first as usize, FRAME_BYTES, build);
    port.flush();
    let mut tallies = Vec::new();
    let peer_is_there = || {
        let state = device.link_state();
        state.carrier && state.losses == 0
    };
    for _ in 0..config.runs.max(1) {
        let tally = run(&port, config, config.length);
        if !peer_is_there() {
            // Its last packets came at an unknown time, so this run says nothing; those before it do.
            anyhow::ensure!(
                !tallies.is_empty(),
                "the peer went in the first run: {}",
                device.link_state().reason.unwrap_or_default()
            );
            return report(config, &tallies);
        }
        tallies.push(tally);
    }
    // The other side began a moment later and may be in its last run: it is to have a peer until that ends.
    let begun = Instant::now();
    while begun.elapsed() < LINGER_MAX && peer_is_there() {
        run(&port, config, LINGER_LOOK);
    }
    report(config, &tallies)
}

#[expect(clippy::cast_precision_loss, reason = "figures for a report")]
fn report(config: &MemifBenchConfig, tallies: &[MemifTally]) -> anyhow::Result<MemifBench> {
    let packets = tallies.iter().map(|tally| tally.packets).sum();
    anyhow::ensure!(tallies.iter().all(|tally| tally.packets > 0), "a run without packets: does the other side send?");
    Ok(MemifBench {
        mode: config.mode,
        batch: config.batch,
        packets_per_s: Spread::over(tallies, |tally| tally.packets as f64 / tally.took.as_secs_f64()),
        ns_per_packet: Spread::over(tallies, |tally| tally.took.as_nanos() as f64 / tally.packets as f64),
        busy_turns: Spread::over(tallies, |tally| tally.busy as f64 / tally.turns as f64),
        runs: u32::try_from(tallies.len()).expect("no more than were asked for"),
        packets,
        dropped: tallies.iter().map(|tally| tally.dropped).sum(),
    })
}

/// A packet from one device to the other, with nothing in it.
const PACKET: [u8; FRAME_BYTES] = {
    let (mut packet, heads) = ([0; FRAME_BYTES], b"\x02\0\0\x77\x01\0\x02\0\0\x77\x01\x01");
    let mut at = 0;
    while at < heads.len() {
        packet[at] = heads[at];
        at += 1;
    }
    packet
};

#[inline]
fn build(frame: &mut [u8]) -> usize {
    frame[..FRAME_BYTES].copy_from_slice(&PACKET);
    FRAME_BYTES
}

fn run(port: &RawPort, config: &MemifBenchConfig, length: Duration) -> MemifTally {
    let (mut tally, begun) = (MemifTally::default(), Instant::now());
    while tally.took < length {
        for _ in 0..CLOCK_EVERY {
            turn(port, config, &mut tally);
        }
        tally.took = begun.elapsed();
    }
    tally
}

#[inline]
fn turn(port: &RawPort, config: &MemifBenchConfig, tally: &mut MemifTally) {
    let batch = usize::from(config.batch);
    let (received, sent) = match config.mode {
        MemifMode::Forward => {
            port.recv();
            port.forward_batch(batch, |frame| {
                std::hint::black_box(frame.first());
            })
        }
        MemifMode::Send => {
            let built = port.build_batch(batch, FRAME_BYTES, build);
            port.flush();
            (built, built)
        }
        MemifMode::Receive => {
            port.recv();
            let drained = port.drain(batch, |frame| {
                std::hint::black_box(frame.first());
            });
            (drained, drained)
        }
    };
    tally.turns += 1;
    tally.busy += u64::from(received > 0);
    tally.packets += received as u64;
    tally.dropped += (received - sent) as u64;
}

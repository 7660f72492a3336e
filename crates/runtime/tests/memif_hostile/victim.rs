//! An honest link beside a hostile peer: the same engine, the same softirq CPU, the same control thread.
//!
//! A stall is a request that took longer than [`STALL_MAX`] *and* for which nothing else accounts: the time for which threads
//! of this process could have run and did not, and the time for which a thread that only sleeps was not woken.

use std::io::Write as _;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use napier_runtime::available_cpus;
use napier_runtime::device::{MemifConfig, MemifRole};
use napier_runtime::engine::Engine;
use napier_runtime::raw::RawPort;

use crate::common::{PATIENCE, eventually};
use crate::program::{Program, SEED};
use crate::raw::{config, device, serves_an_honest_client, socket};

/// Longest time that a hostile peer may cost an honest one. A host that takes a processor away for half a second is not seen from here, and
/// several threads have a part in an answer; a handshake that is waited for takes five seconds, and a ringer that is not freed waits for ever.
const STALL_MAX: Duration = Duration::from_secs(3);
/// Memory that the attacked process may have gained in the end.
const GROWTH_KIB_MAX: u64 = 64 << 10;
const SECONDS: &str = "NAPIER_HOSTILE_SECONDS";

#[test]
fn a_hostile_program_costs_an_honest_link_nothing() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(now.subsec_nanos().into());
    let _ = writeln!(std::io::stderr(), "{SEED}={seed}");
    let name = socket("victim");
    let mut victim = Program::start("victim", &name, seed);
    let until = Instant::now() + seconds() + 4 * PATIENCE;
    let ended: Option<ExitStatus> = loop {
        match victim.0.try_wait().unwrap() {
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            ended => break ended,
        }
    };
    let ended = ended.unwrap_or_else(|| panic!("the attacked program stands still; {SEED}={seed}"));
    assert!(ended.success(), "{ended}; {SEED}={seed}");
}

fn seconds() -> Duration {
    let seconds = std::env::var(SECONDS).ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(4))
}

/// The attacked process: serves an honest client, and a hostile one on a second device.
pub(crate) fn holds_out(name: &str, seed: u64) {
    let cpu = available_cpus()[0];
    let start = || Engine::builder().softirq_cpus(&[cpu]).start().unwrap();
    let (engine, other) = (start(), start());
    let attacked = device(&engine, MemifConfig { queues: 1, ..config(MemifRole::Server, name) });
    let honest_name = format!("{name}-honest");
    let honest = || MemifConfig { queues: 1, ..config(MemifRole::Server, &honest_name) };
    let server = crate::raw::named(&engine, honest(), "memif1");
    let client = device(&other, MemifConfig { role: MemifRole::Client, ..honest() });
    assert!(client.wait_link(PATIENCE) && server.wait_link(PATIENCE));
    let over = AtomicBool::new(false);
    let slept_late = Mutex::new(Duration::ZERO);
    let before_kib = resident_kib();
    let hostile = Program::start("hostile", name, seed);
    // Before anybody sends.
    let (asks, answers) = (RawPort::bind(&client, 0).unwrap(), RawPort::bind(&server, 0).unwrap());
    let sends = RawPort::bind(&attacked, 0).unwrap();
    std::thread::scope(|scope| {
        let _ends = Ends(&over);
        scope.spawn(|| echo(answers, &over));
        scope.spawn(|| send_to_the_peer(sends, &over));
        scope.spawn(|| watch(&slept_late, &over));
        ask(asks, &slept_late, || attacked.link_state().losses > 0);
    });
    drop(hostile);
    let grown_kib = resident_kib().saturating_sub(before_kib);
    let (state, stats) = (attacked.link_state(), attacked.stats());
    let _ = writeln!(std::io::stderr(), "{} hostile peers, {grown_kib} KiB more; {stats:?}", state.losses);
    assert!(grown_kib < GROWTH_KIB_MAX, "{grown_kib} KiB more than before");
    assert!(state.losses > 0, "the hostile program never came in");
    eventually("the hostile peer is gone", || !attacked.link_state().carrier);
    serves_an_honest_client(&attacked, name);
    assert_eq!(server.link_state().losses, 0);
    eventually("every frame is back", || server.frames_out() == 0 && client.frames_out() == 0);
}

/// Lets the threads end, also after a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn echo(port: RawPort, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let _ = port.wait(Some(Duration::from_millis(10)));
        let _ = port.forward_batch(64, |_| {});
        port.flush();
    }
}

/// So that the hostile peer is rung and its buffers are used.
fn send_to_the_peer(port: RawPort, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let _ = port.build(64, |_| 64);
        port.flush();
        let _ = port.drain(64, |_| {});
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Adds up how much later than it should a thread wakes up that waits for nobody.
fn watch(slept_late: &Mutex<Duration>, over: &AtomicBool) {
    let nap = Duration::from_millis(1);
    while !over.load(Ordering::Relaxed) {
        let begin = Instant::now();
        std::thread::sleep(nap);
        *slept_late.lock().unwrap() += begin.elapsed().saturating_sub(2 * nap);
    }
}

/// Asks for some seconds, and until the hostile program came in.
fn ask(port: RawPort, slept_late: &Mutex<Duration>, came_in: impl Fn() -> bool) {
    let (mut requests, mut slowest, mut stall) = (0_u64, Duration::ZERO, Duration::ZERO);
    let begin = Instant::now();
    while begin.elapsed() < seconds() || (!came_in() && begin.elapsed() < PATIENCE) {
        let (asked, late, waited) = (Instant::now(), *slept_late.lock().unwrap(), not_run());
        port.build(64, |frame| {
            frame[..64].fill(requests as u8);
            64
        })
        .unwrap();
        port.flush();
        while port.drain(64, |_| {}) == 0 {
            assert!(port.wait(Some(PATIENCE)), "no answer in {PATIENCE:?}");
        }
        let took = asked.elapsed();
        (requests, slowest) = (requests + 1, slowest.max(took));
        if took > STALL_MAX {
            // The watching thread may not have woken up yet.
            std::thread::sleep(Duration::from_millis(5));
            let excused = not_run().saturating_sub(waited) + (*slept_late.lock().unwrap() - late);
            let _ = writeln!(std::io::stderr(), "request {requests} took {took:?}; not run for {excused:?}");
            stall = stall.max(took.saturating_sub(excused));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let _ = writeln!(std::io::stderr(), "{requests} requests, the slowest took {slowest:?}");
    assert!(requests > 0 && stall < STALL_MAX, "an honest peer was kept waiting for {stall:?}");
}

/// For how long threads of this process have been ready and not been run: second field of `schedstat`, see
/// Documentation/scheduler/sched-stats.rst. Zero where the kernel does not say.
fn not_run() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let waited = threads.filter_map(|thread| {
        let line = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Duration::from_nanos(waited.sum())
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

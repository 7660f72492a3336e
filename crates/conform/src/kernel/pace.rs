//! How slowly a scenario is carried out: by what this machine was seen to need, not by what a file happens to have.
//!
//! A run says something if each step was done before the next one was due. How late a thread comes that was asleep, and how long a call takes,
//! is measured once while another processor is busy, as it is in a run; times of a scenario are multiplied so that its shortest gap has room for
//! that several times. An emulator that gives its processors turns of 100 ms has such gaps of seconds.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use napier_core::time::Span;
use napier_runtime::RealTime;
use napier_scenario::Scenario;

use super::addresses::pin;
use super::napi;
use crate::real::PRIORITY;
use crate::real::timeline::{AFTER_LAST, end, shortest_gap};

/// Of what it was measured to be late by, in the shortest gap of a scenario.
const ROOM: u64 = 8;
/// How far apart steps are usually: for files whose steps are all due at once.
const USUAL: Span = Span::from_ms(1);
/// Where it is later, times say something of the machine and nothing of its kernel.
const KEEPS_TIMES: Span = Span::from_us(500);
/// Further tries are so many times as slow as the first one.
const FURTHER: [u32; 3] = [1, 3, 10];
/// As slow as is waited for.
const STRETCH_MAX: u64 = 1000;
const RUN_MAX: Span = Span::from_ns(60_000_000_000);
/// How long is looked, and how often at most.
const LOOK: Duration = Duration::from_millis(400);
const LOOKS_MAX: u32 = 40;
const ASLEEP: Duration = Duration::from_millis(1);

/// How a scenario is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pace {
    /// By what all of its times are multiplied.
    pub(super) stretch: u32,
    /// Whether they are compared.
    pub(super) times: bool,
}

impl Pace {
    /// As it is written.
    pub(super) const WRITTEN: Self = Self { stretch: 1, times: true };
}

/// How well this machine keeps to times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Keeping {
    /// How late it was at most.
    late: Span,
    /// Its processors are emulated, so that no length of time in it is one.
    is_emulated: bool,
}

/// The paces at which a scenario is tried, one after the other.
pub(super) fn paces(scenario: &Scenario, machine: &Keeping, wants_times: bool) -> Vec<Pace> {
    let needed = (ROOM * machine.late.ns).div_ceil(shortest_gap(scenario).unwrap_or(USUAL).ns);
    let whole = end(scenario, AFTER_LAST).ns.max(1);
    let most = (RUN_MAX.ns / whole).clamp(1, STRETCH_MAX);
    let slowly = |times: u32| Pace {
        stretch: u32::try_from((needed.max(1) * u64::from(times)).min(most)).expect("it is 1000 at most"),
        times: false,
    };
    let keeps = wants_times && !machine.is_emulated && machine.late.ns <= KEEPS_TIMES.ns;
    keeps.then_some(Pace::WRITTEN).into_iter().chain(FURTHER.map(slowly)).collect()
}

/// Looks at this machine.
pub(super) fn look() -> Keeping {
    let cpus = napier_runtime::available_cpus();
    let over = AtomicBool::new(false);
    let late = std::thread::scope(|scope| {
        if let Some(other) = cpus.get(1) {
            scope.spawn(|| {
                pin(Some(*other));
                // Ends by itself: a thread that looks may find no processor.
                let begun = Instant::now();
                while !over.load(Ordering::Relaxed) && begun.elapsed() < LOOK * 20 {
                    std::hint::spin_loop();
                }
            });
        }
        let looked = scope.spawn(|| {
            let _real_time = RealTime::begin(PRIORITY).ok();
            pin(cpus.first().copied());
            let late = lateness();
            over.store(true, Ordering::Relaxed);
            late
        });
        looked.join().unwrap_or(Duration::ZERO)
    });
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let late = Span::from_ns(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
    Keeping { late, is_emulated: cpus.contains("QEMU TCG CPU") }
}

/// How late the calling thread is at most when it has slept, and how long calls like a run's take.
fn lateness() -> Duration {
    let pair = UdpSocket::bind("127.0.0.1:0").and_then(|socket| {
        socket.connect(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    let begun = Instant::now();
    let mut most = Duration::ZERO;
    for _ in 0..LOOKS_MAX {
        let asleep = Instant::now();
        std::thread::sleep(ASLEEP);
        most = most.max(asleep.elapsed().saturating_sub(ASLEEP));
        let calls = Instant::now();
        // What they answer is of no interest.
        let _ = napi::thread_of(1);
        if let Ok(socket) = &pair {
            let _ = socket.send(&[0; 64]).and_then(|_| socket.recv(&mut [0; 64]));
        }
        most = most.max(calls.elapsed());
        if begun.elapsed() > LOOK {
            break;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(steps: &str) -> Scenario {
        let text =
            format!("title = \"t\"\n[timeline]\nsteps = [{steps}]\n[expect]\nwatch = [\"return\"]\nevents = []\n");
        Scenario::parse(&text, "x").expect("a scenario")
    }

    fn step(at: &str) -> String {
        format!("{{ at = \"{at}\", call = \"napi-get\", napi = \"eth0/0\" }}, ")
    }

    #[test]
    fn the_shortest_gap_has_room_for_what_the_machine_is_late_by() {
        let of = |steps: &[&str], late_us, is_emulated, wants_times| {
            let steps: String = steps.iter().map(|at| step(at)).collect();
            paces(&scenario(&steps), &Keeping { late: Span::from_us(late_us), is_emulated }, wants_times)
        };
        let slowly = |stretch| Pace { stretch, times: false };
        // A machine that keeps to times is asked for them first, and then tried as slowly as it needs.
        let usual = of(&["1ms", "3ms", "20ms"], 100, false, true);
        assert_eq!(usual, [Pace::WRITTEN, slowly(1), slowly(3), slowly(10)]);
        assert_eq!(of(&["1ms", "3ms"], 100, false, false), [slowly(1), slowly(3), slowly(10)]);
        // 5 ms late, and 2 ms between two steps.
        assert_eq!(of(&["1ms", "3ms", "3ms"], 5_000, false, true), [slowly(20), slowly(60), slowly(200)]);
        // Steps at once are no gap, and an emulated machine is never asked for times.
        assert_eq!(of(&["1ms", "1ms"], 100, true, true)[0], slowly(1));
        // As slow as a minute, and no slower.
        assert_eq!(of(&["0ms", "1ms", "69ms"], 100_000, true, true)[0], slowly(606));
    }

    #[test]
    fn a_machine_is_looked_at_within_a_bound() {
        let seen = look();
        assert!(seen.late.ns > 0, "nothing takes no time");
    }
}

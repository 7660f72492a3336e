//! Takes CPUs from the tests that run beside it (`scripts/tests-beside-load`), and ends by itself.
//!
//! `disturb burn SECONDS` computes without a pause. `disturb take SECONDS SEED [PERCENT]` takes its CPU for 20 ms at random times, a tenth
//! of the time in all or PERCENT of it: pinned and in a real-time class it is a host that takes the CPU away.

use std::time::{Duration, Instant};

use napier_testkit::Dice;

/// How long a CPU is taken at once.
const TAKEN: Duration = Duration::from_millis(20);
fn burn(until: Instant) {
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// Takes the CPU until `end`, for this share of the time.
fn take(end: Instant, seed: &str, percent: &str) {
    let percent = number(percent).clamp(1, 99);
    // Pauses are even between nothing and twice their mean.
    let pause_ms_max = 2 * TAKEN.as_millis() as u64 * (100 - percent) / percent;
    let mut dice = Dice(number(seed));
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(dice.roll(pause_ms_max)));
        burn(Instant::now() + TAKEN);
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let end = |seconds: &str| Instant::now() + Duration::from_secs(number(seconds));
    match args[..] {
        ["burn", seconds] => burn(end(seconds)),
        ["take", seconds, seed] => take(end(seconds), seed, "10"),
        ["take", seconds, seed, percent] => take(end(seconds), seed, percent),
        _ => panic!("disturb burn SECONDS, or disturb take SECONDS SEED [PERCENT]"),
    }
}

//! Takes CPUs from the tests that run beside it (`scripts/tests-beside-load`), and ends by itself.
//!
//! `disturb burn SECONDS` computes without a pause. `disturb take SECONDS SEED` takes its CPU for 20 ms at random times, a tenth
//! of the time in all: pinned and in a real-time class it is a host that takes the CPU away.

use std::time::{Duration, Instant};

use napier_testkit::Dice;

/// How long a CPU is taken at once.
const TAKEN: Duration = Duration::from_millis(20);
/// Longest pause between two of these; the mean is half of it.
const PAUSE_MS_MAX: u64 = 360;

fn burn(until: Instant) {
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let end = |seconds: &str| Instant::now() + Duration::from_secs(number(seconds));
    match args[..] {
        ["burn", seconds] => burn(end(seconds)),
        ["take", seconds, seed] => {
            let (end, mut dice) = (end(seconds), Dice(number(seed)));
            while Instant::now() < end {
                std::thread::sleep(Duration::from_millis(dice.roll(PAUSE_MS_MAX)));
                burn(Instant::now() + TAKEN);
            }
        }
        _ => panic!("disturb burn SECONDS, or disturb take SECONDS SEED"),
    }
}

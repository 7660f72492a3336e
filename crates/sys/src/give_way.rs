//! Waiting for another thread that will be done in a moment, if it has a processor.

use std::time::Duration;

/// Times that the processor is offered before the waiter sleeps.
const YIELDS: u32 = 4;
/// How long it sleeps then: some batches.
const NAP: Duration = Duration::from_micros(20);

/// Offers the processor to others, and if that was to no avail sleeps for a moment each time: a waiter in a real-time class
/// would otherwise keep the thread that it waits for, whose processor it took, from ever going on.
#[derive(Default)]
pub struct GiveWay {
    turns: u32,
}

impl GiveWay {
    /// One turn of a loop that waits.
    pub fn turn(&mut self) {
        if self.turns < YIELDS {
            self.turns += 1;
            std::thread::yield_now();
        } else {
            std::thread::sleep(NAP);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    use super::*;
    use crate::sched::{available_cpus, pin_current_thread, set_fifo};

    /// A waiter that only yielded would hold the processor until the system takes it away, after most of a second.
    #[test]
    fn a_waiter_in_a_real_time_class_lets_a_thread_of_programs_go_on() {
        let cpu = available_cpus()[0];
        let step = AtomicU32::new(0);
        let until = |wanted| {
            while step.load(Ordering::Acquire) != wanted {
                std::thread::sleep(Duration::from_micros(100));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin_current_thread(cpu);
                until(1);
                step.store(2, Ordering::Release);
            });
            scope.spawn(|| {
                pin_current_thread(cpu);
                if set_fifo(1).is_err() {
                    let test = "a_waiter_in_a_real_time_class_lets_a_thread_of_programs_go_on";
                    napier_testkit::skip!(test, "SCHED_FIFO is not granted (CAP_SYS_NICE)");
                }
                step.store(1, Ordering::Release);
                let begun = Instant::now();
                let mut give_way = GiveWay::default();
                while step.load(Ordering::Acquire) != 2 {
                    give_way.turn();
                    assert!(begun.elapsed() < Duration::from_secs(20), "the other thread never runs");
                }
            });
        });
    }
}

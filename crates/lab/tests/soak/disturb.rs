//! What is done to the two programs while they talk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use napier_rng::{Xoshiro256PlusPlus, below};
use napier_runtime::RealTime;
use napier_sys::sched::pin_current_thread;
use rustix::process::{Pid, Signal, kill_process};

use crate::now_ns;
use crate::watch::Span;

/// Priority of the hog: that of the engine's softirq threads, which do not get the CPU while it has it.
const HOG_PRIORITY: i32 = 50;
const HOG: Duration = Duration::from_millis(1500);

/// One disturbance.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// So many threads that want a CPU.
    BusyLoops(usize),
    /// A real-time thread that has this CPU.
    Hog { cpu: usize },
    /// The server or the client is stopped.
    Stop { server: bool },
}

/// What was done, and when.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disturbance {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

/// Makes disturbances, one after the other, drawn from one seed.
pub(crate) struct Disturber {
    pub(crate) rng: Xoshiro256PlusPlus,
    pub(crate) server: u32,
    pub(crate) client: u32,
    pub(crate) cpus: Vec<usize>,
    /// Hogs so far: each CPU in turn.
    pub(crate) hogs: usize,
    /// Real-time scheduling is not granted, so there are no hogs.
    pub(crate) without_hogs: bool,
}

impl Disturber {
    /// Disturbs for about so long, with quiet times in between.
    pub(crate) fn run(&mut self, length: Duration) -> Vec<Disturbance> {
        let begun = std::time::Instant::now();
        let mut done = Vec::new();
        // The first three are one of each, so that a short run has them all.
        for turn in 0_u32.. {
            self.sleep_ms(50, 300);
            if begun.elapsed() >= length {
                break;
            }
            let kind = match if turn < 3 { turn } else { below(&mut self.rng, 3) } {
                0 => Kind::Stop { server: below(&mut self.rng, 2) == 0 },
                1 => Kind::BusyLoops(4 + below(&mut self.rng, 5) as usize),
                _ if self.without_hogs => continue,
                _ => {
                    self.hogs += 1;
                    Kind::Hog { cpu: self.cpus[self.hogs % self.cpus.len()] }
                }
            };
            done.extend(self.disturb(kind));
        }
        done
    }

    fn disturb(&mut self, kind: Kind) -> Option<Disturbance> {
        let from_ns = now_ns();
        match kind {
            Kind::Stop { server } => {
                let pid = if server { self.server } else { self.client };
                let length = self.draw_ms(10, 500);
                stop_for(pid, length);
            }
            Kind::BusyLoops(count) => {
                let stop = Arc::new(AtomicBool::new(false));
                let loops: Vec<_> = (0..count)
                    .map(|_| {
                        let stop = stop.clone();
                        std::thread::spawn(move || {
                            while !stop.load(Ordering::Relaxed) {
                                std::hint::spin_loop();
                            }
                        })
                    })
                    .collect();
                self.sleep_ms(300, 1000);
                stop.store(true, Ordering::Relaxed);
                loops.into_iter().for_each(|thread| thread.join().expect("it cannot panic"));
            }
            Kind::Hog { cpu } => {
                let hogged = std::thread::spawn(move || {
                    pin_current_thread(cpu);
                    let _real_time = RealTime::begin(HOG_PRIORITY).ok()?;
                    let begun = std::time::Instant::now();
                    while begun.elapsed() < HOG {
                        std::hint::spin_loop();
                    }
                    Some(())
                });
                self.without_hogs = hogged.join().expect("it cannot panic").is_none();
                if self.without_hogs {
                    return None;
                }
            }
        }
        Some(Disturbance { kind, span: Span { from_ns, to_ns: now_ns() } })
    }

    fn draw_ms(&mut self, from: u32, to: u32) -> Duration {
        Duration::from_millis(u64::from(from + below(&mut self.rng, to - from + 1)))
    }

    fn sleep_ms(&mut self, from: u32, to: u32) {
        let length = self.draw_ms(from, to);
        std::thread::sleep(length);
    }
}

/// Stops a process for a while.
pub(crate) fn stop_for(pid: u32, length: Duration) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("process ids are small")).expect("a child");
    // It fails if the child has ended, which is found elsewhere.
    let _ = kill_process(pid, Signal::STOP);
    std::thread::sleep(length);
    let _ = kill_process(pid, Signal::CONT);
}

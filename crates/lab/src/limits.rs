//! What this machine charges for a wake-up, a timer and a short sleep: the floor under the figures of whatever sleeps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use napier_sys::cpuclock::ThreadClock;
use napier_sys::sched::{exact_timers, pin_current_thread};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use serde::Serialize;

const WAKES: usize = 400;
const TIMERS: u32 = 2_000;
const SLEEPS: u32 = 1_000;
const IDLE: Duration = Duration::from_micros(100);
const NEAR: Duration = Duration::from_micros(20);
const FAR: Duration = Duration::from_millis(10);

/// Costs of one machine, at the moment when they were measured.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
pub struct MachineLimits {
    /// From the write to an event counter until a thread runs that slept on it, on another processor that was idle for 100 us: the
    /// median, in us. `None` where there is one processor only.
    pub idle_wake_us: Option<f64>,
    /// CPU time of setting a timer 20 us ahead (`timerfd_settime`), in us.
    pub near_timer_us: f64,
    /// As before, 10 ms ahead.
    pub far_timer_us: f64,
    /// CPU time of sleeping for 20 us, in us.
    pub short_sleep_us: f64,
}

impl MachineLimits {
    /// Measures for some tens of milliseconds, on the processors that this process may use.
    ///
    /// # Errors
    /// No descriptor, or no thread.
    pub fn measure() -> std::io::Result<Self> {
        let cpus = napier_runtime::available_cpus();
        // On threads of its own, which pin themselves.
        std::thread::scope(|scope| {
            let measured = scope.spawn(|| {
                pin_current_thread(cpus[0]);
                exact_timers();
                Ok(Self {
                    idle_wake_us: cpus.get(1).map(|&other| idle_wake_us(other)).transpose()?,
                    near_timer_us: timer_us(NEAR)?,
                    far_timer_us: timer_us(FAR)?,
                    short_sleep_us: short_sleep_us(),
                })
            });
            measured.join().expect("measuring does not panic")
        })
    }
}

/// `idle wake 4.1 us, timer 20 us ahead 1.9 us, 10 ms ahead 0.4 us, sleep of 20 us 3.1 us of CPU`.
impl std::fmt::Display for MachineLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(wake) = self.idle_wake_us {
            write!(f, "idle wake {wake:.1} us, ")?;
        }
        write!(
            f,
            "timer 20 us ahead {:.1} us, 10 ms ahead {:.1} us, sleep of 20 us {:.1} us of CPU",
            self.near_timer_us, self.far_timer_us, self.short_sleep_us
        )
    }
}

fn idle_wake_us(other: usize) -> std::io::Result<f64> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
    // When the sleeper ran, in ns since `begun`.
    let (begun, ran_ns) = (Instant::now(), AtomicU64::new(0));
    let now_ns = || begun.elapsed().as_nanos() as u64;
    let mut took_us = Vec::with_capacity(WAKES);
    std::thread::scope(|scope| -> std::io::Result<()> {
        scope.spawn(|| {
            pin_current_thread(other);
            for _ in 0..WAKES {
                if rustix::io::read(&bell, &mut [0; 8]).is_err() {
                    return;
                }
                ran_ns.store(now_ns(), Ordering::Release);
            }
        });
        for _ in 0..WAKES {
            let idle_since = Instant::now();
            while idle_since.elapsed() < IDLE {
                std::hint::spin_loop();
            }
            ran_ns.store(0, Ordering::Relaxed);
            let rung_ns = now_ns();
            rustix::io::write(&bell, &1_u64.to_ne_bytes())?;
            while ran_ns.load(Ordering::Acquire) == 0 {
                std::hint::spin_loop();
            }
            took_us.push((ran_ns.load(Ordering::Acquire) - rung_ns) as f64 / 1e3);
        }
        Ok(())
    })?;
    Ok(crate::stats::median(&mut took_us))
}

/// CPU time of `count` calls of `call`, per call, in us.
fn cpu_us(count: u32, mut call: impl FnMut()) -> f64 {
    let clock = ThreadClock::current();
    let read = || clock.and_then(ThreadClock::read).unwrap_or_default();
    let before = read();
    (0..count).for_each(|_| call());
    (read() - before).as_secs_f64() * 1e6 / f64::from(count)
}

fn timer_us(ahead: Duration) -> std::io::Result<f64> {
    let timer: OwnedFd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let ahead_ns = i64::try_from(ahead.as_nanos()).expect("milliseconds");
    let mut failed = None;
    let each = cpu_us(TIMERS, || {
        let now = clock_gettime(ClockId::Monotonic);
        let nsec = now.tv_nsec + ahead_ns;
        let at = Timespec { tv_sec: now.tv_sec + nsec / 1_000_000_000, tv_nsec: nsec % 1_000_000_000 };
        let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        failed = timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &spec).err().or(failed);
    });
    failed.map_or(Ok(each), |error| Err(error.into()))
}

fn short_sleep_us() -> f64 {
    cpu_us(SLEEPS, || std::thread::sleep(NEAR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_is_measured() {
        let limits = MachineLimits::measure().expect("descriptors and threads");
        assert!(limits.near_timer_us > 0.0 && limits.far_timer_us > 0.0 && limits.short_sleep_us > 0.0, "{limits:?}");
        assert_eq!(limits.idle_wake_us.is_some(), napier_runtime::available_cpus().len() > 1);
        assert!(limits.to_string().contains("us of CPU"));
    }
}

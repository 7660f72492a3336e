//! What the kernel's instances do in a run, by tracepoints: polls of the device under test, expirations of the deferral timer.
//!
//! They are counted while the load runs already and nothing is measured yet, so that counting costs the figures nothing. Events go
//! to buffers of the kernel and are read after the run. Their number is exact, also where a buffer was too small; the
//! shares (empty polls, packets per poll, polls by softirqs) are then those of the last ones.

use std::time::{Duration, Instant};

use napier_linux::tracefs::{EventCounts, HRTIMER_EXPIRE, NAPI_POLL, Recorded, TraceError, Tracer};

/// Buffer of polls for each processor: room for some 80,000.
const POLLS_KIB: u32 = 4096;

/// Buffer of timers: they are only counted.
const TIMERS_KIB: u32 = 64;

/// Between switching on and counting: the code of the kernel is changed for the former, which every CPU notices.
const SETTLE: Duration = Duration::from_millis(60);

/// How long is counted.
const COUNT: Duration = Duration::from_millis(150);

/// A run is so much longer for it: switching off takes its time too.
pub(crate) const LASTS: Duration = Duration::from_millis(300);

/// Two instances of tracefs, one for each thing that is counted.
#[derive(Debug)]
pub(crate) struct InstanceCounters {
    device: String,
    /// How long was counted last.
    counted: Duration,
    /// The packets that came meanwhile.
    came: Option<u64>,
    polls: Tracer,
    timers: Tracer,
}

/// What was counted in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    /// Polls of the device's instances, by whomever.
    pub(crate) polls: u64,
    /// Those that a softirq made.
    pub(crate) softirq_polls: f64,
    /// Share of polls that found nothing.
    pub(crate) empty_share: f64,
    /// Packets per poll.
    pub(crate) work_per_poll: f64,
    /// Expirations of the deferral timer, of all instances of the machine.
    pub(crate) timers: u64,
    /// Within so many seconds.
    pub(crate) seconds: f64,
    /// Packets that came over the interface within them; `None` where they are not counted.
    pub(crate) came: Option<u64>,
}

impl InstanceCounters {
    /// For the instances of one device.
    ///
    /// # Errors
    /// What tracefs refuses.
    pub(crate) fn new(device: &str) -> Result<Self, TraceError> {
        let (device, counted) = (device.to_owned(), Duration::ZERO);
        let mut counters = Self { device, counted, came: None, polls: Tracer::new()?, timers: Tracer::new()? };
        counters.polls.buffer(POLLS_KIB)?;
        counters.timers.buffer(TIMERS_KIB)?;
        // Whether all of it is there shows now, not in the first run.
        counters.begin()?;
        counters.end()?;
        Ok(counters)
    }

    /// Switches the tracepoints on; nothing is kept so far.
    fn begin(&mut self) -> Result<(), TraceError> {
        for tracer in [&self.polls, &self.timers] {
            tracer.keep(false)?;
            tracer.clear()?;
        }
        self.polls.record(NAPI_POLL, Some(&format!("dev_name == \"{}\"", self.device)))?;
        // `net/core/dev.c napi_watchdog`: the end of a deferral or a suspension.
        self.timers.record(HRTIMER_EXPIRE, Some("function.function == napi_watchdog"))
    }

    /// Switches the tracepoints off.
    fn end(&mut self) -> Result<(), TraceError> {
        self.polls.stop()?;
        self.timers.stop()
    }

    /// Counts for a while what happens from now on; takes [`LASTS`] with what belongs to it. `packets` tells how many have
    /// come so far.
    pub(crate) fn count(&mut self, packets: impl Fn() -> Option<u64>) -> Result<(), TraceError> {
        self.begin()?;
        std::thread::sleep(SETTLE);
        let begun = Instant::now();
        self.polls.keep(true)?;
        self.timers.keep(true)?;
        // Within the time in which polls are kept, or a packet could have come whose poll was not.
        let before = packets();
        std::thread::sleep(COUNT);
        self.came = packets().zip(before).map(|(now, before)| now.saturating_sub(before));
        self.polls.keep(false)?;
        self.timers.keep(false)?;
        self.counted = begun.elapsed();
        self.end()
    }

    /// What was counted last.
    pub(crate) fn read(&mut self) -> Result<Counted, TraceError> {
        let (seen, timers) = (self.polls.seen()?, self.timers.seen()?.total());
        let (seconds, came) = (self.counted.as_secs_f64(), self.came);
        Ok(Counted { timers, seconds, came, ..Counted::of(seen, &self.polls.take()?) })
    }
}

impl Counted {
    #[expect(clippy::cast_precision_loss, reason = "figures for a report")]
    fn of(seen: EventCounts, kept: &Recorded) -> Self {
        let (mut empty, mut work, mut in_softirq) = (0_u64, 0_u64, 0_u64);
        for event in &kept.events {
            let packets = event.field("work").and_then(|work| work.parse().ok()).unwrap_or(0);
            work += packets;
            empty += u64::from(packets == 0);
            in_softirq += u64::from(event.in_softirq);
        }
        let share = |count: u64| count as f64 / kept.events.len().max(1) as f64;
        let polls = seen.total();
        Self {
            polls,
            softirq_polls: share(in_softirq) * polls as f64,
            empty_share: share(empty),
            work_per_poll: share(work),
            timers: 0,
            seconds: 0.0,
            came: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use napier_linux::tracefs::TraceEvent;

    use super::*;

    #[test]
    fn shares_of_those_that_were_kept_hold_for_all() {
        let poll = |work: u32, in_softirq| TraceEvent {
            cpu: 0,
            tid: 1,
            thread: "memcached".to_owned(),
            at_us: 0,
            in_softirq,
            name: "napi_poll".to_owned(),
            text: format!("napi poll on napi struct 0 for device x work {work} budget 64"),
        };
        let kept = Recorded { events: vec![poll(0, false), poll(3, true), poll(5, true), poll(0, false)], lost: 0 };
        let counted = Counted::of(EventCounts { kept: 4, overrun: 4, taken: 0 }, &kept);
        assert_eq!((counted.polls, counted.softirq_polls), (8, 4.0));
        assert_eq!((counted.empty_share, counted.work_per_poll), (0.5, 2.0));
        assert_eq!(Counted::of(EventCounts::default(), &Recorded::default()), Counted::default());
    }
}

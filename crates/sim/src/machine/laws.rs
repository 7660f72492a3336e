//! Laws that every run for figures is held against, whatever the rules do: what is counted in one place is held against what is counted
//! in another. Where one does not hold the run is broken, and no figure comes of it.
//!
//! | law | between |
//! |---|---|
//! | requests are conserved | those that were sent, those that were answered, and those on their way, place by place |
//! | Little's law | how long requests were out by their number and the clock, and by themselves; in a closed loop, connections and rate times latency |
//! | no more comes than is offered | requests that were answered, and those that chance lets come at the rate |
//! | no CPU is busy for longer than there is time | accounted time, and the clock |
//! | what is busy is what was done | time of programs, and requests times what each takes |
//! | no more is answered than a program has time for | the same with the whole of a request |

use napier_core::time::{Instant, Span};

use super::work::{Class, Work};
use super::world::World;

/// What a law says of a run that breaks it.
pub(super) type Held = Result<(), String>;

/// Chance, in standard deviations: a run in two million is more than five off.
const DEVIATIONS: f64 = 5.0;
/// By how much a closed loop may be off, beside what its ends can explain: requests that began before the measured time or end after it.
const LITTLE_OFF: f64 = 0.02;

/// Requests as they leave and as they are answered.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Tally {
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// How long answered ones were out, together.
    pub(super) sojourn_ns: u64,
    /// How long requests were out until `since`, by their number.
    area_ns: u64,
    since: Instant,
}

impl Tally {
    pub(super) const fn new(now: Instant) -> Self {
        Self { asked: 0, answered: 0, sojourn_ns: 0, area_ns: 0, since: now }
    }

    /// Requests that are not answered yet.
    pub(super) const fn out(&self) -> u64 {
        self.asked.saturating_sub(self.answered)
    }

    /// How long requests were out until now.
    pub(super) fn area_ns(&self, now: Instant) -> u64 {
        self.area_ns + self.out() * (now - self.since).ns
    }

    fn go_on(&mut self, now: Instant) {
        (self.area_ns, self.since) = (self.area_ns(now), now);
    }

    /// A request leaves.
    pub(super) fn asks(&mut self, now: Instant) {
        self.go_on(now);
        self.asked += 1;
    }

    /// One that left at `sent` is answered.
    pub(super) fn is_answered(&mut self, now: Instant, sent: Instant) {
        self.go_on(now);
        self.answered += 1;
        self.sojourn_ns += (now - sent).ns;
    }

    /// Requests are conserved, and Little's law of all of the run until `now`; `sent` are those that are out by themselves.
    pub(super) fn holds(&self, now: Instant, sent: impl Iterator<Item = Instant>) -> Held {
        let (mut out, mut ages_ns) = (0, 0);
        for sent in sent {
            out += 1;
            ages_ns += (now - sent).ns;
        }
        if self.asked != self.answered + out {
            return Err(format!(
                "requests are not conserved: {} were sent, {} are answered, {out} are out",
                self.asked, self.answered
            ));
        }
        let (by_number, by_themselves) = (self.area_ns(now), self.sojourn_ns + ages_ns);
        if by_number != by_themselves {
            return Err(format!(
                "Little's law: requests were out for {by_number} ns by their number and the clock, for {by_themselves} ns by themselves"
            ));
        }
        Ok(())
    }
}

/// What is counted of a run at a moment.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Look {
    pub(super) at: Instant,
    /// Of requests; none: the run has none.
    pub(super) tally: Option<Tally>,
    /// Requests that programs took.
    pub(super) taken: u64,
    /// What was drawn for them beside.
    pub(super) service_ns: u64,
    /// Time of programs, at full speed.
    pub(super) user_ns: u64,
    /// Requests that are due and not answered.
    pub(super) behind: f64,
    /// How long requests have been out that were lost and will be sent again.
    pub(super) lost_ns: u64,
    /// What each CPU was busy for.
    pub(super) busy_ns: Vec<u64>,
}

impl Look {
    /// Requests that were sent so far.
    pub(super) fn asked(&self) -> u64 {
        self.tally.map_or(0, |tally| tally.asked)
    }
}

/// What there was between two looks, and what must be true of it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Window {
    pub(super) before: Look,
    pub(super) after: Look,
    /// CPU time that is charged and not spent at either end, at most, of one CPU.
    pub(super) slack_ns: u64,
}

impl Window {
    fn ns(&self) -> u64 {
        self.after.at.ns - self.before.at.ns
    }

    fn of(&self, count: fn(&Look) -> u64) -> u64 {
        count(&self.after) - count(&self.before)
    }

    /// Answers of the window, and how long those were out, together.
    fn answered(&self) -> Option<(u64, u64)> {
        let (before, after) = (self.before.tally?, self.after.tally?);
        Some((after.answered - before.answered, after.sojourn_ns - before.sojourn_ns))
    }

    /// No CPU is busy for longer than there is time.
    pub(super) fn busy(&self) -> Held {
        let most = self.ns() + self.slack_ns;
        for (cpu, (after, before)) in self.after.busy_ns.iter().zip(&self.before.busy_ns).enumerate() {
            if after - before > most {
                return Err(format!("CPU {cpu} was busy for {} ns of {} ns", after - before, self.ns()));
            }
        }
        Ok(())
    }

    /// Little's law of a closed loop: requests that are out are the rate times how long each is.
    pub(super) fn closed(&self) -> Held {
        let (Some((answered, sojourn_ns)), Some(before), Some(after)) =
            (self.answered(), self.before.tally, self.after.tally)
        else {
            return Ok(());
        };
        let area_ns = (after.area_ns(self.after.at) - before.area_ns(self.before.at)) as f64;
        let out = area_ns / self.ns() as f64;
        let mean_ns = sojourn_ns as f64 / answered.max(1) as f64;
        // At either end there are requests of which a part lies outside; they are at most as many as are out, and what was lost is out
        // for longer than the mean.
        let ends_ns = 2.0 * mean_ns * out + (self.before.lost_ns + self.after.lost_ns) as f64;
        if answered == 0 && out > 0.0 || (sojourn_ns as f64 - area_ns).abs() > area_ns * LITTLE_OFF + ends_ns {
            return Err(format!(
                "Little's law: {out:.1} requests are out, but {:.0} answers/s times {:.1} us each are {:.1}",
                answered as f64 * 1e9 / self.ns() as f64,
                mean_ns / 1000.0,
                sojourn_ns as f64 / self.ns() as f64
            ));
        }
        Ok(())
    }

    /// No more is answered than was offered: `expected` of the window and what was late before, and chance.
    pub(super) fn offered(&self, expected: f64) -> Held {
        let (taken, due) = (self.of(|look| look.taken) as f64, expected + self.before.behind);
        if taken > due + DEVIATIONS * due.sqrt() + 1.0 {
            return Err(format!(
                "{taken:.0} requests were answered where {expected:.0} were offered and {:.0} were late",
                self.before.behind
            ));
        }
        Ok(())
    }

    /// What programs were busy for is what was done: each request takes `each`, beside what was drawn for it. `at_once`: so many can be
    /// in the middle of it.
    pub(super) fn work(&self, each: Span, at_once: u64) -> Held {
        let done = self.of(|look| look.taken) * each.ns + self.of(|look| look.service_ns);
        let user = self.of(|look| look.user_ns);
        if user.abs_diff(done) > at_once * each.ns {
            return Err(format!(
                "programs were busy for {user} ns, but {} requests take {done} ns",
                self.of(|look| look.taken)
            ));
        }
        Ok(())
    }

    /// No more is answered than `programs` on a CPU each have time for, if nothing slows them down.
    pub(super) fn capacity(&self, each: Span, programs: u64) -> Held {
        let taken = self.of(|look| look.taken);
        let needed = taken * each.ns + self.of(|look| look.service_ns);
        // The first and the last of each program may lie outside in part.
        let slack = programs * (2 * each.ns + 2 * self.of(|look| look.service_ns) / taken.max(1) + self.slack_ns);
        if needed > programs * self.ns() + slack.max(self.ns() / 100) {
            return Err(format!(
                "{taken} requests were answered, which take {needed} ns, by {programs} programs in {} ns",
                self.ns()
            ));
        }
        Ok(())
    }
}

impl World {
    /// What is counted now.
    pub(super) fn look(&self) -> Look {
        let spent: Vec<_> = (0..self.cpus.len()).map(|cpu| self.spent(cpu)).collect();
        let user_ns = self.cpus.iter().map(|cpu| cpu.speed.account.undisturbed(Class::User).ns).sum();
        let asking = self.asking.as_ref();
        let streams = self.streams.as_ref();
        let trips = self.trips.as_ref();
        let tally = (asking.map(|asking| asking.tally)).or(streams.map(|streams| streams.tally));
        Look {
            at: self.now,
            tally: tally.or(trips.map(|trips| trips.tally)),
            taken: match streams {
                Some(streams) => streams.tally.answered,
                None => self.socks.iter().map(|sock| sock.taken).sum(),
            },
            service_ns: asking.map_or(0, |asking| asking.service_ns),
            user_ns,
            lost_ns: asking.map_or(0, |asking| asking.lost_ns(self.now)),
            behind: asking.map_or_else(
                || streams.map_or(0.0, |streams| streams.behind(self.now)),
                |asking| asking.behind(self.now),
            ),
            busy_ns: spent.iter().map(|account| account.busy().ns).collect(),
        }
    }

    /// What was between a look and now.
    pub(super) fn since(&self, before: Look) -> Window {
        let slack = self.costs.get(Work::IdleExit) + self.costs.get(Work::DeepIdleExit);
        Window { before, after: self.look(), slack_ns: slack.ns }
    }

    /// What must hold at the end of every run for figures, if nothing is broken yet.
    pub(super) fn must(&mut self, held: Held) {
        if let Err(why) = held
            && self.broken.is_none()
        {
            self.fail(why);
        }
    }
}

#[cfg(test)]
#[path = "laws_tests.rs"]
mod tests;

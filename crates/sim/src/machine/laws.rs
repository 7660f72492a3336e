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

use crate::machine::cpu::work::{Class, Work};
use crate::machine::peers::bulk::Flows;
use crate::machine::peers::tally::RequestTally;
use crate::machine::sim::LawResult;
use crate::machine::world::World;
use napier_rng::load::Load;

/// Chance, in standard deviations: a run in two million is more than five off.
pub(crate) const DEVIATIONS: f64 = 5.0;

/// By how much a closed loop may be off, beside what its ends can explain: requests that began before the measured time or end after it.
pub(crate) const LITTLE_OFF: f64 = 0.02;

/// What is counted of a run at a moment.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LawsLook {
    pub(crate) at: Instant,
    /// Of requests; none: the run has none.
    pub(crate) tally: Option<RequestTally>,
    /// Requests that programs took.
    pub(crate) taken: u64,
    /// What was drawn for them beside.
    pub(crate) service_ns: u64,
    /// Time of programs, at full speed.
    pub(crate) user_ns: u64,
    /// Requests that are due and not answered.
    pub(crate) behind: f64,
    /// How long requests have been out that were lost and will be sent again.
    pub(crate) lost_ns: u64,
    /// What each CPU was busy for.
    pub(crate) busy_ns: Vec<u64>,
}

impl LawsLook {
    /// Requests that were sent so far.
    pub(crate) fn asked(&self) -> u64 {
        self.tally.map_or(0, |tally| tally.asked)
    }
}

/// What there was between two looks, and what must be true of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct MeasuredWindow {
    pub(crate) before: LawsLook,
    pub(crate) after: LawsLook,
    /// CPU time that is charged and not spent at either end, at most, of one CPU.
    pub(crate) slack_ns: u64,
}

impl MeasuredWindow {
    fn ns(&self) -> u64 {
        self.after.at.ns - self.before.at.ns
    }

    fn of(&self, count: fn(&LawsLook) -> u64) -> u64 {
        count(&self.after) - count(&self.before)
    }

    /// Answers of the window, and how long those were out, together.
    fn answered(&self) -> Option<(u64, u64)> {
        let (before, after) = (self.before.tally?, self.after.tally?);
        Some((after.answered - before.answered, after.sojourn_ns - before.sojourn_ns))
    }

    /// No CPU is busy for longer than there is time.
    pub(crate) fn busy(&self) -> LawResult {
        let most = self.ns() + self.slack_ns;
        for (cpu, (after, before)) in self.after.busy_ns.iter().zip(&self.before.busy_ns).enumerate() {
            if after - before > most {
                return Err(format!("CPU {cpu} was busy for {} ns of {} ns", after - before, self.ns()));
            }
        }
        Ok(())
    }

    /// Little's law of a closed loop: requests that are out are the rate times how long each is.
    pub(crate) fn closed(&self) -> LawResult {
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
    pub(crate) fn offered(&self, expected: f64) -> LawResult {
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
    pub(crate) fn work(&self, each: Span, at_once: u64) -> LawResult {
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
    pub(crate) fn capacity(&self, each: Span, programs: u64) -> LawResult {
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
    pub(crate) fn look(&self) -> LawsLook {
        let spent: Vec<_> = (0..self.cpus.len()).map(|cpu| self.spent(cpu)).collect();
        let user_ns = self.cpus.iter().map(|cpu| cpu.speed.account.undisturbed(Class::User).ns).sum();
        let asking = self.asking.as_ref();
        let streams = self.bulk.as_ref();
        let trips = self.rpc.as_ref();
        let tally = (asking.map(|asking| asking.tally)).or(streams.map(|streams| streams.tally));
        LawsLook {
            at: self.now,
            tally: tally.or(trips.map(|trips| trips.tally)),
            taken: match streams {
                Some(streams) => streams.tally.answered,
                None => self.socks.iter().map(|sock| sock.taken).sum(),
            },
            service_ns: match &self.datagrams {
                Some(datagrams) => datagrams.service_ns,
                None => asking.map_or(0, |asking| asking.service_ns),
            },
            user_ns,
            lost_ns: asking.map_or(0, |asking| asking.lost_ns(self.now)),
            behind: asking.map_or_else(
                || streams.map_or(0.0, |streams| streams.behind(self.now)),
                |asking| asking.behind(self.now),
            ),
            busy_ns: spent.iter().map(|account| account.awake().ns).collect(),
        }
    }

    /// What was between a look and now.
    pub(crate) fn since(&self, before: LawsLook) -> MeasuredWindow {
        let slack = self.costs.get(Work::IdleExit) + self.costs.get(Work::DeepIdleExit);
        MeasuredWindow { before, after: self.look(), slack_ns: slack.ns }
    }

    /// Laws of a server's run since a look; `programs` are as many as there are CPUs for them.
    pub(crate) fn check_asking(&mut self, before: LawsLook, programs: u64) {
        self.check_conserved();
        let window = self.since(before);
        let (request, answer) = (self.costs.get(Work::Request), self.costs.get(Work::Answer));
        let delivered = self.socks.iter().map(|sock| sock.delivered).sum::<u64>();
        let queued = self.socks.iter().map(|sock| sock.queue.len() as u64).sum::<u64>();
        let asking = self.asking.as_ref().expect("there are clients");
        let places = [asking.on_wire, asking.entered - delivered, queued, asking.in_programs, asking.on_way_back];
        let found = places.iter().sum::<u64>();
        let tally = asking.tally;
        let mut held = vec![tally.holds(self.now, asking.sent()), window.busy(), window.work(request, programs)];
        held.push(window.capacity(request + answer, programs));
        if tally.out() != found {
            held.push(Err(format!(
                "requests are not conserved: {} are out, {found} are found: on the wire, on the way up, in sockets, in programs, on \
                 the way back {places:?}; {} were lost on the way",
                tally.out(),
                asking.lost
            )));
        }
        held.push(match asking.expected(window.before.at, window.after.at) {
            Some(expected) => window.offered(expected),
            None => window.closed(),
        });
        held.into_iter().for_each(|held| self.must(held));
    }

    /// Laws of a server's run since a look, whose requests are datagrams.
    pub(crate) fn check_datagrams(&mut self, before: LawsLook) {
        self.check_conserved();
        let window = self.since(before);
        let (request, answer) = (self.costs.get(Work::Request), self.costs.get(Work::Answer));
        let sockets_lost = self.lost_at_sockets();
        let delivered = self.socks.iter().map(|sock| sock.delivered).sum::<u64>();
        let queued = self.socks.iter().map(|sock| sock.queue.len() as u64).sum::<u64>();
        let datagrams = self.datagrams.as_ref().expect("they began");
        let on_way_up = datagrams.entered - delivered - sockets_lost;
        let elsewhere = [on_way_up, queued, datagrams.lost, sockets_lost];
        let (sent, found) = (datagrams.sent, datagrams.places().iter().chain(&elsewhere).sum::<u64>());
        let mut held = vec![window.busy(), window.work(request, 1), window.capacity(request + answer, 1)];
        if sent != found {
            held.push(Err(format!(
                "datagrams are not conserved: {sent} were sent, {found} are found: on the wire, in programs, on the way back, back {:?}; \
                 on the way up, in the socket, lost at the ring, lost at the socket {elsewhere:?}",
                datagrams.places()
            )));
        }
        held.into_iter().for_each(|held| self.must(held));
    }

    /// Laws of the run since a look.
    pub(crate) fn check_bulk(&mut self, before: LawsLook, of: &Flows) {
        let window = self.since(before);
        let streams = self.bulk.as_ref().expect("there are flows");
        let each = self.costs.get(Work::Request);
        // Programs of the client do what those of the server do. What is on its way between the two is done by one of them.
        let (ends, cpus) = if streams.load == Load::Max { (2, 2) } else { (1, 1) };
        let both = Span::from_ns(each.ns * ends);
        let held = [
            streams.tally.holds(self.now, streams.sent()),
            window.busy(),
            window.work(both, u64::from(of.flows) + u64::from(of.threads)),
            window.capacity(both, cpus * u64::from(of.threads.min(of.cpus))),
            match streams.load {
                Load::Max => window.closed(),
                Load::Rps(rate_rps) => {
                    window.offered((window.after.at - window.before.at).ns as f64 * rate_rps as f64 / 1e9)
                }
            },
        ];
        held.into_iter().for_each(|held| self.must(held));
    }

    /// Laws of the run since a look.
    pub(crate) fn check_rpc(&mut self, before: LawsLook) {
        let window = self.since(before);
        let trips = self.rpc.as_ref().expect("there is traffic");
        let mut held = vec![trips.tally.holds(self.now, trips.sent()), window.busy()];
        match trips.of.period() {
            None => held.push(window.closed()),
            Some(period) => {
                // They go by the clock, whatever comes back.
                let (sent, ns) =
                    (window.after.asked() - window.before.asked(), (window.after.at - window.before.at).ns);
                if sent > ns / period.ns.max(1) + 1 {
                    held.push(Err(format!("{sent} packets were sent in {ns} ns, one each {} ns", period.ns)));
                }
            }
        }
        held.into_iter().for_each(|held| self.must(held));
    }
}

#[cfg(test)]
#[path = "laws_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "laws_random_tests.rs"]
mod random_tests;

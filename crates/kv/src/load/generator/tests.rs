use std::cell::Cell;
use std::collections::VecDeque;

use super::*;
use crate::load::codec::Reply;
use crate::load::wire::Came;
use crate::profile::{Profile, ProfileConfig};

const RECORDS: u32 = 100;
static GOES_ON: AtomicBool = AtomicBool::new(false);

/// Answers after a while, all but those that are lost. Time goes on by a microsecond with each look at it.
struct FakeWire {
    now_ns: Cell<u64>,
    delay_ns: u64,
    /// Of so many requests one is lost; 0: none.
    lost_of: u64,
    sent: u64,
    out: VecDeque<(u64, usize, u16, bool)>,
    out_max: usize,
    waited: Duration,
}

impl Wire for FakeWire {
    fn now_ns(&self) -> u64 {
        self.now_ns.set(self.now_ns.get() + 1_000);
        self.now_ns.get()
    }

    fn send(&mut self, flow: usize, id: u16, request: &Request<'_>) {
        self.sent += 1;
        if self.lost_of == 0 || !self.sent.is_multiple_of(self.lost_of) {
            self.out.push_back((self.now_ns.get() + self.delay_ns, flow, id, request.value_bytes.is_some()));
            self.out_max = self.out_max.max(self.out.len());
        }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn receive(&mut self, wait: Duration, mut each: impl FnMut(u64, Came<'_>)) -> anyhow::Result<()> {
        let first_ns = self.out.front().map_or(u64::MAX, |(due_ns, ..)| *due_ns);
        let slept_ns = nanos(wait).min(first_ns.saturating_sub(self.now_ns.get()));
        self.waited += Duration::from_nanos(slept_ns);
        self.now_ns.set(self.now_ns.get() + slept_ns);
        while let Some((_, flow, id, is_set)) = self.out.pop_front_if(|(due_ns, ..)| *due_ns <= self.now_ns.get()) {
            each(self.now_ns.get(), Some((flow, id, if is_set { Reply::Stored } else { Reply::Missing })));
        }
        Ok(())
    }
}

fn generator(delay: Duration, lost_of: u64, change: impl FnOnce(&mut Plan)) -> Generator<FakeWire> {
    let wire = FakeWire {
        now_ns: Cell::new(0),
        delay_ns: nanos(delay),
        lost_of,
        sent: 0,
        out: VecDeque::new(),
        out_max: 0,
        waited: Duration::ZERO,
    };
    let profile = Profile::new(ProfileConfig { records: RECORDS, ..ProfileConfig::default() }, 1).unwrap();
    let mut plan = Plan { profile, value_bytes: None, depth: 4, overruns: false, give_up: None, burst: 16 };
    change(&mut plan);
    Generator::new(wire, 3, plan)
}

fn run(generator: &mut Generator<FakeWire>, pace: Load) -> Measured {
    let ms = Duration::from_millis;
    let window = Window { warm_up: ms(10), measure: ms(100), margin: ms(0), drain: ms(50) };
    let mut edges = Vec::new();
    let measured = generator.run(pace, window, (1, "test"), &GOES_ON, &mut |begins| edges.push(begins)).unwrap();
    assert_eq!(edges, [true, false]);
    assert_eq!(measured.wrong, 0);
    measured
}

#[test]
fn an_open_loop_sends_what_is_due_and_sleeps_between() {
    let mut generator = generator(Duration::from_micros(50), 0, |_| ());
    let measured = run(&mut generator, Load::Rps(2_000));
    assert!((150..250).contains(&measured.sent), "{measured:?}");
    assert_eq!((measured.sent, measured.lost), (measured.recorder.len(), 0));
    assert!(generator.wire.waited > Duration::from_millis(50));
    assert!(measured.recorder.intended().max() < 200_000, "none was late");
}

#[test]
fn requests_wait_for_room_in_the_windows_and_that_counts() {
    let mut generator = generator(Duration::from_millis(5), 0, |_| ());
    let measured = run(&mut generator, Load::Rps(4_000));
    assert_eq!((generator.wire.out_max, measured.lost), (12, 0));
    // Answered are 12 in 5 ms.
    assert!((200..260).contains(&measured.answered), "{}", measured.answered);
    assert!(measured.recorder.intended().max() > 30_000_000 && measured.recorder.actual().max() < 6_000_000);
    assert!(measured.sent > 330, "{} were sent, late ones as well", measured.sent);
}

#[test]
fn requests_that_overrun_their_window_lose_the_oldest() {
    let mut generator = generator(Duration::from_millis(5), 0, |plan| plan.overruns = true);
    let measured = run(&mut generator, Load::Rps(4_000));
    assert!(generator.wire.out_max > 12 && measured.lost > 100, "{measured:?}");
    assert!(measured.recorder.intended().max() < 6_000_000);
    assert!((380..420).contains(&measured.sent), "{}", measured.sent);
}

#[test]
fn a_closed_loop_keeps_its_windows_full_whatever_is_lost() {
    let give_up = Some(Duration::from_millis(4));
    let mut generator = generator(Duration::from_millis(1), 10, |plan| plan.give_up = give_up);
    let measured = run(&mut generator, Load::Max);
    assert!((11..=12).contains(&generator.wire.out_max), "those that are lost are not seen");
    // One in ten takes 4 to 5 ms in place of 1.
    assert!((700..950).contains(&measured.answered) && measured.lost > 80, "{measured:?}");
}

#[test]
fn a_fill_sets_each_record_although_some_are_lost() {
    let give_up = Some(Duration::from_millis(4));
    let mut generator = generator(Duration::from_millis(1), 10, |plan| plan.give_up = give_up);
    let measured = generator.fill(&GOES_ON).unwrap();
    assert_eq!((measured.replies, measured.missing), (u64::from(RECORDS), 0));
    assert_eq!(measured.lost + measured.replies, generator.wire.sent);
    generator.wire.lost_of = 1;
    assert!(generator.fill(&GOES_ON).is_err(), "nobody answers");
}

#[test]
fn what_was_due_is_counted_whether_it_was_sent_or_not() {
    // Few arrivals, all answered: what chance made of the rate is what was due, and nothing is missing from it.
    for rate_rps in [500, 2_000, 7_003] {
        let mut generator = generator(Duration::from_micros(50), 0, |_| ());
        let measured = run(&mut generator, Load::Rps(rate_rps));
        assert_eq!((measured.due, measured.due - measured.in_time <= 1), (measured.sent, true), "{measured:?}");
        assert!((50_000..60_000).contains(&measured.fastest_ns), "{}", measured.fastest_ns);
    }
    // Twelve in 5 ms is all that is answered, so requests of before are answered while later ones are not even sent.
    let mut generator = generator(Duration::from_millis(5), 0, |_| ());
    let measured = run(&mut generator, Load::Rps(10_000));
    assert!((900..1100).contains(&measured.due) && measured.sent < measured.due, "{measured:?}");
    assert!(measured.in_time < measured.answered && measured.answered < 260, "{measured:?}");
    let mut generator = self::generator(Duration::from_millis(1), 0, |_| ());
    let closed = run(&mut generator, Load::Max);
    assert_eq!(closed.due, closed.sent);
}

use alloc::format;

use super::*;

const G: Span = Span::from_us(200);
const OWNED: State = State::LISTED.with(State::SCHED);

fn tunables(dhi: u32, gft: Span) -> Tunables {
    Tunables { defer_hard_irqs: dhi, gro_flush_timeout: gft, irq_suspend_timeout: Span::from_ms(20) }
}

struct Row {
    work: u32,
    dhi: u32,
    left: u32,
    gft: Span,
    held: bool,
    unmask: bool,
    arm: Option<Span>,
    left_after: u32,
}

impl Row {
    fn check(&self) {
        let Self { work, dhi, left, gft, held, .. } = *self;
        let name = format!("work={work} dhi={dhi} left={left} gft={gft:?} held={held}");
        let mut defers_left = left;
        let t = tunables(dhi, gft);
        let Completion::Release(release) = complete(OWNED, work, held, &t, &mut defers_left) else {
            panic!("refused: {name}");
        };
        let flush = if self.arm.is_some() { Flush::OldOnly } else { Flush::All };
        assert_eq!(release.flush, flush, "{name}");
        let want = Completed::Released { arm: self.arm, unmask: self.unmask };
        assert_eq!(release.finish(false), want, "{name}");
        assert_eq!(want.may_unmask(), self.unmask, "{name}");
        assert_eq!(defers_left, self.left_after, "{name}");
        // The counter is spent even though the event that was missed brings the instance back at once.
        assert_eq!(release.finish(true), Completed::Reschedule, "{name}");
        assert!(!release.finish(true).may_unmask(), "{name}");
    }
}

/// Every row of the table in the module's head, with every value that "any" stands for.
#[test]
fn decision_table() {
    let bools = [false, true];
    let gfts = [Span::ZERO, G];
    for held in bools {
        for gft in gfts {
            for dhi in [0, 1, 5] {
                // Row 1: nothing done, no deferral left.
                Row { work: 0, dhi, left: 0, gft, held, unmask: true, arm: None, left_after: 0 }.check();
                for left in [1, 3] {
                    // Rows 7 and 8: nothing done, deferrals left.
                    let (arm, unmask) = if gft == G { (Some(G), false) } else { (None, true) };
                    Row { work: 0, dhi, left, gft, held, unmask, arm, left_after: left - 1 }.check();
                }
            }
        }
        for work in [1, 64] {
            for left in [0, 1, 7] {
                // Row 2.
                let zero = Span::ZERO;
                Row { work, dhi: 0, left, gft: zero, held, unmask: true, arm: None, left_after: 0 }.check();
                // Rows 3 and 4.
                let arm = held.then_some(G);
                Row { work, dhi: 0, left, gft: G, held, unmask: true, arm, left_after: 0 }.check();
                for dhi in [1, 2, 9] {
                    let left_after = dhi - 1;
                    // Row 5.
                    Row { work, dhi, left, gft: zero, held, unmask: true, arm: None, left_after }.check();
                    // Row 6.
                    Row { work, dhi, left, gft: G, held, unmask: false, arm: Some(G), left_after }.check();
                }
            }
        }
    }
}

#[test]
fn refused_touches_nothing() {
    for bit in [State::NPSVC, State::IN_BUSY_POLL] {
        let mut defers_left = 3;
        let completion = complete(OWNED.with(bit), 5, true, &tunables(9, G), &mut defers_left);
        assert_eq!(completion, Completion::Refused);
        assert_eq!(defers_left, 3);
    }
}

/// The suspend time-out has no say in a completion, and neither has a waiting prefer user.
#[test]
fn only_defer_and_gft_count() {
    let mut left = 0;
    let t = Tunables { irq_suspend_timeout: Span::from_secs(1), ..tunables(0, Span::ZERO) };
    let state = OWNED.with(State::PREFER_BUSY_POLL).with(State::MISSED);
    let Completion::Release(release) = complete(state, 1, false, &t, &mut left) else { panic!() };
    assert_eq!(release.finish(false), Completed::Released { arm: None, unmask: true });
}

/// After the last poll with data there are exactly `dhi` empty polls, each after one timer; the last one unmasks.
#[test]
fn as_many_empty_polls_as_deferrals() {
    for dhi in 1..=3 {
        let t = tunables(dhi, G);
        let (mut left, mut timers, mut work) = (0, 0, 1);
        let mut polls_empty = 0;
        loop {
            let Completion::Release(release) = complete(OWNED, work, false, &t, &mut left) else { panic!() };
            match release.finish(false) {
                Completed::Released { arm: Some(G), unmask: false } => timers += 1,
                Completed::Released { arm: None, unmask: true } => break,
                other => panic!("{other:?}"),
            }
            work = 0;
            polls_empty += 1;
        }
        assert_eq!((timers, polls_empty), (dhi, dhi));
    }
}

/// Lowering `dhi` in mid-run does not shorten the run; setting `gft` to 0 ends it at the next completion.
#[test]
fn settings_changed_in_mid_run() {
    let mut left = 0;
    let Completion::Release(_) = complete(OWNED, 1, false, &tunables(3, G), &mut left) else { panic!() };
    assert_eq!(left, 2);
    let Completion::Release(release) = complete(OWNED, 0, false, &tunables(0, G), &mut left) else { panic!() };
    assert_eq!(release.finish(false), Completed::Released { arm: Some(G), unmask: false });
    let t = tunables(3, Span::ZERO);
    let Completion::Release(release) = complete(OWNED, 0, false, &t, &mut left) else { panic!() };
    assert_eq!(release.finish(false), Completed::Released { arm: None, unmask: true });
}

#[test]
fn flush_depends_on_the_tick_rate_outside_completions() {
    assert_eq!(Flush::for_hz(250), Flush::All);
    assert_eq!(Flush::for_hz(999), Flush::All);
    assert_eq!(Flush::for_hz(1000), Flush::OldOnly);
}

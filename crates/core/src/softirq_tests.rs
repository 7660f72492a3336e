use alloc::vec::Vec;

use super::*;

const NOW: Instant = Instant::from_ns(1_000_000);
const LIMIT: Span = Span::from_ms(8);

/// A CPU with packets waiting per instance; `polls` is what was polled.
struct Cpu {
    lists: PollLists<char>,
    backlog: Vec<(char, u32)>,
    polls: Vec<(char, u32)>,
    squeezes: u32,
    raised: bool,
}

impl Cpu {
    fn new(backlog: &[(char, u32)]) -> Self {
        let mut cpu = Self {
            lists: PollLists::with_capacity(4),
            backlog: backlog.to_vec(),
            polls: Vec::new(),
            squeezes: 0,
            raised: false,
        };
        for (id, _) in backlog {
            cpu.schedule(*id);
        }
        cpu
    }

    fn schedule(&mut self, id: char) {
        self.raised |= self.lists.push_back(id);
    }

    /// One run; `during` is called after each poll, before it is reported.
    fn run(&mut self, budget: i32, mut during: impl FnMut(&mut Self, char) -> Instant) -> bool {
        self.raised = false;
        let mut run = NetRxRun::begin(&mut self.lists, NOW, budget, LIMIT);
        loop {
            match run.next(&mut self.lists) {
                NetRxStep::Finish { reraise } => {
                    self.squeezes += u32::from(run.squeezed());
                    assert!(!self.raised, "nothing raises the softirq from inside its run");
                    self.raised = reraise;
                    assert_eq!(reraise, !self.lists.is_empty());
                    return reraise;
                }
                NetRxStep::Poll(id) => {
                    let left = &mut self.backlog.iter_mut().find(|(other, _)| *other == id).unwrap().1;
                    let work = 64.min(*left);
                    *left -= work;
                    self.polls.push((id, work));
                    let now = during(self, id);
                    run.polled(&mut self.lists, now, id, work, work == 64);
                }
            }
        }
    }

    fn order(&self) -> Vec<char> {
        self.lists.iter().copied().collect()
    }
}

/// A (backlogged) and B are on the list, B's poll schedules C: the run ends because A is to be polled again, C is not
/// looked at, and goes before A.
#[test]
fn exit_order_newly_scheduled_before_repolled() {
    let mut cpu = Cpu::new(&[('A', 128), ('B', 10)]);
    cpu.backlog.push(('C', 1));
    let reraise = cpu.run(300, |cpu, id| {
        if id == 'B' {
            cpu.schedule('C');
        }
        NOW
    });
    assert!(reraise);
    assert_eq!(cpu.polls, [('A', 64), ('B', 10)]);
    assert_eq!(cpu.order(), ['C', 'A']);
    cpu.polls.clear();
    assert!(cpu.run(300, |_, _| NOW));
    assert_eq!(cpu.polls, [('C', 1), ('A', 64)]);
    assert!(!cpu.run(300, |_, _| NOW));
    assert_eq!(cpu.squeezes, 0);
}

/// The general order: what was not polled, what was scheduled meanwhile, what is to be polled again.
#[test]
fn exit_order_when_squeezed() {
    let mut cpu = Cpu::new(&[('A', 200), ('B', 200), ('D', 5)]);
    cpu.backlog.push(('C', 1));
    assert!(cpu.run(128, |cpu, id| {
        if id == 'B' {
            cpu.schedule('C');
        }
        NOW
    }));
    assert_eq!(cpu.polls, [('A', 64), ('B', 64)]);
    assert_eq!(cpu.order(), ['D', 'C', 'A', 'B']);
    assert_eq!(cpu.squeezes, 1);
}

/// netdev_budget 64 and 200 packets: one full poll per run, three squeezes, nothing lost.
#[test]
fn budget_of_one_poll() {
    let mut cpu = Cpu::new(&[('A', 200)]);
    while cpu.run(64, |_, _| NOW) {}
    assert_eq!(cpu.polls, [('A', 64), ('A', 64), ('A', 64), ('A', 8)]);
    assert_eq!(cpu.squeezes, 3);
}

/// netdev_budget 1 still delivers a whole poll, and counts a squeeze for each; so do 0 and less.
#[test]
fn budget_of_one_packet_or_less() {
    for budget in [1, 0, -5, i32::MIN] {
        let mut cpu = Cpu::new(&[('A', 1), ('B', 1), ('C', 64)]);
        while cpu.run(budget, |_, _| NOW) {}
        assert_eq!(cpu.polls, [('A', 1), ('B', 1), ('C', 64), ('C', 0)]);
        assert_eq!(cpu.squeezes, if budget == 1 { 3 } else { 4 }, "{budget}");
    }
}

/// A backlogged instance is polled once per run.
#[test]
fn at_most_one_full_poll_per_run() {
    let mut cpu = Cpu::new(&[('A', 1000)]);
    assert!(cpu.run(300, |_, _| NOW));
    assert_eq!(cpu.polls, [('A', 64)]);
}

/// Scheduled from inside the run with nothing to repoll: polled in the same run, with what is left of the budget and
/// the first deadline; the softirq is not raised for it.
#[test]
fn scheduled_inside_the_run() {
    let mut cpu = Cpu::new(&[('A', 10)]);
    cpu.backlog.push(('B', 20));
    assert!(cpu.raised);
    let mut first = true;
    assert!(!cpu.run(300, |cpu, _| {
        if core::mem::take(&mut first) {
            assert!(!cpu.lists.push_back('B'), "no raise inside the run");
        }
        NOW
    }));
    assert_eq!(cpu.polls, [('A', 10), ('B', 20)]);
    assert_eq!(cpu.squeezes, 0);
    // The budget is not renewed: 30 packets are its end.
    let mut cpu = Cpu::new(&[('A', 10)]);
    cpu.backlog.push(('B', 20));
    let mut first = true;
    assert!(!cpu.run(30, |cpu, _| {
        if core::mem::take(&mut first) {
            cpu.schedule('B');
        }
        NOW
    }));
    assert_eq!(cpu.squeezes, 1);
    // Nor is the deadline.
    let mut cpu = Cpu::new(&[('A', 10)]);
    cpu.backlog.push(('B', 20));
    let mut polls = 0;
    cpu.run(300, |cpu, id| {
        polls += 1;
        if id == 'A' {
            cpu.schedule('B');
            return NOW + Span::from_ms(7);
        }
        NOW + Span::from_ms(8)
    });
    assert_eq!((polls, cpu.squeezes), (2, 1));
}

#[test]
fn time_is_looked_at_after_a_poll() {
    for (after, squeezes) in [(LIMIT.ns - 1, 0), (LIMIT.ns, 1), (LIMIT.ns + 1, 1)] {
        let mut cpu = Cpu::new(&[('A', 3), ('B', 3)]);
        let reraise = cpu.run(300, |_, _| NOW + Span::from_ns(after));
        assert_eq!(cpu.squeezes, squeezes, "{after}");
        assert_eq!(reraise, squeezes == 1);
        assert_eq!(cpu.polls.len(), if squeezes == 1 { 1 } else { 2 });
    }
}

#[test]
fn raise_is_asked_for_outside_runs_only() {
    let mut lists = PollLists::new();
    assert!(lists.push_back('A'), "idle CPU: raise");
    let mut run = NetRxRun::begin(&mut lists, NOW, 1, LIMIT);
    let NetRxStep::Poll('A') = run.next(&mut lists) else { panic!() };
    run.polled(&mut lists, NOW, 'A', 64, true);
    assert_eq!(run.next(&mut lists), NetRxStep::Finish { reraise: true });
    assert!(!lists.push_back('B'), "raised again already");
    assert_eq!(lists.len(), 2);
    let mut run = NetRxRun::begin(&mut lists, NOW, 300, LIMIT);
    for id in ['A', 'B'] {
        assert_eq!(run.next(&mut lists), NetRxStep::Poll(id));
        run.polled(&mut lists, NOW, id, 1, false);
    }
    assert_eq!(run.next(&mut lists), NetRxStep::Finish { reraise: false });
    assert!(lists.push_back('C'), "idle again");
    assert_eq!(lists.drain().collect::<Vec<_>>(), ['C']);
    assert!(lists.is_empty());
    assert!(lists.push_back('C'), "drained: nobody has raised");
}

/// In the middle of a run an instance waits in one of three lists; all of them count, and go in their order.
#[test]
fn the_lists_of_a_run_count_together() {
    let mut lists = PollLists::new();
    for id in 'A'..='G' {
        let _ = lists.push_back(id);
    }
    let mut run = NetRxRun::begin(&mut lists, NOW, 300, LIMIT);
    for id in 'A'..='D' {
        assert_eq!(run.next(&mut lists), NetRxStep::Poll(id));
        run.polled(&mut lists, NOW, id, 64, true);
    }
    for id in ['X', 'Y'] {
        let _ = lists.push_back(id);
    }
    assert_eq!((lists.run.len(), lists.scheduled.len(), lists.repoll.len()), (3, 2, 4));
    assert_eq!(lists.len(), 9);
    assert!(lists.iter().eq(&['E', 'F', 'G', 'X', 'Y', 'A', 'B', 'C', 'D']));
    assert!(lists.drain().eq(['E', 'F', 'G', 'X', 'Y', 'A', 'B', 'C', 'D']));
    assert_eq!(lists.len(), 0);
}

/// The promise of `with_capacity`: with all instances on the lists, in whichever of them, no list grows.
#[test]
fn lists_with_room_never_grow() {
    const INSTANCES: u32 = 100;
    let mut lists = PollLists::with_capacity(INSTANCES as usize);
    let room = |lists: &PollLists<u32>| {
        let mut room = [&lists.scheduled, &lists.run, &lists.repoll].map(VecDeque::capacity);
        room.sort_unstable();
        room
    };
    let before = room(&lists);
    assert!(before[0] >= INSTANCES as usize, "{before:?}");
    for id in 0..INSTANCES {
        let _ = lists.push_back(id);
    }
    // Squeezed at once, in the middle, and not at all; the instances polled so far are all to be polled again.
    for budget in [1, 64 * 50, i32::MAX] {
        let mut run = NetRxRun::begin(&mut lists, NOW, budget, LIMIT);
        while let NetRxStep::Poll(id) = run.next(&mut lists) {
            run.polled(&mut lists, NOW, id, 64, true);
        }
        assert_eq!(lists.len(), INSTANCES as usize);
        assert_eq!(room(&lists), before, "budget {budget}");
    }
}

#[test]
#[should_panic(expected = "must be reported")]
fn a_poll_must_be_reported() {
    let mut lists = PollLists::new();
    let _ = lists.push_back('A');
    let mut run = NetRxRun::begin(&mut lists, NOW, 1, LIMIT);
    let _ = run.next(&mut lists);
    let _ = run.next(&mut lists);
}

#[test]
#[should_panic(expected = "one run at a time")]
fn one_run_at_a_time() {
    let mut lists = PollLists::new();
    let _ = lists.push_back('A');
    let _ = NetRxRun::begin(&mut lists, NOW, 1, LIMIT);
    let _ = NetRxRun::begin(&mut lists, NOW, 1, LIMIT);
}

/// Ten passes in all, then ksoftirqd.
#[test]
fn ten_passes() {
    let mut softirq = SoftirqLoop::begin(NOW);
    for _ in 0..9 {
        assert_eq!(softirq.again(NOW, false, true), SoftirqNext::Run);
    }
    assert_eq!(softirq.again(NOW, false, true), SoftirqNext::WakeKsoftirqd);
}

#[test]
fn two_milliseconds_or_a_reschedule() {
    let late = NOW + Span::from_ms(2);
    let before = Instant::from_ns(late.ns - 1);
    assert_eq!(SoftirqLoop::begin(NOW).again(before, false, true), SoftirqNext::Run);
    assert_eq!(SoftirqLoop::begin(NOW).again(late, false, true), SoftirqNext::WakeKsoftirqd);
    assert_eq!(SoftirqLoop::begin(NOW).again(NOW, true, true), SoftirqNext::WakeKsoftirqd);
    assert_eq!(SoftirqLoop::begin(NOW).again(late, true, false), SoftirqNext::Done);
}

#[test]
fn time_limit_of_a_run_is_two_ticks() {
    assert_eq!(netdev_budget_span(250), Span::from_us(8000));
    assert_eq!(netdev_budget_span(1000), Span::from_us(2000));
    assert_eq!((netdev_budget_of(1999, 1000), netdev_budget_of(2000, 1000)), (Err(2000), Ok(Span::from_us(2000))));
    assert_eq!((netdev_budget_of(0, 250), netdev_budget_of(u64::MAX, 250)), (Err(8000), Ok(Span::from_ns(u64::MAX))));
}

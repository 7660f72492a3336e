//! The interrupt line that is armed once at a time, with the kernel's part by its own rules, and owners by a state cell.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32 as CountingU32, Ordering as Counting};

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::{model, model_preempted, without};
use crate::StateCell;
use crate::sync::Point;
use crate::xsk::OnceLine;

const SCHED: u32 = 1;
const MISSED: u32 = 2;

std::thread_local! {
    /// A mistake: an owner that could not arm the line leaves it to the thread that has it.
    static POLLS_NOT_AGAIN: Cell<bool> = const { Cell::new(false) };
    /// A mistake: an interrupt counts whatever the line says.
    static TAKES_EVERY_INTERRUPT: Cell<bool> = const { Cell::new(false) };
    /// A mistake: no thread looks at the queue after a move that failed.
    static LOOKS_NOT_AGAIN: Cell<bool> = const { Cell::new(false) };
}

/// What an epoll instance knows of a socket.
#[derive(Default)]
struct Epoll {
    there: bool,
    /// It says the next packet, once.
    enabled: bool,
    /// It has said one, and no thread has taken the word.
    ready: bool,
}

/// A receive queue, its line and its instance. Two CPUs can wait for it, each with an epoll instance.
struct Queue {
    produced: AtomicU32,
    consumed: AtomicU32,
    epolls: [Mutex<Epoll>; 2],
    line: OnceLine<usize>,
    /// Interrupts that a thread was scheduled for. No part of the protocol, so not a word of the model.
    heard: CountingU32,
    state: StateCell,
}

impl Queue {
    fn new(state: u32) -> Arc<Self> {
        let queue = Self {
            produced: AtomicU32::new(0),
            consumed: AtomicU32::new(0),
            epolls: std::array::from_fn(|_| Mutex::new(Epoll::default())),
            line: OnceLine::default(),
            heard: CountingU32::new(0),
            state: StateCell::new(state),
        };
        queue.line.watch(0, |&cpu| queue.enable(cpu)).expect("the kernel has memory");
        Arc::new(queue)
    }

    fn waiting(&self) -> bool {
        self.produced.load(Ordering::Acquire) != self.consumed.load(Ordering::Relaxed)
    }

    /// The kernel: `epoll_ctl` looks at the ring.
    fn enable(&self, cpu: usize) -> Result<(), ()> {
        let mut epoll = self.epolls[cpu].lock().unwrap();
        let ready = epoll.ready || self.waiting();
        *epoll = Epoll { there: true, enabled: !ready, ready };
        drop(epoll);
        // Others have their turn before the call comes back: the interrupt may have been heard by then.
        self.produced.load(Ordering::Relaxed);
        Ok(())
    }

    fn leave(&self, cpu: usize) {
        let mut epoll = self.epolls[cpu].lock().unwrap();
        assert!(epoll.there, "the socket was not where it was put");
        *epoll = Epoll::default();
    }

    /// The kernel: a packet comes, and interrupts if the line is enabled.
    fn packet(&self, number: u32) {
        self.produced.store(number, Ordering::Release);
        for epoll in &self.epolls {
            let mut epoll = epoll.lock().unwrap();
            if epoll.enabled {
                epoll.enabled = false;
                epoll.ready = true;
            }
        }
    }

    /// A softirq CPU: takes an interrupt, if there is one, and makes another thread the owner, or leaves a mark. True = there
    /// is a new owner.
    fn interrupt(&self, cpu: usize, heard_first: bool) -> bool {
        if !std::mem::take(&mut self.epolls[cpu].lock().unwrap().ready) {
            return false;
        }
        if heard_first && !self.line.hear() && !TAKES_EVERY_INTERRUPT.get() {
            return false;
        }
        self.heard.fetch_add(1, Counting::Relaxed);
        let new = self.state.update(|old| if old & SCHED == 0 { (SCHED, true) } else { (old | MISSED, false) });
        if !heard_first {
            let _ = self.line.hear();
        }
        new
    }

    /// The owner: takes what is there, gives the ownership up, arms, looks again. True = it becomes the owner again.
    fn turn(&self, for_long: bool) -> bool {
        // Relaxed, both: the owner's alone.
        self.consumed.store(self.produced.load(Ordering::Acquire), Ordering::Relaxed);
        if for_long && !self.line.is_away() {
            self.line.put_away(|&cpu| self.leave(cpu));
        }
        if self.state.update(|old| if old & MISSED != 0 { (SCHED, true) } else { (0, false) }) {
            return true;
        }
        if self.waiting() {
            return self.state.update(|old| (old | SCHED, old & SCHED == 0));
        }
        if !self.line.is_armed() {
            let armed = self.line.arm(|&cpu, _| self.enable(cpu)).expect("the kernel has memory");
            if !armed && !POLLS_NOT_AGAIN.get() {
                // Another thread is at it: polled again.
                return self.state.update(|old| (old | SCHED, old & SCHED == 0));
            }
        }
        false
    }

    /// The line goes to the second CPU. If that fails, a thread looks at the queue.
    fn moves(&self, works: bool) {
        let moved =
            self.line.move_to(1, |&cpu| if works { self.enable(cpu) } else { self.refuse() }, |&cpu| self.leave(cpu));
        assert_eq!(moved.is_ok(), works);
        if !works && !LOOKS_NOT_AGAIN.get() {
            self.state.update(|old| if old & SCHED == 0 { (SCHED, ()) } else { (old | MISSED, ()) });
        }
    }

    /// The kernel has no memory; others have their turn before it says so.
    fn refuse(&self) -> Result<(), ()> {
        drop(self.epolls[1].lock().unwrap());
        Err(())
    }

    /// All that is to be done is done by one thread, until the queue has no owner.
    fn settle(&self) {
        let settled = (0..6).any(|_| {
            for cpu in 0..self.epolls.len() {
                self.interrupt(cpu, true);
            }
            self.state.load() & SCHED == 0 || {
                self.turn(false);
                false
            }
        });
        assert!(settled && !self.waiting(), "lost interrupt");
    }

    /// Once all is quiet: what waits has an owner, or an interrupt that says so.
    fn assert_nothing_is_stranded(&self) {
        let comes = self.epolls.iter().any(|epoll| epoll.lock().unwrap().ready);
        assert!(!self.waiting() || comes || self.state.load() & SCHED != 0, "lost interrupt");
    }
}

/// A packet interrupts, and another one comes while the owner gives the queue up.
fn the_next_packet_interrupts(heard_first: bool) {
    model(move || {
        let queue = Queue::new(0);
        let owner = queue.clone();
        let thread = thread::spawn(move || {
            // The instance's thread: its turn comes when it is scheduled.
            if owner.state.update(|old| (old, old & SCHED != 0)) {
                owner.turn(false);
            }
        });
        queue.packet(1);
        queue.interrupt(0, heard_first);
        thread.join().unwrap();
        // What comes later. No other thread changes the line any more.
        if !queue.waiting() && queue.state.load() & SCHED == 0 {
            queue.packet(2);
        }
        queue.assert_nothing_is_stranded();
    });
}

/// An owner that polls for long puts the line away while the one before it arms it.
fn a_line_that_was_put_away_comes_back() {
    model_preempted(2, || {
        let queue = Queue::new(SCHED);
        assert!(queue.line.hear());
        let (before, next) = (queue.clone(), queue.clone());
        let first = thread::spawn(move || before.turn(false));
        let second = thread::spawn(move || {
            // A program that busy polls: it takes the instance if it is free.
            if next.state.update(|old| (old | SCHED, old & SCHED == 0)) {
                next.turn(true);
            }
        });
        queue.packet(1);
        if queue.interrupt(0, true) {
            queue.turn(false);
        }
        first.join().unwrap();
        second.join().unwrap();
        queue.assert_nothing_is_stranded();
    });
}

/// An owner has told the source, and its lock is still taken when the next one wants to arm the line.
fn a_line_in_other_hands_is_polled_again() {
    model_preempted(2, || {
        let queue = Queue::new(SCHED);
        assert!(queue.line.hear());
        let before = queue.clone();
        let first = thread::spawn(move || before.turn(false));
        queue.packet(1);
        if queue.interrupt(0, true) {
            queue.turn(false);
        }
        first.join().unwrap();
        if !queue.waiting() && queue.state.load() & SCHED == 0 {
            queue.packet(2);
        }
        queue.assert_nothing_is_stranded();
    });
}

/// What a line is when it begins to move.
#[derive(Copy, Clone, PartialEq)]
enum Before {
    Armed,
    Fired,
    Away,
}

/// An owner gives the queue up, and a packet comes, while the line moves or fails to.
fn a_line_moves_under_its_owner(before: Before, works: bool) {
    model_preempted(2, move || {
        let queue = Queue::new(if before == Before::Away { SCHED } else { 0 });
        match before {
            Before::Armed => {}
            Before::Fired => {
                queue.packet(1);
                assert!(queue.interrupt(0, true), "nobody had it");
            }
            Before::Away => assert!(queue.line.put_away(|&cpu| queue.leave(cpu))),
        }
        let (kernel, cpu) = (queue.clone(), queue.clone());
        let packets = thread::spawn(move || {
            kernel.packet(2);
            kernel.interrupt(1, true);
        });
        let owner = thread::spawn(move || {
            cpu.interrupt(0, true);
            if cpu.state.update(|old| (old, old & SCHED != 0)) {
                cpu.turn(false);
            }
        });
        queue.moves(works);
        packets.join().unwrap();
        owner.join().unwrap();
        queue.assert_nothing_is_stranded();
        queue.settle();
        queue.packet(3);
        queue.assert_nothing_is_stranded();
    });
}

/// The first packet comes to an armed line that has joined its new CPU, and may not have left the old one.
fn a_line_that_moves_interrupts_once() {
    model(|| {
        let queue = Queue::new(0);
        let mut cpu = None;
        let join = |&to: &usize| {
            queue.enable(to)?;
            let kernel = queue.clone();
            cpu = Some(thread::spawn(move || {
                kernel.packet(1);
                kernel.interrupt(0, true);
            }));
            Ok::<_, ()>(())
        };
        queue.line.move_to(1, join, |&from| queue.leave(from)).expect("the kernel has memory");
        queue.interrupt(1, true);
        cpu.expect("it has joined").join().unwrap();
        queue.assert_nothing_is_stranded();
        queue.interrupt(1, true);
        let heard = queue.heard.load(Counting::Relaxed);
        assert_eq!(heard, 1, "heard {}", if heard > 1 { "twice" } else { "never" });
    });
}

#[test]
fn once_line_moves_and_interrupts_once() {
    a_line_that_moves_interrupts_once();
}

#[test]
#[should_panic(expected = "heard twice")]
fn once_line_needs_to_be_asked_about_each_interrupt() {
    TAKES_EVERY_INTERRUPT.set(true);
    a_line_that_moves_interrupts_once();
}

#[test]
fn once_line_in_other_hands() {
    a_line_in_other_hands_is_polled_again();
}

#[test]
fn once_line() {
    the_next_packet_interrupts(true);
}

#[test]
fn once_line_put_away() {
    a_line_that_was_put_away_comes_back();
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn once_line_needs_another_poll_where_it_was_not_armed() {
    POLLS_NOT_AGAIN.set(true);
    a_line_in_other_hands_is_polled_again();
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn once_line_needs_the_ordering_of_the_state() {
    without(Point::StateUpdate, || the_next_packet_interrupts(true));
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn once_line_needs_to_be_heard_before_somebody_is_scheduled() {
    the_next_packet_interrupts(false);
}

#[test]
fn once_line_moves_armed() {
    a_line_moves_under_its_owner(Before::Armed, true);
}

#[test]
fn once_line_moves_fired() {
    a_line_moves_under_its_owner(Before::Fired, true);
}

#[test]
fn once_line_moves_away() {
    a_line_moves_under_its_owner(Before::Away, true);
}

#[test]
fn once_line_fails_to_move_armed() {
    a_line_moves_under_its_owner(Before::Armed, false);
}

#[test]
fn once_line_fails_to_move_fired() {
    a_line_moves_under_its_owner(Before::Fired, false);
}

#[test]
fn once_line_fails_to_move_away() {
    a_line_moves_under_its_owner(Before::Away, false);
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn once_line_needs_to_move_in_one_step() {
    without(Point::LineMove, || a_line_moves_under_its_owner(Before::Armed, false));
}

#[test]
#[should_panic(expected = "lost interrupt")]
fn once_line_needs_a_look_where_it_failed_to_move() {
    LOOKS_NOT_AGAIN.set(true);
    a_line_moves_under_its_owner(Before::Fired, false);
}

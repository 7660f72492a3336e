//! Doorbells, timers, coalescing.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll};

use super::*;
use crate::port::InterruptLine as _;

fn is_ready(fd: BorrowedFd<'_>, wait_ms: i64) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: wait_ms * 1_000_000 };
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&timeout)).expect("poll") > 0
}

#[test]
fn masked_means_no_doorbell() {
    let mut link = link(&small());
    let line = line_of(&link.server[0]);
    send(&mut link.client[0], 1).expect("room");
    assert!(!is_ready(line.doorbell_fd().expect("a link has both"), 0));
    assert_eq!((line.interrupts(), line.suppressed()), (0, 1));
    assert!(link.server[0].rx.unmask(), "the packet was there before");
    link.server[0].rx.mask();
    assert_eq!(receive(&mut link.server[0], &link.table), Some(1));
    assert!(!link.server[0].rx.unmask());
    flush(&mut link.client[0]); // nothing new
    assert!(!is_ready(line.doorbell_fd().expect("a link has both"), 0));
    send(&mut link.client[0], 2).expect("room");
    assert!(is_ready(line.doorbell_fd().expect("a link has both"), 0));
    assert_eq!((line.interrupts(), line.suppressed()), (1, 1));
    assert_eq!(link.client[0].tx.counters().kicks.get(), 1);
}

#[test]
fn one_interrupt_per_unmask_on_an_edge() {
    let mut link = link(&small());
    for to_server in [true, false] {
        let (from, to) = if to_server {
            (&mut link.client[0], &mut link.server[0])
        } else {
            (&mut link.server[0], &mut link.client[0])
        };
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poll, line_of(to).doorbell_fd().expect("a link has both"), epoll::EventData::new_u64(1), flags)
            .expect("add");
        let events = || {
            let mut buffer = Vec::with_capacity(4);
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            epoll::wait(&poll, rustix::buffer::spare_capacity(&mut buffer), Some(&now)).expect("wait")
        };
        for round in 1..4 {
            assert!(!to.rx.unmask());
            assert_eq!(events(), 0);
            (0..5).for_each(|number| send(from, number).expect("room"));
            assert_eq!(events(), 1, "an edge per interrupt, though nobody reads");
            assert_eq!(events(), 0);
            assert_eq!((to.irq.interrupts(), to.irq.suppressed()), (round, 4 * round));
            to.rx.mask();
            while receive(to, &link.table).is_some() {}
        }
    }
}

#[test]
fn coalescing_by_frames() {
    let mut link = link(&LinkConfig { rx_usecs: 1_000_000, rx_frames: 3, ..small() });
    let line = line_of(&link.server[0]);
    assert_eq!(line.coalesce(), rule(1_000_000, 3));
    assert!(!link.server[0].rx.unmask());
    (0..2).for_each(|number| send(&mut link.client[0], number).expect("room"));
    assert!(!is_ready(line.doorbell_fd().expect("a link has both"), 0));
    assert_eq!((line.interrupts(), line.suppressed()), (0, 1)); // the first one started the timer
    send(&mut link.client[0], 2).expect("room");
    assert!(is_ready(line.doorbell_fd().expect("a link has both"), 0));
    assert_eq!(line.interrupts(), 1);
    assert!(!line.timer_fired(), "the interrupt overtook the timer");
}

#[test]
fn coalescing_by_time() {
    let mut link = link(&LinkConfig { rx_usecs: 2_000, rx_frames: 0, ..small() });
    let line = line_of(&link.server[0]);
    for round in 1..3 {
        assert!(!link.server[0].rx.unmask());
        (0..20).for_each(|number| send(&mut link.client[0], number).expect("room"));
        assert!(!is_ready(line.doorbell_fd().expect("a link has both"), 0));
        assert!(is_ready(line.timer_fd().expect("a link has both"), 900));
        assert!(line.timer_fired());
        assert!(!line.timer_fired(), "one interrupt per unmask");
        assert_eq!(line.interrupts(), round);
        link.server[0].rx.mask();
        while receive(&mut link.server[0], &link.table).is_some() {}
    }
}

#[test]
fn a_timer_left_over_from_before_the_unmask_is_no_interrupt() {
    let mut link = link(&LinkConfig { rx_usecs: 1_000, rx_frames: 2, ..small() });
    let line = line_of(&link.server[0]);
    assert!(!link.server[0].rx.unmask());
    (0..2).for_each(|number| send(&mut link.client[0], number).expect("room"));
    link.server[0].rx.mask();
    while receive(&mut link.server[0], &link.table).is_some() {}
    assert!(!link.server[0].rx.unmask());
    assert!(is_ready(line.timer_fd().expect("a link has both"), 900));
    assert!(!line.timer_fired());
    assert_eq!(line.interrupts(), 1);
}

#[test]
fn a_timer_that_ends_while_masked_is_no_interrupt() {
    let mut link = link(&LinkConfig { rx_usecs: 1_000, rx_frames: 0, ..small() });
    let line = line_of(&link.server[0]);
    assert!(!link.server[0].rx.unmask());
    send(&mut link.client[0], 1).expect("room");
    link.server[0].rx.mask();
    assert!(is_ready(line.timer_fd().expect("a link has both"), 900));
    assert!(!line.timer_fired());
    assert!(link.server[0].rx.unmask(), "the packet is not forgotten");
    assert_eq!(line.interrupts(), 0);
}

/// The producer announces, is held up before it starts the timer, and meanwhile its packet is polled. The timer comes for
/// nothing, and the next packet starts another.
#[test]
fn a_timer_that_fired_for_nothing_is_started_again() {
    let mut link = link(&LinkConfig { rx_usecs: 1_000, rx_frames: 0, ..small() });
    let line = line_of(&link.server[0]);
    assert!(!link.server[0].rx.unmask());
    send(&mut link.client[0], 1).expect("room");
    assert_eq!(receive(&mut link.server[0], &link.table), Some(1));
    line.latch.quiet(); // stands for the mask and the unmask that came before the timer was noted
    assert!(is_ready(line.timer_fd().expect("a link has both"), 900));
    assert!(!line.timer_fired());
    send(&mut link.client[0], 2).expect("room");
    assert_eq!((link.client[0].tx.counters().kicks.get(), line.suppressed()), (2, 0));
    assert!(is_ready(line.timer_fd().expect("a link has both"), 900));
    assert!(line.timer_fired());
    assert_eq!(line.interrupts(), 1);
}

#[test]
fn new_coalescing_announces_what_waits_by_the_old() {
    let mut link = link(&LinkConfig { rx_usecs: 1_000_000, rx_frames: 0, ..small() });
    let line = line_of(&link.server[0]);
    assert!(!link.server[0].rx.unmask());
    line.set_coalesce(rule(900_000, 0));
    assert!(!is_ready(line.doorbell_fd().expect("a link has both"), 0), "nothing waits");
    send(&mut link.client[0], 1).expect("room");
    assert!(!is_ready(line.doorbell_fd().expect("a link has both"), 0));
    line.set_coalesce(rule(0, 1));
    assert!(is_ready(line.doorbell_fd().expect("a link has both"), 0));
    assert_eq!(line.interrupts(), 1);
}

/// A consumer that sleeps between interrupts gets every packet, whatever happens to the coalescing meanwhile. A lost
/// interrupt shows as a wait of seconds.
fn sleeping_consumer_gets_all(from: &mut QueuePair, to: &mut QueuePair, table: &FrameTable, packets: u64) {
    let line = line_of(to);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0u32.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let rx_usecs = [0, 20, 50, 200][turn as usize % 4];
                let rx_frames = if rx_usecs == 0 { 1 } else { [1, 0, 8, 3][turn as usize / 4 % 4] };
                line.set_coalesce(rule(rx_usecs, rx_frames));
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        scope.spawn(|| {
            for number in 0..packets {
                while !from.tx.has_room() {
                    std::thread::yield_now();
                }
                send(from, number).expect("room");
                if number % 17 == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poll, line.doorbell_fd().expect("a link has both"), epoll::EventData::new_u64(0), flags)
            .expect("add");
        epoll::add(&poll, line.timer_fd().expect("a link has both"), epoll::EventData::new_u64(1), flags).expect("add");
        let mut next = 0;
        while next < packets {
            to.rx.mask();
            while let Some(number) = receive(to, table) {
                assert_eq!(number, next);
                next += 1;
            }
            if next == packets || to.rx.unmask() {
                continue;
            }
            loop {
                let mut events = Vec::with_capacity(4);
                let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
                epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&patience)).expect("wait");
                assert!(!events.is_empty(), "lost interrupt at packet {next}");
                if events.iter().any(|event| event.data.u64() == 0 || line.timer_fired()) {
                    break;
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(to.irq.interrupts() > 0);
}

#[test]
fn no_interrupt_is_lost_while_coalescing_changes() {
    let mut link = link(&small());
    sleeping_consumer_gets_all(&mut link.client[0], &mut link.server[0], &link.table, 30_000);
    sleeping_consumer_gets_all(&mut link.server[0], &mut link.client[0], &link.table, 30_000);
    link.assert_at_rest();
}

fn rule(rx_usecs: u32, rx_frames: u32) -> napier_core::moderation::Coalesce {
    napier_core::moderation::Coalesce::new(rx_usecs, rx_frames).expect("a legal rule")
}

//! One run: the threads and what they count.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use napier_sys::tsc::{ticks, ticks_after};
use napier_sys::usage::{ThreadUsage, thread_usage};

use super::handover::{Alone, BATCH_MAX, HandOver};
use crate::bench::pin::pin_to;
use crate::bench::ticks::{TIMED_EVERY, TickClock};
use crate::report::{CpuTimes, PowerHistogram};

/// Items of each sender. Source: `include/net/sock.h`, `_SK_MEM_PACKETS`: a socket's default send buffer holds 256.
pub(super) const WINDOW: u32 = 256;

/// Looks for a returned item before the sender gives up its processor.
const LOOKS_MAX: u32 = 32;

/// How long the consumer leaves the queue alone when it found less than a batch.
pub(super) const PAUSE_NS: u64 = 1000;

/// What all threads of a run are told.
#[derive(Copy, Clone)]
pub(super) struct ListSetup<'a> {
    pub(super) senders: u32,
    pub(super) length: Duration,
    /// Processors that the process may use.
    pub(super) cpus: usize,
    /// Processors to pin to: senders in turn, the consumer to the last.
    pub(super) pin: Option<&'a [usize]>,
    pub(super) clock: TickClock,
}

/// What came of a run.
#[derive(Default)]
pub(super) struct ListRun {
    /// Items that were pushed.
    pub(super) items: u64,
    /// From the start of all threads until they were told to stop.
    pub(super) wall: Duration,
    /// Time in the timed pushes, ns.
    pub(super) push_ns: PowerHistogram,
    /// Items per take that found any.
    pub(super) batch: PowerHistogram,
    /// CPU time of all senders and of the consumer, which is the receiver.
    pub(super) cpu: CpuTimes,
}

/// What one sender counted.
struct ListSent {
    items: u64,
    push_ns: PowerHistogram,
    usage: ThreadUsage,
}

/// What the consumer counted.
struct Consumed {
    batch: PowerHistogram,
    usage: ThreadUsage,
}

/// Items of each sender that have come back, on lines of their own: written by the consumer, at most once per sender
/// in a row, and read by the sender only when it has none left.
struct Returned(Vec<Alone<AtomicU32>>);

/// Runs one scheme.
pub(super) fn run<H: HandOver>(setup: ListSetup<'_>) -> ListRun {
    let queue = H::new(setup.senders * WINDOW);
    let returned = Returned((0..setup.senders).map(|_| Alone::default()).collect());
    let stop = Alone(AtomicBool::new(false));
    let start = Barrier::new(setup.senders as usize + 2);
    std::thread::scope(|scope| {
        let (queue, returned, stop, start) = (&queue, &returned, &stop.0, &start);
        let senders: Vec<_> =
            (0..setup.senders).map(|me| scope.spawn(move || send(queue, me, returned, start, stop, setup))).collect();
        let consumer = scope.spawn(move || consume(queue, returned, start, stop, setup));
        start.wait();
        let started = Instant::now();
        std::thread::sleep(setup.length);
        stop.store(true, Ordering::Relaxed);
        let mut run = ListRun { wall: started.elapsed(), ..ListRun::default() };
        for sender in senders {
            let sent = sender.join().expect("a sender does not panic");
            run.items += sent.items;
            run.cpu.add_sender(sent.usage);
            run.push_ns.merge(&sent.push_ns);
        }
        let consumed = consumer.join().expect("the consumer does not panic");
        run.cpu.add_receiver(consumed.usage);
        run.batch = consumed.batch;
        run
    })
}

fn send<H: HandOver>(
    queue: &H,
    me: u32,
    returned: &Returned,
    start: &Barrier,
    stop: &AtomicBool,
    setup: ListSetup<'_>,
) -> ListSent {
    if let Some(cpus) = setup.pin {
        pin_to(cpus[me as usize % cpus.len()]);
    }
    let (mut items, mut push_ns) = (0, PowerHistogram::default());
    let (mut sent, mut back, mut until_timed) = (0_u32, 0_u32, me % TIMED_EVERY);
    start.wait();
    while !stop.load(Ordering::Relaxed) {
        if sent.wrapping_sub(back) == WINDOW {
            back = wait_for_items(&returned.0[me as usize].0, sent, stop);
            continue;
        }
        let item = me * WINDOW + sent % WINDOW;
        if until_timed == 0 {
            until_timed = TIMED_EVERY;
            let before = ticks();
            queue.push(item);
            push_ns.add(setup.clock.ns(ticks_after() - before));
        } else {
            queue.push(item);
        }
        until_timed -= 1;
        sent = sent.wrapping_add(1);
        items += 1;
    }
    ListSent { items, push_ns, usage: thread_usage() }
}

/// Looks until an item has come back or the run is over; the new count.
fn wait_for_items(returned: &AtomicU32, sent: u32, stop: &AtomicBool) -> u32 {
    let mut looks = 0;
    loop {
        // Acquire: pairs with the Release in `consume`: the consumer is done with the item.
        let back = returned.load(Ordering::Acquire);
        if sent.wrapping_sub(back) < WINDOW || stop.load(Ordering::Relaxed) {
            return back;
        }
        looks += 1;
        if looks > LOOKS_MAX {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

fn consume<H: HandOver>(
    queue: &H,
    returned: &Returned,
    start: &Barrier,
    stop: &AtomicBool,
    setup: ListSetup<'_>,
) -> Consumed {
    if let Some(cpus) = setup.pin {
        pin_to(*cpus.last().expect("there is a processor"));
    }
    let mut batch = PowerHistogram::default();
    let mut back = vec![0_u32; setup.senders as usize];
    // Release: pairs with the Acquire in `wait_for_items`.
    let give_back = |sender: usize, count: u32| returned.0[sender].0.store(count, Ordering::Release);
    let pause_ticks = setup.clock.ticks(PAUSE_NS);
    start.wait();
    while !stop.load(Ordering::Relaxed) {
        let (mut taken, mut last) = (0_u64, None);
        queue.take(|item| {
            let sender = (item / WINDOW) as usize;
            if let Some(last) = last.replace(sender)
                && last != sender
            {
                give_back(last, back[last]);
            }
            back[sender] = back[sender].wrapping_add(1);
            taken += 1;
        });
        let Some(last) = last else {
            std::thread::yield_now();
            continue;
        };
        give_back(last, back[last]);
        batch.add(taken);
        if taken < BATCH_MAX as u64 {
            let paused = ticks();
            while ticks() - paused < pause_ticks {
                std::hint::spin_loop();
            }
        }
    }
    Consumed { batch, usage: thread_usage() }
}

#[cfg(test)]
mod tests {
    use super::super::handover::OurList;
    use super::*;

    #[test]
    fn a_run_counts_what_it_did() {
        let setup = ListSetup {
            senders: 3,
            length: Duration::from_millis(60),
            cpus: 2,
            pin: None,
            clock: TickClock::calibrate(),
        };
        let run = run::<OurList>(setup);
        assert!(run.wall >= setup.length && run.cpu.receivers > Duration::ZERO && run.cpu.sending() > Duration::ZERO);
        assert!(run.items > u64::from(3 * WINDOW), "{} items: none came back", run.items);
        let timed = run.push_ns.count() * u64::from(TIMED_EVERY);
        assert!(timed.abs_diff(run.items) <= u64::from(3 * TIMED_EVERY), "{timed} of {}", run.items);
        assert!(run.batch.max() <= u64::from(3 * WINDOW) && run.batch.count() > 0);
    }
}

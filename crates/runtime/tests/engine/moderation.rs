//! Interrupts that are held back, and interrupts that busy polling makes needless.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use napier_core::context::PollContext;
use napier_runtime::control::NapiSet;
use napier_runtime::device::{Coalesce, LinkConfig};
use napier_runtime::socket::{SocketOption, UdpSocket};

use crate::common::modes::{Mode, echo, round_trips, stop};
use crate::common::{PEER_V4, Pair, TESTED_V4, bound, eventually, stats_of, v4};

fn adaptive(pair: &Pair) {
    for device in [&pair.tested, &pair.peer] {
        assert!(device.set_coalesce(0, Coalesce::adaptive()));
        assert_eq!(device.coalesce(0), Some(Coalesce::adaptive()));
    }
}

/// An echo server that is waited for, in a mode.
fn served(pair: &Pair, mode: Mode) -> JoinHandle<()> {
    pair.set_all(&pair.tested, &NapiSet { id: None, ..mode.settings() });
    echo(&pair.engine, mode, bound_for_good(pair))
}

fn bound_for_good(pair: &Pair) -> UdpSocket {
    UdpSocket::bind(&pair.tested_ns, v4(TESTED_V4, 4000)).unwrap()
}

#[test]
fn adaptive_lines_deliver_in_every_mode() {
    for mode in Mode::ALL {
        let pair = Pair::new(&LinkConfig::default());
        adaptive(&pair);
        let server = served(&pair, mode);
        let socket = bound(&pair.peer_ns, v4(PEER_V4, 5000));
        // Many on the way, and then one at a time: nothing else would bring back an interrupt that was lost.
        round_trips(&socket, v4(TESTED_V4, 4000), 3_000, 32);
        for _ in 0..200 {
            round_trips(&socket, v4(TESTED_V4, 4000), 1, 1);
        }
        stop(&socket, v4(TESTED_V4, 4000), server);
    }
}

/// What comes fast while a program works is held back, and what comes to one that sleeps is not.
#[test]
fn a_burst_is_held_back() {
    let pair = Pair::new(&LinkConfig::default());
    adaptive(&pair);
    let receiver = bound(&pair.tested_ns, v4(TESTED_V4, 4000));
    let sender = bound(&pair.peer_ns, v4(PEER_V4, 5000));
    eventually("an interrupt is held back", || {
        for _ in 0..64 {
            sender.send_to(b"burst", v4(TESTED_V4, 4000)).unwrap();
        }
        for _ in 0..64 {
            assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 5);
        }
        stats_of(&pair.tested).irq_holds > 0
    });
    assert!(pair.tested.set_coalesce(0, Coalesce::default()));
    let before = stats_of(&pair.tested).irq_holds;
    sender.send_to(b"after", v4(TESTED_V4, 4000)).unwrap();
    assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 5);
    assert_eq!(stats_of(&pair.tested).irq_holds, before, "it is off");
}

/// A program that never waits in the engine: the time of the hold brings the packets.
#[test]
fn what_no_program_waits_for_comes_when_its_time_is_up() {
    let pair = Pair::new(&LinkConfig::default());
    adaptive(&pair);
    let receiver = bound(&pair.tested_ns, v4(TESTED_V4, 4000));
    receiver.set_nonblocking(true).unwrap();
    let sender = bound(&pair.peer_ns, v4(PEER_V4, 5000));
    for round in 0..2_000_u32 {
        sender.send_to(&round.to_le_bytes(), v4(TESTED_V4, 4000)).unwrap();
        if round % 50 == 0 {
            std::thread::sleep(Duration::from_micros(300));
        }
        eventually("the packet comes", || receiver.recv(&mut [0; 8]).is_ok());
    }
}

/// A busy poller has taken what came, so there is no interrupt for it, and no poll that finds nothing.
#[test]
fn a_queue_that_is_busy_polled_raises_no_interrupt() {
    let pair = Pair::new(&LinkConfig::default());
    let receiver = bound(&pair.tested_ns, v4(TESTED_V4, 4000));
    // Longer than any test lasts: the loop ends with a packet.
    receiver.setsockopt(SocketOption::BusyPoll, 100_000_000).unwrap();
    let sender = bound(&pair.peer_ns, v4(PEER_V4, 5000));
    // The socket learns its instance.
    sender.send_to(b"first", v4(TESTED_V4, 4000)).unwrap();
    assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 5);
    let quiet = || {
        let stats = stats_of(&pair.tested);
        (stats.interrupts, stats.irq_needless, stats.polls[PollContext::Softirq])
    };
    let user_polls = || stats_of(&pair.tested).polls[PollContext::User];
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..200 {
                assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 3);
                done.fetch_add(1, Ordering::Release);
            }
        });
        let mut before = None;
        for round in 0..200 {
            let begun = user_polls();
            // The end of the last loop polls once more, the loop polls for ever.
            eventually("the reader polls", || user_polls() > begun + 3);
            before.get_or_insert_with(quiet);
            sender.send_to(b"now", v4(TESTED_V4, 4000)).unwrap();
            eventually("it is read", || done.load(Ordering::Acquire) > round);
        }
        reader.join().unwrap();
        assert_eq!(Some(quiet()), before, "interrupts, needless ones, softirq polls");
    });
}

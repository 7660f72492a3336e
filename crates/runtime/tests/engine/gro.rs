//! Datagrams that an instance holds for merging: when they go up, in every way of polling, and that none is lost.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use napier_core::completion::{Completion, Flush};
use napier_runtime::control::NapiSet;
use napier_runtime::device::{LinkConfig, PollContext};
use napier_runtime::engine::Engine;
use napier_runtime::journal::{Event, Record, Rule};
use napier_runtime::socket::{MergedDatagram, NetNs, SocketOption, TcpListener, TcpStream, UdpSocket};

use crate::common::modes::Mode;
use crate::common::{Dice, PATIENCE, PEER_V4, Pair, TESTED_V4, eventually, v4};

fn merging_socket(netns: &NetNs, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind(netns, v4(TESTED_V4, port)).unwrap();
    socket.setsockopt(SocketOption::UdpGro, 1).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn sender(pair: &Pair) -> UdpSocket {
    let socket = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    socket.connect(v4(TESTED_V4, 4000)).unwrap();
    socket
}

fn gro_flush_timeout(pair: &Pair, ns: u64, defer: u64) {
    let set = NapiSet { gro_flush_timeout: Some(ns), defer_hard_irqs: Some(defer), ..NapiSet::default() };
    pair.set_all(&pair.tested, &set);
}

/// Sends a datagram until one is held, and does not come; how many completions held one. The socket does not block then.
fn is_held(pair: &Pair, sender: &UdpSocket, socket: &UdpSocket, datagram: &[u8]) -> u64 {
    socket.set_nonblocking(true).unwrap();
    for _ in 0..1000 {
        let before = pair.tested.napi_stats(0);
        sender.send(datagram).unwrap();
        // The completion says that it holds something, then delivers what is old of it, then unmasks.
        eventually("its completion is over", || {
            let now = pair.tested.napi_stats(0);
            now.gro_held > before.gro_held && now.unmasks > before.unmasks
        });
        // If a jiffy ended between the poll and its completion, it is old and there already. So it is if this thread was
        // stopped until the timer came.
        if socket.recv(&mut [0; 65535]).is_err() {
            return before.gro_held + 1;
        }
    }
    panic!("every completion delivered what was held in its own jiffy");
}

fn records(pair: &Pair) -> Vec<Record> {
    let ifindex = pair.tested.ifindex();
    let journal = pair.engine.journal();
    assert_eq!(journal.lost, 0, "the journal was full");
    journal.records.into_iter().filter(|record| record.ifindex == ifindex).collect()
}

/// Without a flush timeout every completion delivers everything.
#[test]
fn without_a_timer_nothing_waits() {
    let pair = Pair::new(&LinkConfig::default());
    let (socket, sender) = (merging_socket(&pair.tested_ns, 4000), sender(&pair));
    let mut buffer = [0; 65535];
    for _ in 0..1000 {
        sender.send(b"ping").unwrap();
        assert_eq!(socket.recv_merged(&mut buffer).unwrap().bytes, 4);
    }
    eventually("each completion found the packet held", || pair.tested.napi_stats(0).gro_held > 0);
    assert_eq!(pair.tested.napi_stats(0).timer_fires, 0);
}

/// With one and without deferrals: the interrupt is unmasked and the timer armed, whose poll delivers.
#[test]
fn the_timer_delivers_what_is_held() {
    let pair = Pair::on(Engine::builder().journal(1_000_000), &LinkConfig::default());
    // Long enough to look at it on however busy a machine.
    gro_flush_timeout(&pair, 300_000_000, 0);
    let (socket, sender) = (merging_socket(&pair.tested_ns, 4000), sender(&pair));
    let completions = is_held(&pair, &sender, &socket, &[1; 100]);
    let mut buffer = [0; 65535];
    socket.set_nonblocking(false).unwrap();
    let merged = socket.recv_merged(&mut buffer).unwrap();
    assert_eq!(merged, MergedDatagram { bytes: 100, segment_bytes: 100, segments: 1, from: v4(PEER_V4, 5000) });
    assert_eq!(pair.tested.napi_stats(0).gro_held, completions + 1);
    // The reader is woken in the midst of the timer's poll, which goes on to say that nothing is held any more.
    let mut all = Vec::new();
    eventually("the poll has said it all", || {
        all = records(&pair);
        let fired = all.iter().rposition(|record| matches!(record.event, Event::TimerFire { .. }));
        all[fired.expect("the timer delivered it")..].iter().any(|record| matches!(record.event, Event::Held { .. }))
    });
    let records = all;
    let fired = records.iter().rposition(|record| matches!(record.event, Event::TimerFire { .. })).unwrap();
    let is_unmask = |record: &Record| matches!(record.event, Event::Unmask { .. });
    let last = records[..fired].iter().rfind(|record| is_unmask(record) || matches!(record.event, Event::Mask));
    assert!(last.is_some_and(is_unmask), "unmasked while it was held");
    let events = records[fired..].iter().filter_map(|record| match record.event {
        Event::Complete { work, held, decision: Completion::Release(release), .. } => {
            Some(format!("complete {work} {held} {:?}", release.flush))
        }
        Event::Deliver { packets, .. } => Some(format!("deliver {packets}")),
        Event::Held { packets } => Some(format!("held {packets}")),
        _ => None,
    });
    assert_eq!(events.take(3).collect::<Vec<_>>(), ["complete 0 true All", "deliver 1", "held 0"]);
}

/// While interrupts are deferred completions deliver what is older than the jiffy, and the last one the rest.
#[test]
fn deferred_completions_deliver_old_packets() {
    let pair = Pair::on(Engine::builder().journal(100_000), &LinkConfig::default());
    gro_flush_timeout(&pair, 2_000_000, 5);
    let (socket, sender) = (merging_socket(&pair.tested_ns, 4000), sender(&pair));
    sender.send(b"ping").unwrap();
    assert_eq!(socket.recv(&mut [0; 64]).unwrap(), 4);
    let records = records(&pair);
    let flushes = records.iter().filter_map(|record| match record.event {
        Event::Complete { held: true, decision: Completion::Release(release), .. } => Some(release.flush),
        _ => None,
    });
    // The packet's own completion keeps it unless a jiffy has just ended, the timer's delivers it: 2 ms later it is old.
    let flushes: Vec<_> = flushes.collect();
    assert!(!flushes.is_empty() && flushes.iter().all(|flush| *flush == Flush::OldOnly), "{flushes:?}");
    assert!(flushes.len() <= 2, "{flushes:?}");
}

/// A device that goes down delivers what it holds first; a device that does not merge holds nothing.
#[test]
fn a_device_that_goes_down_delivers_first() {
    let pair = Pair::new(&LinkConfig::default());
    gro_flush_timeout(&pair, 600_000_000_000, 0);
    let (socket, sender) = (merging_socket(&pair.tested_ns, 4000), sender(&pair));
    let completions = is_held(&pair, &sender, &socket, b"ping");
    pair.tested.set_down();
    assert_eq!(socket.recv(&mut [0; 64]).unwrap(), 4);
    pair.tested.set_up().unwrap();
    assert!(pair.tested.gro());
    pair.tested.set_gro(false);
    sender.send(b"ping").unwrap();
    eventually("it is not held", || socket.recv(&mut [0; 64]).is_ok());
    assert_eq!(pair.tested.napi_stats(0).gro_held, completions);
}

/// A reader that busy polls sees what is held when its loop stops, not before.
#[test]
fn a_busy_reader_gets_it_when_it_stops() {
    let pair = Pair::on(Engine::builder().journal(1_000_000), &LinkConfig::default());
    let (socket, sender) = (merging_socket(&pair.tested_ns, 4000), sender(&pair));
    let mut buffer = [0; 64];
    // The socket learns its instance.
    sender.send(b"ping").unwrap();
    assert_eq!(socket.recv(&mut buffer).unwrap(), 4);
    // Every empty poll is journaled, each in some 50 ns on a fast machine: the journal must hold them all.
    socket.setsockopt(SocketOption::BusyPoll, 20_000).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(5));
            sender.send(b"pong").unwrap();
        });
        assert_eq!(socket.recv(&mut buffer).unwrap(), 4);
    });
    let records = records(&pair);
    let user = |record: &Record| matches!(record.event, Event::Poll { context: PollContext::User, work: 1, .. });
    let stop = |record: &Record| matches!(record.event, Event::Rule { rule: Rule::BusyStopBegin, .. });
    let delivered = records.iter().rposition(|record| matches!(record.event, Event::Deliver { .. })).unwrap();
    // On a very busy machine the loop may have ended before the packet came.
    if records.iter().any(user) {
        assert!(records[..delivered].iter().any(stop), "delivered while the loop went on");
    }
}

/// In every way of polling, under all kinds of datagrams, each arrives once and in its order.
#[test]
fn every_mode_delivers_everything_in_order() {
    let pair = Pair::new(&LinkConfig { queues: 2, ..LinkConfig::default() });
    for (round, mode) in Mode::ALL.into_iter().filter(|mode| *mode != Mode::SeparatePoller).enumerate() {
        pair.set_all(&pair.tested, &mode.settings());
        let port = 4000 + u16::try_from(round).unwrap();
        let socket = merging_socket(&pair.tested_ns, port);
        let busy = mode.busy_read();
        socket.setsockopt(SocketOption::BusyPoll, busy.usecs.cast_signed()).unwrap();
        let (flows, each, window) = (4, 1500, 24);
        let senders: Vec<UdpSocket> = (0..flows)
            .map(|flow| UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 6000 + u16::try_from(flow).unwrap())).unwrap())
            .collect();
        let mut dice = Dice(round as u64);
        let (mut sent, mut got) = (vec![0_u32; flows], vec![0_u32; flows]);
        let mut buffer = [0; 65535];
        while got.iter().any(|got| *got < each) {
            let under_way = sent.iter().sum::<u32>() - got.iter().sum::<u32>();
            let burst = dice.roll(u64::from(window - under_way) + 1);
            for _ in 0..burst {
                let flow = dice.roll(flows as u64) as usize;
                if sent[flow] < each {
                    let payload = [&sent[flow].to_le_bytes()[..], &[7; 60]].concat();
                    let length = if dice.roll(5) == 0 { 4 + dice.roll(60) as usize } else { 64 };
                    senders[flow].send_to(&payload[..length], v4(TESTED_V4, port)).unwrap();
                    sent[flow] += 1;
                }
            }
            if sent == got {
                continue;
            }
            let merged = socket.recv_merged(&mut buffer).unwrap_or_else(|error| {
                panic!("{mode:?}: {got:?} of {sent:?} arrived: {error}");
            });
            let flow = usize::from(merged.from.port() - 6000);
            for segment in buffer[..merged.bytes].chunks(merged.segment_bytes.max(1)) {
                assert_eq!(u32::from_le_bytes(*segment.first_chunk().unwrap()), got[flow], "{mode:?}");
                got[flow] += 1;
            }
        }
    }
    let stats = crate::common::stats_of(&pair.tested);
    assert!(stats.gro_merged > 0 && stats.gro_held > 0, "{stats:?}");
}

/// A stream of segments arrives whole where they are merged, in every way of polling, and fewer come up than were sent.
#[test]
fn streams_are_merged() {
    let pair = Pair::new(&LinkConfig::default());
    for (round, mode) in Mode::ALL.into_iter().filter(|mode| *mode != Mode::SeparatePoller).enumerate() {
        pair.set_all(&pair.tested, &mode.settings());
        let port = 7000 + u16::try_from(round).unwrap();
        let listener = TcpListener::bind(&pair.tested_ns, v4(TESTED_V4, port)).unwrap();
        let bytes: Vec<u8> = (0..400_000_u32).map(|at| ((at * 31) >> 3) as u8).collect();
        std::thread::scope(|scope| {
            let (pair, sent) = (&pair, &bytes);
            scope.spawn(move || {
                let stream = TcpStream::connect(&pair.peer_ns, v4(TESTED_V4, port)).unwrap();
                (&stream).write_all(sent).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let mut end = [0; 1];
                assert_eq!((&stream).read(&mut end).unwrap(), 0);
            });
            let (stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let busy = mode.busy_read();
            stream.setsockopt(SocketOption::BusyPoll, busy.usecs.cast_signed()).unwrap();
            let mut got = Vec::new();
            (&stream).read_to_end(&mut got).unwrap_or_else(|error| panic!("{mode:?}: {} came: {error}", got.len()));
            assert!(got == bytes, "{mode:?}");
        });
    }
    assert!(crate::common::stats_of(&pair.tested).gro_merged > 0);
}

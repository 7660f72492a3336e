use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use napier_ring::Frame;
use rustix::event::{PollFd, PollFlags, Timespec, epoll};

use super::*;

struct Link {
    table: Arc<FrameTable>,
    client: Vec<QueuePair>,
    server: Vec<QueuePair>,
}

fn link(config: &LinkConfig) -> Link {
    let table = Arc::new(FrameTable::new());
    let (client, server) = create(config, &table).expect("link");
    Link { table, client, server }
}

fn small() -> LinkConfig {
    LinkConfig { ring_size: 64, frame_bytes: 256, ..LinkConfig::default() }
}

fn send(pair: &mut QueuePair, number: u64) -> Result<(), TxFull> {
    let sent = pair.tx.build(16, |buffer| {
        buffer[..8].copy_from_slice(&number.to_le_bytes());
        8
    });
    pair.tx.flush();
    sent
}

fn receive(pair: &mut QueuePair, table: &FrameTable) -> Option<u64> {
    let (frame, length) = pair.rx.take()?;
    let number = number_in(&frame, length, table);
    pair.rx.frames_home().free(frame);
    Some(number)
}

fn number_in(frame: &Frame, length: u32, table: &FrameTable) -> u64 {
    u64::from_le_bytes(table.data(frame, length as usize).try_into().expect("8 bytes"))
}

/// What an end's frames do at rest: all in pools and posted, none sent and not reclaimed.
fn assert_at_rest(end: &mut [QueuePair]) {
    let mut sum = FrameAccount::default();
    for pair in end {
        pair.rx.refill();
        pair.tx.flush();
        pair.tx.reclaim();
        assert_eq!(pair.tx.account().in_ring, 0);
        sum = [sum, pair.rx.account(), pair.tx.account()].into_iter().sum();
    }
    assert_eq!(sum.out(), 0, "{sum:?}");
}

impl Link {
    fn assert_at_rest(&mut self) {
        assert_at_rest(&mut self.server);
        assert_at_rest(&mut self.client);
    }
}

fn is_ready(fd: BorrowedFd<'_>, wait_ms: i64) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: wait_ms * 1_000_000 };
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&timeout)).expect("poll") > 0
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |config: LinkConfig| config.check().expect_err("refused");
    for queues in [0, 65] {
        assert!(matches!(refused(LinkConfig { queues, ..small() }), LinkError::Queues { .. }));
    }
    for ring_size in [0, 32, 100, 8192] {
        assert!(matches!(refused(LinkConfig { ring_size, ..small() }), LinkError::RingSize { .. }));
    }
    for frame_bytes in [0, 64, 200, 65600] {
        assert!(matches!(refused(LinkConfig { frame_bytes, ..small() }), LinkError::FrameBytes { .. }));
    }
    for frames_per_queue in [1, 127, 1 << 18] {
        assert!(matches!(refused(LinkConfig { frames_per_queue, ..small() }), LinkError::Frames { least: 128, .. }));
    }
    let huge = LinkConfig { queues: 64, ring_size: 4096, frame_bytes: 65536, ..small() };
    let table = Arc::new(FrameTable::new());
    assert!(matches!(create(&huge, &table), Err(LinkError::Layout(_))));
    assert_eq!(
        refused(LinkConfig { ring_size: 100, ..small() }).to_string(),
        "a ring has 64 to 4096 slots, a power of two, not 100"
    );
}

#[test]
fn packets_go_both_ways_on_every_queue() {
    let mut link = link(&LinkConfig { queues: 3, ..small() });
    for queue in 0..3 {
        for number in 0..40 {
            assert_eq!(send(&mut link.client[queue], number), Ok(()));
            assert_eq!(send(&mut link.server[queue], number + 1000), Ok(()));
        }
        assert!(link.server[queue].rx.pending() && link.client[queue].rx.pending());
        for number in 0..40 {
            assert_eq!(receive(&mut link.server[queue], &link.table), Some(number));
            assert_eq!(receive(&mut link.client[queue], &link.table), Some(number + 1000));
        }
        assert_eq!(receive(&mut link.server[queue], &link.table), None);
        assert_eq!(receive(&mut link.client[queue], &link.table), None);
        assert!(!link.server[queue].rx.pending() && !link.client[queue].rx.pending());
        let counters = link.client[queue].rx.counters();
        assert_eq!((counters.packets.get(), counters.bytes.get()), (40, 320));
        assert_eq!(link.server[queue].tx.counters().packets.get(), 40);
    }
    link.assert_at_rest();
}

#[test]
fn indices_wrap_without_a_seam() {
    let mut link = link(&small());
    for number in 0..70_000 {
        assert_eq!(send(&mut link.client[0], number), Ok(()));
        assert_eq!(send(&mut link.server[0], number), Ok(()));
        assert_eq!(receive(&mut link.server[0], &link.table), Some(number));
        assert_eq!(receive(&mut link.client[0], &link.table), Some(number));
        if number % 64 == 0 {
            link.server[0].rx.refill();
            link.client[0].rx.refill();
        }
    }
    link.assert_at_rest();
}

#[test]
fn a_full_ring_refuses_and_counts() {
    let mut link = link(&small());
    for end in [&mut link.client, &mut link.server] {
        for number in 0..64 {
            assert!(end[0].tx.has_room());
            assert_eq!(send(&mut end[0], number), Ok(()));
        }
        assert!(!end[0].tx.has_room());
        assert_eq!(end[0].tx.build(8, |_| unreachable!("no room")), Err(TxFull));
        assert_eq!(end[0].tx.counters().tx_full_drops.get(), 1);
        assert_eq!(end[0].tx.counters().packets.get(), 64);
    }
    for number in 0..64 {
        assert_eq!(receive(&mut link.server[0], &link.table), Some(number));
        assert_eq!(receive(&mut link.client[0], &link.table), Some(number));
    }
    link.server[0].rx.refill();
    link.client[0].rx.refill();
    assert!(link.client[0].tx.has_room() && link.server[0].tx.has_room());
    link.assert_at_rest();
}

#[test]
fn without_a_frame_packets_are_dropped_and_the_queue_lives_on() {
    let mut link = link(&LinkConfig { frames_per_queue: 128, ..small() });
    let Link { table, client, server } = &mut link;
    for (from, to, frames) in [(&mut client[0], &mut server[0], 128), (&mut server[0], &mut client[0], 64)] {
        let mut held = Vec::new();
        for number in 0..200 {
            assert_eq!(send(from, number), Ok(()));
            held.extend(to.rx.take());
            to.rx.refill();
        }
        assert_eq!(held.len(), frames, "a socket can hold all that is not posted");
        assert_eq!(to.rx.counters().no_frame_drops.get(), 200 - frames as u64);
        assert!(!to.rx.unmask(), "nothing waits");
        to.rx.mask();
        let mut batch = table.batch();
        held.into_iter().for_each(|(frame, _)| batch.push(frame));
        drop(batch);
        assert_eq!(send(from, 7), Ok(()));
        assert_eq!(receive(to, table), Some(7));
    }
    link.assert_at_rest();
}

#[test]
fn a_sender_without_frames_refuses_and_counts() {
    let mut link = link(&LinkConfig { frames_per_queue: 128, ..small() });
    // The client's frames are all at the server's door or elsewhere: here in our hands.
    let mut held = Vec::new();
    for _ in 0..3 {
        for number in 0..64 {
            send(&mut link.server[0], number).expect("room");
        }
        while let Some((frame, _)) = link.client[0].rx.take() {
            held.push(frame);
        }
    }
    assert_eq!(held.len(), 64);
    // Zero copy: frames of the receive home fill the transmit ring.
    for frame in held {
        assert!(link.client[0].tx.give(frame, 8).is_ok());
    }
    assert_eq!(link.client[0].tx.build(8, |_| 8), Err(TxFull));
    assert_eq!(link.client[0].tx.counters().tx_full_drops.get(), 1);
    link.client[0].tx.flush();
    while receive(&mut link.server[0], &link.table).is_some() {}
    link.assert_at_rest();
}

#[test]
fn a_frame_of_the_region_is_sent_as_it_is() {
    let mut link = link(&small());
    send(&mut link.server[0], 5).expect("room");
    let (mut frame, length) = link.client[0].rx.take().expect("packet");
    link.table.data_mut(&mut frame)[..8].copy_from_slice(&6u64.to_le_bytes());
    assert!(link.client[0].tx.give(frame, length).is_ok());
    assert_eq!(link.client[0].tx.account().pooled, 128, "no frame of the transmit home was used");
    assert_eq!(link.client[0].tx.account().in_ring, 1);
    link.client[0].tx.flush();
    assert_eq!(receive(&mut link.server[0], &link.table), Some(6));
    link.assert_at_rest();
}

#[test]
fn any_other_frame_is_copied_and_given_back() {
    let mut link = link(&small());
    let mut other = self::link(&small());
    // One table, so that a frame can cross from one link to the other.
    let (mut clients, mut servers) = create(&small(), &link.table).expect("link");
    send(&mut servers[0], 1).expect("room");
    send(&mut clients[0], 2).expect("room");
    let (from_client, length) = clients[0].rx.take().expect("packet");
    let (from_server, _) = servers[0].rx.take().expect("packet");
    assert!(link.client[0].tx.give(from_client, length).is_ok());
    assert!(link.server[0].tx.give(from_server, length).is_ok());
    link.client[0].tx.flush();
    link.server[0].tx.flush();
    assert_eq!(receive(&mut link.server[0], &link.table), Some(1));
    assert_eq!(receive(&mut link.client[0], &link.table), Some(2));
    assert_at_rest(&mut clients);
    assert_at_rest(&mut servers);
    link.assert_at_rest();
    other.assert_at_rest();
}

#[test]
fn a_frame_that_does_not_fit_comes_back() {
    let mut link = link(&small());
    let (frame, _) = {
        send(&mut link.client[0], 1).expect("room");
        link.server[0].rx.take().expect("packet")
    };
    (0..64).for_each(|number| send(&mut link.server[0], number).expect("room"));
    let frame = link.server[0].tx.give(frame, 8).expect_err("full");
    assert_eq!(link.server[0].tx.counters().tx_full_drops.get(), 1);
    link.table.give_back(frame);
    while receive(&mut link.client[0], &link.table).is_some() {}
    link.assert_at_rest();
}

#[test]
fn a_build_of_nothing_sends_nothing() {
    let mut link = link(&small());
    for end in [&mut link.client, &mut link.server] {
        assert_eq!(end[0].tx.build(256, |_| 0), Ok(()));
        end[0].tx.flush();
        assert_eq!(end[0].tx.counters().packets.get(), 0);
    }
    assert!(!link.client[0].rx.pending() && !link.server[0].rx.pending());
    link.assert_at_rest();
}

#[test]
#[should_panic(expected = "for frames of 256")]
fn a_packet_longer_than_a_frame_is_our_mistake() {
    let _ = link(&small()).client[0].tx.build(257, |_| 1);
}

#[test]
fn masked_means_no_doorbell() {
    let mut link = link(&small());
    let line = link.server[0].irq.clone();
    send(&mut link.client[0], 1).expect("room");
    assert!(!is_ready(line.doorbell_fd(), 0));
    assert_eq!((line.interrupts(), line.suppressed()), (0, 1));
    assert!(link.server[0].rx.unmask(), "the packet was there before");
    link.server[0].rx.mask();
    assert_eq!(receive(&mut link.server[0], &link.table), Some(1));
    assert!(!link.server[0].rx.unmask());
    link.client[0].tx.flush(); // nothing new
    assert!(!is_ready(line.doorbell_fd(), 0));
    send(&mut link.client[0], 2).expect("room");
    assert!(is_ready(line.doorbell_fd(), 0));
    assert_eq!((line.interrupts(), line.suppressed()), (1, 1));
    assert_eq!(link.client[0].tx.counters().kicks.get(), 1);
}

#[test]
fn one_interrupt_per_unmask_on_an_edge() {
    let mut link = link(&small());
    for (from, to) in [(&mut link.client[0], &mut link.server[0]), (&mut link.server[0], &mut link.client[0])] {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poll, to.irq.doorbell_fd(), epoll::EventData::new_u64(1), flags).expect("add");
        let mut events = || {
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
    let line = link.server[0].irq.clone();
    assert_eq!(line.coalesce(), Coalesce { rx_usecs: 1_000_000, rx_frames: 3 });
    assert!(!link.server[0].rx.unmask());
    (0..2).for_each(|number| send(&mut link.client[0], number).expect("room"));
    assert!(!is_ready(line.doorbell_fd(), 0));
    assert_eq!((line.interrupts(), line.suppressed()), (0, 1)); // the first one started the timer
    send(&mut link.client[0], 2).expect("room");
    assert!(is_ready(line.doorbell_fd(), 0));
    assert_eq!(line.interrupts(), 1);
    assert!(!line.timer_fired(), "the interrupt overtook the timer");
}

#[test]
fn coalescing_by_time() {
    let mut link = link(&LinkConfig { rx_usecs: 2_000, rx_frames: 0, ..small() });
    let line = link.server[0].irq.clone();
    for round in 1..3 {
        assert!(!link.server[0].rx.unmask());
        (0..20).for_each(|number| send(&mut link.client[0], number).expect("room"));
        assert!(!is_ready(line.doorbell_fd(), 0));
        assert!(is_ready(line.timer_fd(), 900));
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
    let line = link.server[0].irq.clone();
    assert!(!link.server[0].rx.unmask());
    (0..2).for_each(|number| send(&mut link.client[0], number).expect("room"));
    link.server[0].rx.mask();
    while receive(&mut link.server[0], &link.table).is_some() {}
    assert!(!link.server[0].rx.unmask());
    assert!(is_ready(line.timer_fd(), 900));
    assert!(!line.timer_fired());
    assert_eq!(line.interrupts(), 1);
}

#[test]
fn new_coalescing_announces_what_waits_by_the_old() {
    let mut link = link(&LinkConfig { rx_usecs: 1_000_000, rx_frames: 0, ..small() });
    let line = link.server[0].irq.clone();
    assert!(!link.server[0].rx.unmask());
    line.set_coalesce(900_000, 0);
    assert!(!is_ready(line.doorbell_fd(), 0), "nothing waits");
    send(&mut link.client[0], 1).expect("room");
    assert!(!is_ready(line.doorbell_fd(), 0));
    line.set_coalesce(0, 1);
    assert!(is_ready(line.doorbell_fd(), 0));
    assert_eq!(line.interrupts(), 1);
}

/// A consumer that sleeps between interrupts gets every packet, whatever happens to the coalescing meanwhile. A lost
/// interrupt shows as a wait of seconds.
fn sleeping_consumer_gets_all(from: &mut QueuePair, to: &mut QueuePair, table: &FrameTable, packets: u64) {
    let line = to.irq.clone();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0u32.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                line.set_coalesce([0, 20, 50, 200][turn as usize % 4], [1, 0, 8, 3][turn as usize / 4 % 4]);
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
        epoll::add(&poll, line.doorbell_fd(), epoll::EventData::new_u64(0), flags).expect("add");
        epoll::add(&poll, line.timer_fd(), epoll::EventData::new_u64(1), flags).expect("add");
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
                let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
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

#[test]
fn queues_can_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<QueuePair>();
    is_send::<Arc<IrqLine>>();
}

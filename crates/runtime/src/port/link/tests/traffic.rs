//! Packets, losses and frames.

use super::*;

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
        assert!(link.server[queue].rx.pending() > 0 && link.client[queue].rx.pending() > 0);
        for number in 0..40 {
            assert_eq!(receive(&mut link.server[queue], &link.table), Some(number));
            assert_eq!(receive(&mut link.client[queue], &link.table), Some(number + 1000));
        }
        assert_eq!(receive(&mut link.server[queue], &link.table), None);
        assert_eq!(receive(&mut link.client[queue], &link.table), None);
        assert_eq!((link.server[queue].rx.pending(), link.client[queue].rx.pending()), (0, 0));
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
    for (to_server, frames) in [(true, 128), (false, 64)] {
        let (from, to) = if to_server { (&mut client[0], &mut server[0]) } else { (&mut server[0], &mut client[0]) };
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
fn frames_of_the_receive_home_fill_the_transmit_ring() {
    let mut link = link(&LinkConfig { frames_per_queue: 128, ..small() });
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
    // One table, so that a frame can cross from one link to the other.
    let (client, server) = create(&small(), &link.table).expect("link");
    let (mut clients, mut servers) = (client.queues, server.queues);
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
    assert_at_rest(&mut servers);
    assert_at_rest(&mut clients);
    link.assert_at_rest();
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
    assert_eq!((link.client[0].rx.pending(), link.server[0].rx.pending()), (0, 0));
    link.assert_at_rest();
}

#[test]
#[should_panic(expected = "for frames of 256")]
fn a_packet_longer_than_a_frame_is_our_mistake() {
    let _ = link(&small()).client[0].tx.build(257, |_| 1);
}

#[test]
fn queues_can_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<QueuePair>();
    is_send::<IrqLine>();
}

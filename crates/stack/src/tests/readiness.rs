//! What event contexts are told of a socket that receives.

use std::sync::Arc;

use crate::event::{AddError, Event, EventContext, Interest, Timeout, Watchable};
use crate::host::Host;
use crate::testing::{IFINDEX, NAPI, Rig, STRIDE, udp};
use crate::tests::receive::open;

fn context(rig: &Rig) -> EventContext {
    EventContext::new(rig.host.clone() as Arc<dyn Host>)
}

/// The words of the members that are reported now.
fn reported(context: &EventContext) -> Vec<u64> {
    let mut events = [Event::default(); 16];
    let count = context.wait(&mut events, Timeout::Now).unwrap();
    assert!(events[..count].iter().all(|event| event.events == Interest::IN));
    events[..count].iter().map(|event| event.data).collect()
}

#[test]
fn readiness_follows_the_queue_also_while_unread_frames_are_private() {
    let mut rig = Rig::new();
    let socket = open(&rig, "10.0.0.1:9");
    let watched = socket.watched();
    assert_eq!((watched.ready(), watched.napi_id()), (Interest::OUT, 0));
    let packet = udp("10.0.0.2:7", "10.0.0.1:9", b"x");
    rig.inject_from(NAPI, &[packet.as_slice(); 10]);
    assert_eq!((watched.ready(), watched.napi_id()), (Interest::IN | Interest::OUT, NAPI));
    for left in (0..10).rev() {
        socket.recv(&mut []).unwrap();
        assert_eq!(watched.ready() == Interest::OUT, left == 0);
    }
}

#[test]
fn a_level_triggered_member_is_reported_until_it_is_read() {
    let mut rig = Rig::new();
    let (context, socket) = (context(&rig), open(&rig, "10.0.0.1:9"));
    context.add(&socket, Interest::IN, 5).unwrap();
    assert_eq!(reported(&context), []);
    let packet = udp("10.0.0.2:7", "10.0.0.1:9", b"x");
    rig.inject_from(NAPI, &[&packet, &packet]);
    for _ in 0..2 {
        assert_eq!(reported(&context), [5]);
        socket.recv(&mut []).unwrap();
    }
    assert_eq!(reported(&context), []);
    assert_eq!(context.napi_id(), 0, "no busy polling asked for, nothing attached");
}

#[test]
fn an_edge_is_reported_for_each_arrival_after_the_last_look() {
    let mut rig = Rig::new();
    let (context, socket) = (context(&rig), open(&rig, "10.0.0.1:9"));
    context.add(&socket, Interest::IN | Interest::EDGE, 5).unwrap();
    let packet = udp("10.0.0.2:7", "10.0.0.1:9", b"x");
    rig.inject(&packet);
    assert_eq!((reported(&context), reported(&context)), (vec![5], vec![]));
    rig.inject(&packet);
    assert_eq!((reported(&context), reported(&context)), (vec![5], vec![]), "unread data does not hide an edge");
    while socket.recv(&mut []).is_ok() {}
    // Within one pass: the reader empties the queue after the first round and must hear of the ninth frame.
    let ns = rig.ns.clone();
    let view = ns.view();
    let mut pass = view.pass(NAPI, IFINDEX).unwrap();
    let mut receive = |count: usize| {
        for _ in 0..count {
            let mut frame = rig.pool.alloc().unwrap();
            rig.host.frames.data_mut(&mut frame)[..packet.len()].copy_from_slice(&packet);
            pass.receive(frame, u32::try_from(packet.len()).unwrap());
        }
    };
    receive(8);
    assert_eq!(reported(&context), [5]);
    assert_eq!(std::iter::from_fn(|| socket.recv(&mut []).ok()).count(), 8);
    receive(1);
    pass.end();
    assert_eq!(reported(&context), [5]);
    // Taken before the round ended: the report finds nothing and is not passed on.
    socket.recv(&mut []).unwrap();
    let mut pass = view.pass(NAPI, IFINDEX).unwrap();
    let mut frame = rig.pool.alloc().unwrap();
    rig.host.frames.data_mut(&mut frame)[..packet.len()].copy_from_slice(&packet);
    pass.receive(frame, u32::try_from(packet.len()).unwrap());
    socket.recv(&mut []).unwrap();
    pass.end();
    assert_eq!(reported(&context), []);
}

#[test]
fn every_socket_of_a_round_is_told_and_charged() {
    let mut rig = Rig::new();
    let context = context(&rig);
    let sockets: Vec<_> = (1..=8).map(|port| open(&rig, &format!("10.0.0.1:{port}"))).collect();
    for (i, socket) in sockets.iter().enumerate() {
        context.add(socket, Interest::IN | Interest::EDGE, i as u64).unwrap();
    }
    let packets: Vec<_> = (1..=8).rev().map(|port| udp("10.0.0.2:7", &format!("10.0.0.1:{port}"), b"x")).collect();
    rig.inject_from(NAPI, &packets.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let mut told = reported(&context);
    told.sort_unstable();
    assert_eq!(told, (0..8).collect::<Vec<u64>>());
    assert!(sockets.iter().all(|socket| socket.inner().charged_bytes() == STRIDE));
}

#[test]
fn a_closed_socket_leaves_its_contexts_and_frees_its_frames() {
    let mut rig = Rig::new();
    let (context, socket) = (context(&rig), open(&rig, "10.0.0.1:9"));
    context.add(&socket, Interest::IN, 5).unwrap();
    assert_eq!(context.add(&socket, Interest::IN, 6), Err(AddError::Exists));
    rig.inject(&udp("10.0.0.2:7", "10.0.0.1:9", b"x"));
    drop(socket);
    assert_eq!(reported(&context), []);
    rig.assert_home(0);
}

//! Busy polling and suspension: what a context asks of the engine, and when (`fs/eventpoll.c`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use napier_core::busy::{BusyLimit, BusyParams};

use crate::event::tests::fake::{Call, FIRST_ID, FakeEngine, FakeSocket, N1, N2, params, poll, poll_some};
use crate::event::{EpollParams, EpollParamsError, EpollParamsRequest, Event, EventContext, Interest, Timeout};

/// A wait that may sleep, shortly.
fn wait_shortly(context: &EventContext) -> usize {
    context.wait(&mut [Event::default(); 4], Timeout::After(Duration::from_micros(50))).unwrap()
}

fn prefer_once(budget_pkts: u16) -> BusyParams {
    BusyParams { prefer: true, budget_pkts, limit: BusyLimit::For(0) }
}

/// An engine, a context that prefers busy polling with no time of its own, and a socket of `N1` in it.
fn preferring() -> (Arc<FakeEngine>, EventContext, FakeSocket) {
    let engine = Arc::new(FakeEngine::default());
    let context = engine.context();
    context.set_params(params(0, 0, 1)).unwrap();
    let socket = FakeSocket::of(N1);
    context.add(&socket, Interest::IN, 1).unwrap();
    (engine, context, socket)
}

#[test]
fn parameters_are_checked_in_order_and_stored_on_success_only() {
    let engine = Arc::new(FakeEngine::default());
    let context = engine.context();
    assert_eq!(context.params(), EpollParams::default());
    let largest = params(i32::MAX.cast_unsigned(), u16::MAX, 1);
    context.set_params(largest).unwrap();
    let stored = context.params();
    assert_eq!((stored.busy_poll_usecs, stored.busy_poll_budget), (0x7fff_ffff, 0xffff));
    assert!(stored.prefer_busy_poll);

    engine.unprivileged.store(true, Ordering::Relaxed);
    let invalid = [EpollParamsRequest { pad: 1, ..params(0, 65, 0) }, params(1 << 31, 65, 0), params(0, 65, 2)];
    for request in invalid {
        let error = context.set_params(request).unwrap_err();
        assert!(!matches!(error, EpollParamsError::NotPermitted), "{request:?}: EINVAL comes first");
    }
    let error = context.set_params(params(0, 65, 0)).unwrap_err();
    assert!(matches!(error, EpollParamsError::NotPermitted));
    assert_eq!(context.params(), stored);
    context.set_params(params(7, 64, 1)).unwrap();
    assert_eq!(context.params().busy_poll_budget, 64);
}

#[test]
fn no_timeout_means_no_busy_loop() {
    let (engine, context, _socket) = preferring();
    assert_eq!(poll(&context), []);
    assert_eq!(context.wait(&mut [Event::default()], Timeout::After(Duration::ZERO)), Ok(0));
    assert_eq!(engine.calls(), []);
    assert_eq!(context.napi_id(), N1);
}

#[test]
fn a_fruitless_loop_resumes_and_empties_the_slot() {
    let (engine, context, socket) = preferring();
    assert_eq!(wait_shortly(&context), 0);
    assert_eq!(engine.calls(), [Call::Busy(N1, prefer_once(0)), Call::Resume(N1)]);
    assert_eq!(context.napi_id(), 0);
    assert_eq!(wait_shortly(&context), 0);
    assert_eq!(engine.calls(), [], "without an id the wait sleeps directly");

    // A delivery fills the slot again; its event is returned and suspends.
    socket.deliver(N1);
    assert_eq!(wait_shortly(&context), 1);
    assert_eq!(engine.calls(), [Call::Suspend(N1)]);
    assert!(socket.receive());
    assert_eq!(wait_shortly(&context), 0);
    assert_eq!(engine.calls(), [Call::Busy(N1, prefer_once(0)), Call::Resume(N1)]);
    assert_eq!(context.stats().busy_loops, 2);
}

#[test]
fn events_found_by_the_loop_suspend_instead_of_resuming() {
    let (engine, context, socket) = preferring();
    engine.during_busy_loop(move || socket.deliver(N1));
    assert_eq!(wait_shortly(&context), 0, "the closing socket leaves nothing behind");

    let (engine, context, socket) = preferring();
    let delivered = socket.clone();
    engine.during_busy_loop(move || delivered.deliver(N1));
    assert_eq!(wait_shortly(&context), 1);
    assert_eq!(engine.calls(), [Call::Busy(N1, prefer_once(0)), Call::Suspend(N1)]);
    assert_eq!(context.napi_id(), N1);
    assert_eq!(context.stats().sleeps, 0);
    assert!(socket.receive());
}

#[test]
fn events_that_the_resumed_poll_brings_are_returned() {
    let (engine, context, socket) = preferring();
    let delivered = socket.clone();
    engine.during_resume(move || delivered.deliver(N1));
    assert_eq!(wait_shortly(&context), 1);
    // The slot was emptied after the resume, so there is nothing to suspend.
    assert_eq!(engine.calls(), [Call::Busy(N1, prefer_once(0)), Call::Resume(N1)]);
    assert_eq!(context.napi_id(), 0);
}

#[test]
fn members_added_before_the_parameters_attach_with_their_next_event() {
    let engine = Arc::new(FakeEngine::default());
    let context = engine.context();
    let socket = FakeSocket::of(N1);
    context.add(&socket, Interest::IN, 1).unwrap();
    context.set_params(params(0, 0, 1)).unwrap();
    assert_eq!(wait_shortly(&context), 0);
    context.modify(&socket, Interest::IN, 1).unwrap();
    assert_eq!(wait_shortly(&context), 0);
    assert_eq!(engine.calls(), []);
    socket.deliver(N1);
    assert_eq!(context.napi_id(), N1);
}

#[test]
fn without_busy_polling_nothing_attaches() {
    let engine = Arc::new(FakeEngine::default());
    let context = engine.context();
    let socket = FakeSocket::of(N1);
    context.add(&socket, Interest::IN, 1).unwrap();
    socket.deliver(N1);
    assert_eq!(context.napi_id(), 0);
    assert_eq!(wait_shortly(&context), 1);
    drop(context);
    assert_eq!(engine.calls(), []);
}

#[test]
fn ids_that_are_no_ids_attach_nothing() {
    let (_engine, context, socket) = preferring();
    for id in [0, 1, FIRST_ID - 1] {
        context.add(&FakeSocket::of(id), Interest::IN, 1).unwrap();
        socket.deliver(id);
        assert_eq!(context.napi_id(), N1);
    }
}

#[test]
fn time_and_budget_come_from_the_context_or_the_engine() {
    // (usecs, budget, prefer, sysctl) and what is asked for
    let table = [
        ((100, 0, 0, 0), Some((false, 0, 100))),
        ((0, 0, 0, 100), Some((false, 0, 100))),
        ((30, 16, 0, 100), Some((false, 16, 30))),
        ((0, 64, 1, 0), Some((true, 64, 0))),
        ((0, 0, 1, 40), Some((true, 0, 40))),
        ((0, 64, 0, 0), None),
    ];
    for ((usecs, budget, prefer, sysctl), expected) in table {
        let engine = Arc::new(FakeEngine::default());
        engine.busy_poll.store(sysctl, Ordering::Relaxed);
        let context = engine.context();
        context.set_params(params(usecs, budget, prefer)).unwrap();
        let socket = FakeSocket::of(N1);
        context.add(&socket, Interest::IN, 1).unwrap();
        assert_eq!(wait_shortly(&context), 0);
        let loops = engine.calls().into_iter().find_map(|call| match call {
            Call::Busy(id, asked) => Some((id, asked)),
            _ => None,
        });
        let expected = expected
            .map(|(prefer, budget_pkts, limit)| (N1, BusyParams { prefer, budget_pkts, limit: BusyLimit::For(limit) }));
        assert_eq!(loops, expected, "usecs {usecs} budget {budget} prefer {prefer} sysctl {sysctl}");
    }
}

#[test]
fn without_prefer_nothing_is_suspended_or_resumed() {
    let engine = Arc::new(FakeEngine::default());
    let context = engine.context();
    context.set_params(params(10, 0, 0)).unwrap();
    let socket = FakeSocket::of(N1);
    context.add(&socket, Interest::IN, 1).unwrap();
    socket.deliver(N1);
    assert_eq!(wait_shortly(&context), 1);
    socket.receive();
    assert_eq!(wait_shortly(&context), 0);
    socket.deliver(N1);
    drop(context);
    let asked = BusyParams { prefer: false, budget_pkts: 0, limit: BusyLimit::For(10) };
    assert_eq!(engine.calls(), [Call::Busy(N1, asked)]);
}

#[test]
fn events_beyond_the_room_come_without_polling_and_suspend_again() {
    let (engine, context, first) = preferring();
    let second = FakeSocket::of(N1);
    context.add(&second, Interest::IN, 2).unwrap();
    first.deliver(N1);
    second.deliver(N1);
    let mut one = [Event::default()];
    for expected in [1, 2] {
        assert_eq!(context.wait(&mut one, Timeout::Never), Ok(1));
        assert_eq!(one[0].data, expected);
        assert_eq!(engine.calls(), [Call::Suspend(N1)]);
    }
}

#[test]
fn the_last_event_decides_which_instance_is_polled() {
    let (engine, context, first) = preferring();
    let second = FakeSocket::of(N2);
    context.add(&second, Interest::IN, 2).unwrap();
    assert_eq!(context.napi_id(), N2, "adding attaches");
    first.deliver(N1);
    second.deliver(N2);
    assert_eq!(poll(&context), [1, 2]);
    assert_eq!(engine.calls(), [Call::Suspend(N2)]);
    assert!(first.receive() && second.receive());
    assert_eq!(wait_shortly(&context), 0);
    // N1 stays suspended until its own timer ends it.
    assert_eq!(engine.calls(), [Call::Busy(N2, prefer_once(0)), Call::Resume(N2)]);
}

#[test]
fn empty_waits_without_a_timeout_leave_a_suspension_alone() {
    let (engine, context, socket) = preferring();
    socket.deliver(N1);
    assert_eq!(poll(&context), [1]);
    assert_eq!(engine.calls(), [Call::Suspend(N1)]);
    socket.receive();
    for _ in 0..20 {
        assert_eq!(poll_some(&context, 1), []);
    }
    assert_eq!(engine.calls(), []);
    assert_eq!(context.napi_id(), N1);
}

#[test]
fn the_last_handle_resumes() {
    let (engine, context, socket) = preferring();
    socket.deliver(N1);
    assert_eq!(poll(&context), [1]);
    let duplicate = context.clone();
    drop(context);
    assert_eq!(engine.calls(), [Call::Suspend(N1)]);
    drop(duplicate);
    assert_eq!(engine.calls(), [Call::Resume(N1)]);
    // Late deliveries reach nobody.
    socket.deliver(N1);
    assert_eq!(engine.calls(), []);
}

#[test]
fn a_context_that_no_longer_prefers_resumes_nothing() {
    let (engine, context, socket) = preferring();
    socket.deliver(N1);
    assert_eq!(poll(&context), [1]);
    engine.calls();
    context.set_params(params(0, 0, 0)).unwrap();
    socket.receive();
    assert_eq!(wait_shortly(&context), 0);
    drop(context);
    assert_eq!(engine.calls(), []);
}

#[test]
fn an_empty_slot_resumes_nothing_at_the_end() {
    let (engine, context, _socket) = preferring();
    assert_eq!(wait_shortly(&context), 0);
    engine.calls();
    drop(context);
    assert_eq!(engine.calls(), []);
}

#[test]
fn filtered_and_silent_members_still_attach() {
    // `ep_poll_callback` attaches before it filters.
    let (_engine, context, socket) = preferring();
    let one_shot = FakeSocket::of(N1);
    context.add(&one_shot, Interest::IN | Interest::ONESHOT, 2).unwrap();
    one_shot.deliver(N1);
    assert_eq!(poll(&context), [2]);
    one_shot.deliver(N2);
    assert_eq!(context.napi_id(), N2);
    context.modify(&socket, Interest::OUT, 1).unwrap();
    socket.deliver(N1);
    assert_eq!(context.napi_id(), N1);
    assert_eq!(poll(&context), []);
}

//! Adding, modifying, deleting, closing.

use std::io;
use std::sync::Arc;

use crate::event::source::sealed::Watchable;
use crate::event::tests::fake::{FakeEngine, FakeSocket, N1, poll};
use crate::event::{AddError, DeleteError, Event, EventContext, Interest, ModifyError, Timeout, UserEvent, WaitError};
use crate::host::Host;

fn context() -> EventContext {
    Arc::new(FakeEngine::default()).context()
}

fn errno(error: impl Into<io::Error>) -> i32 {
    error.into().raw_os_error().unwrap()
}

#[test]
fn membership_is_checked() {
    let context = context();
    let (socket, other) = (FakeSocket::new(), FakeSocket::new());
    context.add(&socket, Interest::IN, 1).unwrap();
    assert_eq!(context.add(&socket, Interest::IN, 1), Err(AddError::Exists));
    assert_eq!(context.modify(&other, Interest::IN, 1), Err(ModifyError::NotMember));
    assert_eq!(context.delete(&other), Err(DeleteError::NotMember));
    context.delete(&socket).unwrap();
    assert_eq!(context.delete(&socket), Err(DeleteError::NotMember));
    context.add(&socket, Interest::IN, 1).unwrap();
}

#[test]
fn unsupported_bits_are_refused() {
    let context = context();
    let socket = FakeSocket::new();
    let exclusive = Interest::from_bits(1 << 28);
    let refused = context.add(&socket, Interest::IN | exclusive, 1);
    assert_eq!(refused, Err(AddError::Unsupported(exclusive)));
    context.add(&socket, Interest::IN, 1).unwrap();
    let refused = context.modify(&socket, exclusive, 1);
    assert_eq!(refused, Err(ModifyError::Unsupported(exclusive)));
}

#[test]
fn errors_have_the_numbers_of_epoll() {
    assert_eq!(errno(AddError::Exists), libc::EEXIST);
    assert_eq!(errno(AddError::Unsupported(Interest::NONE)), libc::EINVAL);
    assert_eq!(errno(AddError::Full { members_max: 1 }), libc::ENOSPC);
    assert_eq!(errno(AddError::Closed), libc::EBADF);
    assert_eq!(errno(ModifyError::NotMember), libc::ENOENT);
    assert_eq!(errno(ModifyError::Unsupported(Interest::NONE)), libc::EINVAL);
    assert_eq!(errno(DeleteError::NotMember), libc::ENOENT);
    assert_eq!(errno(WaitError::NoRoom), libc::EINVAL);
}

#[test]
fn no_room_for_events_is_an_error() {
    assert_eq!(context().wait(&mut [], Timeout::Never), Err(WaitError::NoRoom));
}

#[test]
fn capacity_is_a_bound_and_slots_are_used_again() {
    let context = EventContext::with_members_max(Arc::new(FakeEngine::default()) as Arc<dyn Host>, 2);
    let sockets = [FakeSocket::new(), FakeSocket::new(), FakeSocket::new()];
    context.add(&sockets[0], Interest::IN, 0).unwrap();
    context.add(&sockets[1], Interest::IN, 1).unwrap();
    let full = AddError::Full { members_max: 2 };
    assert_eq!(context.add(&sockets[2], Interest::IN, 2), Err(full));
    for _ in 0..3 {
        context.delete(&sockets[0]).unwrap();
        context.add(&sockets[2], Interest::IN, 2).unwrap();
        context.delete(&sockets[2]).unwrap();
        context.add(&sockets[0], Interest::IN, 0).unwrap();
    }
}

#[test]
fn a_socket_that_is_ready_is_reported_at_once() {
    for mode in [Interest::NONE, Interest::EDGE, Interest::ONESHOT] {
        let context = context();
        let socket = FakeSocket::new();
        socket.deliver(N1);
        context.add(&socket, Interest::IN | mode, 3).unwrap();
        assert_eq!(poll(&context), [3]);
    }
}

#[test]
fn deleted_members_are_not_reported() {
    let context = context();
    let (gone, next) = (FakeSocket::new(), FakeSocket::new());
    context.add(&gone, Interest::IN, 1).unwrap();
    gone.deliver(N1);
    context.delete(&gone).unwrap();
    assert_eq!(poll(&context), []);

    // The slot is still queued when another member takes it: that one is looked at, in vain.
    context.add(&gone, Interest::IN, 1).unwrap();
    context.delete(&gone).unwrap();
    context.add(&next, Interest::IN | Interest::EDGE, 2).unwrap();
    assert_eq!(poll(&context), []);
    next.deliver(N1);
    assert_eq!(poll(&context), [2]);
    assert_eq!(poll(&context), []);
}

#[test]
fn one_socket_reports_to_all_its_contexts() {
    let contexts = [context(), context(), context()];
    let socket = FakeSocket::new();
    for (data, context) in (0..).zip(&contexts) {
        context.add(&socket, Interest::IN | Interest::EDGE, data).unwrap();
    }
    socket.deliver(N1);
    contexts[1].delete(&socket).unwrap();
    socket.deliver(N1);
    assert_eq!(poll(&contexts[0]), [0]);
    assert_eq!(poll(&contexts[1]), []);
    assert_eq!(poll(&contexts[2]), [2]);
}

#[test]
fn a_socket_leaves_with_its_last_handle_and_is_freed() {
    let context = context();
    let socket = FakeSocket::new();
    let shared = Arc::downgrade(socket.shared());
    context.add(&socket, Interest::IN, 1).unwrap();
    let duplicate = socket.clone();
    socket.deliver(N1);
    drop(socket);
    assert_eq!(poll(&context), [1]);
    drop(duplicate);
    assert_eq!(poll(&context), []);
    assert!(shared.upgrade().is_none(), "nothing keeps a closed socket alive");
}

#[test]
fn a_context_leaves_its_sockets_alone_and_is_freed() {
    let context = context();
    let state = Arc::downgrade(context.state());
    let socket = FakeSocket::new();
    context.add(&socket, Interest::IN, 1).unwrap();
    drop(context);
    assert!(state.upgrade().is_none(), "nothing keeps a closed context alive");
    socket.deliver(N1);
}

#[test]
fn closed_sockets_are_refused() {
    let context = context();
    let socket = FakeSocket::new();
    socket.watched().source().close();
    assert_eq!(context.add(&socket, Interest::IN, 1), Err(AddError::Closed));
    assert_eq!(context.delete(&socket), Err(DeleteError::NotMember));
}

#[test]
fn user_events_are_members_like_others() {
    let context = context();
    let (stop, tick) = (UserEvent::new(), UserEvent::new());
    context.add(&stop, Interest::IN, 1).unwrap();
    context.add(&tick, Interest::IN | Interest::EDGE, 2).unwrap();
    assert_eq!(poll(&context), []);
    stop.trigger();
    tick.trigger();
    assert_eq!(poll(&context), [1, 2]);
    assert_eq!(poll(&context), [1]);
    tick.trigger();
    assert!(stop.clear());
    assert!(!stop.clear());
    assert_eq!(poll(&context), [2]);
    drop(tick);
    drop(stop);
    assert_eq!(poll(&context), []);
}

#[test]
fn interests_print_their_names() {
    let interest = Interest::IN | Interest::ET | Interest::from_bits(1 << 28);
    assert_eq!(format!("{interest:?}"), "Interest(IN|EDGE|0x10000000)");
    assert_eq!(format!("{:?}", Event::default().events), "Interest()");
}

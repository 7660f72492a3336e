//! A receive that blocks: `recv`.

use napier_core::control::Errno;
use napier_core::time::{Deadline, Span};

use crate::machine::kernel::busy::busy_loop;
use crate::machine::vm::K;
use napier_scenario::{Answer, Event, SocketKind, ThreadIx};

pub(crate) async fn recv(k: &K, socket: usize, nonblock: bool, timeout: Option<Span>, me: ThreadIx) -> Answer {
    // Only sleeping counts against the time-out, not busy polling. Source: `net/core/datagram.c
    // __skb_wait_for_more_packets`.
    let mut left = timeout;
    if !k.w().socks[socket].open {
        return Answer::Error(Errno::EBADF);
    }
    let stream = k.w().socks[socket].kind == SocketKind::Tcp;
    let mut may_poll = true;
    loop {
        let before = {
            let mut w = k.w();
            if w.take_packet(socket) {
                return Answer::Number(1);
            }
            w.socks[socket].arrivals
        };
        let (params, id) = {
            let w = k.w();
            (w.socks[socket].busy.busy_params(nonblock, w.ids.first()), w.socks[socket].busy.napi_id)
        };
        if let Some(params) = params.filter(|_| may_poll) {
            busy_loop(k, id, params, false, move |w| !w.socks[socket].queue.is_empty()).await;
            // A stream polls at most once per call; datagrams as long as the queue changes.
            may_poll = !stream;
            if k.w().socks[socket].arrivals != before {
                continue;
            }
        }
        if nonblock || left.is_some_and(Span::is_zero) {
            return Answer::Error(Errno::EAGAIN);
        }
        let slept_from = k.w().now;
        let until = left.map_or(Deadline::NEVER, |span| Deadline::after(slept_from, span));
        {
            let mut w = k.w();
            if !w.socks[socket].queue.is_empty() {
                continue;
            }
            w.note(Event::Sleep { thread: me });
            w.socks[socket].waiters.push(k.me);
        }
        k.block(until).await;
        let mut w = k.w();
        w.socks[socket].waiters.retain(|ctx| *ctx != k.me);
        if w.socks[socket].queue.is_empty() && until.is_due(w.now) {
            return Answer::Error(Errno::EAGAIN);
        }
        left = left.map(|span| Span::from_ns(span.ns.saturating_sub(w.now.ns - slept_from.ns)));
    }
}

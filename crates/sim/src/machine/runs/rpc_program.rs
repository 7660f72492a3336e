//! The programs at both ends of round trips.

use napier_core::time::{Deadline, Span};

use crate::machine::cpu::work::Work;
use crate::machine::kernel::busy::busy_loop;
use crate::machine::kernel::recv::recv;
use crate::machine::kernel::schedule::napi_schedule;
use crate::machine::peers::rpc::{CLIENT, SERVER};
use crate::machine::vm::K;
use napier_scenario::ThreadIx;

/// Who polls for a program with an `AF_XDP` socket.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum RpcPoller {
    /// The program, by `recvfrom` whenever its ring is empty.
    RpcProgram,
    /// A thread of it on a CPU of its own, by `recvfrom` again and again.
    Thread,
    /// The kernel; the program looks at its ring.
    Kernel,
}

/// How often a program that computes looks at the clock.
pub(crate) const GLANCE: Span = Span::from_ns(250);

/// `sendto` on a socket whose ring has a frame: the poller of the queue sends it; without one, the instance is scheduled here.
async fn kick(k: &K, napi: usize) {
    k.w().queue_frame(napi);
    k.work(Work::Syscall).await;
    k.bh_off();
    napi_schedule(k, napi).await;
    k.bh_on().await;
}

/// Sleeps until the traffic begins.
async fn until_begin(k: &K) {
    while k.w().rpc.is_none() {
        k.block(Deadline::NEVER).await;
    }
}

/// `recvfrom` on an `AF_XDP` socket: polls its instance once, and returns. Source: `net/xdp/xsk.c __xsk_recvmsg`.
async fn xsk_recv(k: &K, socket: usize) {
    k.work(Work::Syscall).await;
    let (params, id) = {
        let w = k.w();
        let busy = &w.socks[socket].busy;
        (busy.busy_params(true, w.ids.first()), busy.napi_id)
    };
    if let Some(params) = params {
        busy_loop(k, id, params, false, move |w| !w.socks[socket].queue.is_empty()).await;
    }
}

/// The program of one end: it takes packets out of its ring; the server sends them back, the client computes.
pub(crate) async fn ring_main(k: K, end: usize, poller: RpcPoller) {
    until_begin(&k).await;
    loop {
        if k.w().take_packet(end) {
            k.work(Work::Request).await;
            if end == SERVER {
                kick(&k, end).await;
            } else {
                k.w().trip_ends();
                k.work(Work::Recycle).await;
                compute(&k).await;
            }
        } else if poller == RpcPoller::RpcProgram {
            xsk_recv(&k, end).await;
        } else {
            k.spin_pause().await;
        }
    }
}

/// What the program does with an answer: it takes a time by the clock.
async fn compute(k: &K) {
    let end = {
        let mut w = k.w();
        w.now + w.rpc().of.delay
    };
    loop {
        let left = end.ns.saturating_sub(k.w().now.ns);
        if left == 0 {
            return;
        }
        k.spend(Span::from_ns(left).min(GLANCE)).await;
    }
}

/// A thread that does nothing but to call `recvfrom`.
pub(crate) async fn poll_main(k: K, end: usize) {
    until_begin(&k).await;
    loop {
        xsk_recv(&k, end).await;
    }
}

/// A thread that sends at a fixed rate, whatever comes back.
pub(crate) async fn send_main(k: K) {
    until_begin(&k).await;
    let (mut due, period) = {
        let mut w = k.w();
        (w.now, w.rpc().of.period())
    };
    loop {
        let Some(period) = period else {
            k.block(Deadline::NEVER).await;
            continue;
        };
        due += period;
        let left = due.ns.saturating_sub(k.w().now.ns);
        k.spend(Span::from_ns(left)).await;
        k.w().trip_begins();
        kick(&k, CLIENT).await;
    }
}

/// One end of a stream with one byte back and forth.
pub(crate) async fn stream_main(k: K, end: usize, thread: usize) {
    until_begin(&k).await;
    let me = ThreadIx(thread as u16);
    if end == CLIENT {
        k.w().trip_begins();
        answer(&k, end).await;
    }
    loop {
        k.work(Work::Syscall).await;
        recv(&k, end, false, None, me).await;
        if end == CLIENT {
            let mut w = k.w();
            w.trip_ends();
            w.trip_begins();
        }
        k.work(Work::Request).await;
        answer(&k, end).await;
    }
}

async fn answer(k: &K, end: usize) {
    k.work(Work::Answer).await;
    k.w().launch(end, 1);
}

//! Event contexts and `poll`: `ep_poll`, `ep_busy_loop`, `do_poll`.

use napier_core::busy::BusyLimit;
use napier_core::event::{
    EpollAfter, EpollWait, WaitStep, after_busy_loop, ep_busy_loop, resume_on_close, suspend_on_events,
};
use napier_core::select::{PollScan, ScanEnd, ScanStep, Scanned};
use napier_core::time::Span;

use crate::machine::kernel::busy::{busy_loop, resume_irqs, suspend_irqs};
use crate::machine::sim::coverage::Decision;
use crate::machine::vm::K;
use napier_scenario::{Event, SocketIx, ThreadIx};

/// `epoll_wait`: the sockets that are ready.
pub(crate) async fn epoll_wait(k: &K, ep: usize, timeout: Option<Span>, max: usize, me: ThreadIx) -> Vec<SocketIx> {
    let mut wait = {
        let mut w = k.w();
        let (now, ready) = (w.now, w.epoll_available(ep));
        EpollWait::new(now, timeout, ready)
    };
    loop {
        match wait.next() {
            WaitStep::Transfer => {
                let found = k.w().epoll_transfer(ep, max);
                k.op().await;
                if !found.is_empty() {
                    k.w().hit(Decision::WaitEvents);
                    suspend_after_events(k, ep).await;
                    return found;
                }
                wait.on_transferred(0);
            }
            WaitStep::Return0 => {
                k.w().hit(Decision::WaitTimedOut);
                return Vec::new();
            }
            WaitStep::BusyLoop => {
                epoll_busy_loop(k, ep).await;
                let ready = k.w().epoll_available(ep);
                wait.on_busy(ready);
            }
            WaitStep::Sleep { until } => {
                let ready = k.w().epoll_available(ep);
                if !ready {
                    let mut w = k.w();
                    w.hit(Decision::WaitSleeps);
                    w.note(Event::Sleep { thread: me });
                    w.epolls[ep].waiters.push(k.me);
                }
                if !ready {
                    k.block(until).await;
                }
                let mut w = k.w();
                w.epolls[ep].waiters.retain(|ctx| *ctx != k.me);
                let ready = w.epoll_available(ep);
                if ready || until.is_due(w.now) {
                    wait.on_woken(ready);
                }
            }
        }
    }
}

async fn suspend_after_events(k: &K, ep: usize) {
    let id = {
        let w = k.w();
        suspend_on_events(w.epolls[ep].slot, &w.epolls[ep].params, w.ids.first())
    };
    if let Some(id) = id {
        suspend_irqs(k, id).await;
    }
}

/// `ep_busy_loop`.
async fn epoll_busy_loop(k: &K, ep: usize) {
    let (slot, params, busy) = {
        let w = k.w();
        let e = &w.epolls[ep];
        (e.slot, e.params, ep_busy_loop(e.slot, &e.params, w.sysctl.busy_poll, w.ids.first()))
    };
    let Some(busy) = busy else { return };
    busy_loop(k, slot, busy, false, move |w| !w.epolls[ep].ready.is_empty()).await;
    let after = {
        let mut w = k.w();
        let ready = w.epoll_available(ep);
        after_busy_loop(slot, &params, ready)
    };
    match after {
        EpollAfter::Events => {
            k.w().hit(Decision::BusyFoundEvents);
            return;
        }
        EpollAfter::Resume { napi_id } => resume_irqs(k, napi_id).await,
        EpollAfter::Nothing => k.w().hit(Decision::BusyFoundNothing),
    }
    k.w().epolls[ep].slot = 0;
}

/// The last reference goes.
pub(crate) async fn epoll_close(k: &K, ep: usize) {
    let resume = {
        let mut w = k.w();
        let first = w.ids.first();
        w.leave_members(ep);
        let e = &mut w.epolls[ep];
        e.open = false;
        e.ready.clear();
        resume_on_close(std::mem::take(&mut e.slot), &e.params, first)
    };
    if let Some(id) = resume {
        resume_irqs(k, id).await;
    }
}

/// `poll` and `select`: how many sockets are ready.
pub(crate) async fn poll_sockets(k: &K, sockets: &[SocketIx], timeout: Option<Span>, me: ThreadIx) -> i64 {
    let mut scan = {
        let w = k.w();
        PollScan::new(w.now, timeout, w.sysctl.busy_poll)
    };
    loop {
        match scan.next() {
            ScanStep::Scan { busy } => {
                let mut may_busy_poll = false;
                // A scan takes time even if no socket polls.
                k.spin_pause().await;
                for socket in sockets {
                    may_busy_poll |= busy && scan_socket(k, socket.at()).await;
                }
                let w = k.w();
                let ready = w.ready_sockets(sockets) > 0;
                let need_resched = w.cpus[k.cpu()].need_resched;
                scan.on_scanned(w.now, Scanned { ready, may_busy_poll, need_resched, signal: false });
            }
            ScanStep::Sleep { until } => {
                let ready = k.w().ready_sockets(sockets) > 0;
                if !ready {
                    let mut w = k.w();
                    w.note(Event::Sleep { thread: me });
                    for socket in sockets {
                        w.socks[socket.at()].waiters.push(k.me);
                    }
                }
                if !ready {
                    k.block(until).await;
                }
                let mut w = k.w();
                for socket in sockets {
                    w.socks[socket.at()].waiters.retain(|ctx| *ctx != k.me);
                }
                let ready = w.ready_sockets(sockets) > 0;
                let timed_out = !ready && until.is_due(w.now);
                scan.on_woken(timed_out);
            }
            ScanStep::Return(ScanEnd::Ready) => return k.w().ready_sockets(sockets),
            ScanStep::Return(ScanEnd::TimedOut | ScanEnd::Signal) => return 0,
        }
    }
}

/// `sock_poll`: one iteration, if the socket may busy poll; true if it may.
async fn scan_socket(k: &K, socket: usize) -> bool {
    let (may, params, id) = {
        let w = k.w();
        let sock = &w.socks[socket];
        let params = sock.busy.busy_params(true, w.ids.first());
        (sock.busy.busy_poll_usecs != 0, params, sock.busy.napi_id)
    };
    if let Some(params) = params {
        debug_assert!(params.limit == BusyLimit::Once, "a scan makes one iteration");
        busy_loop(k, id, params, false, |_| true).await;
    }
    may
}

//! Event contexts and `poll`: `ep_poll`, `ep_busy_loop`, `do_poll`.

use napier_core::busy::BusyLimit;
use napier_core::event::{
    EpollAfter, EpollWait, WaitStep, after_busy_loop, ep_busy_loop, resume_on_close, suspend_on_events,
};
use napier_core::select::{PollScan, ScanEnd, ScanStep, Scanned};
use napier_core::time::Span;

use super::coverage::Decision;
use super::vm::K;
use super::world::World;
use napier_scenario::{Event, SocketIx, ThreadIx};

impl K {
    /// `epoll_wait`: the sockets that are ready.
    pub(super) async fn epoll_wait(&self, ep: usize, timeout: Option<Span>, max: usize, me: ThreadIx) -> Vec<SocketIx> {
        let mut wait = {
            let mut w = self.w();
            let (now, ready) = (w.now, w.epoll_available(ep));
            EpollWait::new(now, timeout, ready)
        };
        loop {
            match wait.next() {
                WaitStep::Transfer => {
                    let found = self.w().epoll_transfer(ep, max);
                    self.op().await;
                    if !found.is_empty() {
                        self.w().hit(Decision::WaitEvents);
                        self.suspend_after_events(ep).await;
                        return found;
                    }
                    wait.on_transferred(0);
                }
                WaitStep::Return0 => {
                    self.w().hit(Decision::WaitTimedOut);
                    return Vec::new();
                }
                WaitStep::BusyLoop => {
                    self.epoll_busy_loop(ep).await;
                    let ready = self.w().epoll_available(ep);
                    wait.on_busy(ready);
                }
                WaitStep::Sleep { until } => {
                    let ready = self.w().epoll_available(ep);
                    if !ready {
                        let mut w = self.w();
                        w.hit(Decision::WaitSleeps);
                        w.note(Event::Sleep { thread: me });
                        w.epolls[ep].waiters.push(self.me);
                    }
                    if !ready {
                        self.block(until).await;
                    }
                    let mut w = self.w();
                    w.epolls[ep].waiters.retain(|ctx| *ctx != self.me);
                    let ready = w.epoll_available(ep);
                    if ready || until.is_due(w.now) {
                        wait.on_woken(ready);
                    }
                }
            }
        }
    }

    async fn suspend_after_events(&self, ep: usize) {
        let id = {
            let w = self.w();
            suspend_on_events(w.epolls[ep].slot, &w.epolls[ep].params, w.ids.first())
        };
        if let Some(id) = id {
            self.suspend_irqs(id).await;
        }
    }

    /// `ep_busy_loop`.
    async fn epoll_busy_loop(&self, ep: usize) {
        let (slot, params, busy) = {
            let w = self.w();
            let e = &w.epolls[ep];
            (e.slot, e.params, ep_busy_loop(e.slot, &e.params, w.sysctl.busy_poll, w.ids.first()))
        };
        let Some(busy) = busy else { return };
        self.busy_loop(slot, busy, false, move |w| !w.epolls[ep].ready.is_empty()).await;
        let after = {
            let mut w = self.w();
            let ready = w.epoll_available(ep);
            after_busy_loop(slot, &params, ready)
        };
        match after {
            EpollAfter::Events => {
                self.w().hit(Decision::BusyFoundEvents);
                return;
            }
            EpollAfter::Resume { napi_id } => self.resume_irqs(napi_id).await,
            EpollAfter::Nothing => self.w().hit(Decision::BusyFoundNothing),
        }
        self.w().epolls[ep].slot = 0;
    }

    /// The last reference goes.
    pub(super) async fn epoll_close(&self, ep: usize) {
        let resume = {
            let mut w = self.w();
            let first = w.ids.first();
            w.leave_members(ep);
            let e = &mut w.epolls[ep];
            e.open = false;
            e.ready.clear();
            resume_on_close(std::mem::take(&mut e.slot), &e.params, first)
        };
        if let Some(id) = resume {
            self.resume_irqs(id).await;
        }
    }

    /// `poll` and `select`: how many sockets are ready.
    pub(super) async fn poll_sockets(&self, sockets: &[SocketIx], timeout: Option<Span>, me: ThreadIx) -> i64 {
        let mut scan = {
            let w = self.w();
            PollScan::new(w.now, timeout, w.sysctl.busy_poll)
        };
        loop {
            match scan.next() {
                ScanStep::Scan { busy } => {
                    let mut may_busy_poll = false;
                    // A scan takes time even if no socket polls.
                    self.spin_pause().await;
                    for socket in sockets {
                        may_busy_poll |= busy && self.scan_socket(socket.at()).await;
                    }
                    let w = self.w();
                    let ready = w.ready_sockets(sockets) > 0;
                    let need_resched = w.cpus[self.cpu()].need_resched;
                    scan.on_scanned(w.now, Scanned { ready, may_busy_poll, need_resched, signal: false });
                }
                ScanStep::Sleep { until } => {
                    let ready = self.w().ready_sockets(sockets) > 0;
                    if !ready {
                        let mut w = self.w();
                        w.note(Event::Sleep { thread: me });
                        for socket in sockets {
                            w.socks[socket.at()].waiters.push(self.me);
                        }
                    }
                    if !ready {
                        self.block(until).await;
                    }
                    let mut w = self.w();
                    for socket in sockets {
                        w.socks[socket.at()].waiters.retain(|ctx| *ctx != self.me);
                    }
                    let ready = w.ready_sockets(sockets) > 0;
                    let timed_out = !ready && until.is_due(w.now);
                    scan.on_woken(timed_out);
                }
                ScanStep::Return(ScanEnd::Ready) => return self.w().ready_sockets(sockets),
                ScanStep::Return(ScanEnd::TimedOut | ScanEnd::Signal) => return 0,
            }
        }
    }

    /// `sock_poll`: one iteration, if the socket may busy poll; true if it may.
    async fn scan_socket(&self, socket: usize) -> bool {
        let (may, params, id) = {
            let w = self.w();
            let sock = &w.socks[socket];
            let params = sock.busy.busy_params(true, w.ids.first());
            (sock.busy.busy_poll_usecs != 0, params, sock.busy.napi_id)
        };
        if let Some(params) = params {
            debug_assert!(params.limit == BusyLimit::Once, "a scan makes one iteration");
            self.busy_loop(id, params, false, |_| true).await;
        }
        may
    }
}

impl World {
    /// Something is on the ready list.
    pub(super) fn epoll_available(&mut self, ep: usize) -> bool {
        !self.epolls[ep].ready.is_empty()
    }

    /// `ep_send_events`: level-triggered members go back to the end of the list.
    fn epoll_transfer(&mut self, ep: usize, max: usize) -> Vec<SocketIx> {
        let mut found = Vec::new();
        for _ in 0..self.epolls[ep].ready.len() {
            if found.len() == max {
                break;
            }
            let Some(socket) = self.epolls[ep].ready.pop_front() else { break };
            if !self.socks[socket.at()].queue.is_empty() {
                found.push(socket);
            }
        }
        self.epolls[ep].ready.extend(&found);
        found
    }

    fn ready_sockets(&self, sockets: &[SocketIx]) -> i64 {
        sockets.iter().filter(|socket| !self.socks[socket.at()].queue.is_empty()).count() as i64
    }
}

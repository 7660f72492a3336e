//! Event contexts: what is ready, and who is woken.

use napier_core::event::attach;

use crate::machine::net::Network;
use napier_scenario::SocketIx;

impl Network {
    /// Something is on the ready list.
    pub(crate) fn epoll_available(&mut self, ep: usize) -> bool {
        !self.epolls[ep].ready.is_empty()
    }

    /// `ep_send_events`: level-triggered members go back to the end of the list.
    pub(crate) fn epoll_transfer(&mut self, ep: usize, max: usize) -> Vec<SocketIx> {
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

    pub(crate) fn ready_sockets(&self, sockets: &[SocketIx]) -> i64 {
        sockets.iter().filter(|socket| !self.socks[socket.at()].queue.is_empty()).count() as i64
    }

    /// `ep_poll_callback`.
    pub(crate) fn epoll_callback(&mut self, ep: usize, socket: usize) {
        self.epoll_attach(ep, socket);
        let index = SocketIx(socket as u16);
        if !self.epolls[ep].ready.contains(&index) {
            self.epolls[ep].ready.push_back(index);
        }
        if !self.epolls[ep].waiters.is_empty() {
            let ctx = self.epolls[ep].waiters.remove(0);
            self.wake(ctx);
        }
    }

    /// `ep_set_busy_poll_napi_id`.
    pub(crate) fn epoll_attach(&mut self, ep: usize, socket: usize) {
        let (id, first) = (self.socks[socket].busy.napi_id, self.ids.first());
        let ep = &mut self.epolls[ep];
        ep.slot = attach(ep.slot, &ep.params, self.sysctl.busy_poll, id, first);
    }

    /// An event context closes: its members have one watcher less.
    pub(crate) fn leave_members(&mut self, ep: usize) {
        for member in std::mem::take(&mut self.epolls[ep].members) {
            self.socks[member.at()].watchers.retain(|watcher| usize::from(*watcher) != ep);
        }
    }
}

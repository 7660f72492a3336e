//! Application threads: they make the calls of the timeline, one after the other.

use napier_core::control::Errno;
use napier_core::event::EpollParamsRequest;
use napier_core::sockopt::{BusyOption, SocketBusy, option_value};
use napier_core::time::{Deadline, Span};

use super::vm::K;
use super::work::Work;
use super::world::World;
use napier_scenario::{Answer, Call, Callable, EpollIx, Event, SocketIx, SocketKind, ThreadIx};

/// `EPIOCSPARAMS` and `EPIOCGPARAMS`. Source: `include/uapi/linux/eventpoll.h`.
const EPOLL_IOCTLS: [u32; 2] = [0x4008_8A01, 0x8008_8A02];

impl K {
    /// The thread's code.
    pub(super) async fn app_main(self, thread: usize) {
        let me = ThreadIx(thread as u16);
        loop {
            let call = {
                let mut w = self.w();
                let call = w.inboxes[thread].calls.pop_front();
                w.inboxes[thread].busy = call.is_some();
                call
            };
            let Some(call) = call else {
                self.block(Deadline::NEVER).await;
                continue;
            };
            self.work(Work::Syscall).await;
            let name = call.name();
            let (answer, ready) = self.make_call(call, thread).await;
            self.w().note(Event::Return { thread: me, call: name, answer, ready });
        }
    }

    async fn make_call(&self, call: Call, thread: usize) -> (Answer, Vec<SocketIx>) {
        let me = ThreadIx(thread as u16);
        let capable = self.w().inboxes[thread].cap_net_admin;
        let answer = match call {
            Call::Recv { socket, nonblock, timeout } => self.recv(socket.at(), nonblock, timeout, me).await,
            Call::Poll { sockets, timeout } => Answer::Number(self.poll_sockets(&sockets, timeout, me).await),
            Call::BusyLoop { napi, usecs, prefer, budget, rcu } => {
                let limit = usecs.map_or(napier_core::busy::BusyLimit::Once, napier_core::busy::BusyLimit::For);
                let params = napier_core::busy::BusyParams { prefer, budget_pkts: budget, limit };
                let id = self.w().napis[napi.at()].id;
                self.busy_loop(id, params, rcu, |_| false).await;
                Answer::Number(0)
            }
            Call::EpollWait { epoll, timeout, max_events } => {
                if !self.w().epolls[epoll.at()].open {
                    return (Answer::Error(Errno::EBADF), Vec::new());
                }
                let Some(max) = usize::try_from(max_events).ok().filter(|max| (1..=EVENTS_MAX).contains(max)) else {
                    return (Answer::Error(Errno::EINVAL), Vec::new());
                };
                let ready = self.epoll_wait(epoll.at(), timeout, max, me).await;
                return (Answer::Number(ready.len() as i64), ready);
            }
            Call::EpollClose { epoll } => {
                self.epoll_close(epoll.at()).await;
                Answer::Number(0)
            }
            Call::NapiSet { napi, attributes } => self.napi_set(napi, &attributes, capable).await.into(),
            Call::Write { device, file, value } => self.write_file(device.at(), file, &value, capable).await.into(),
            Call::Up { device } => {
                self.lock(device.at()).await;
                let result = self.dev_up(device.at()).await;
                self.unlock(device.at());
                result.into()
            }
            Call::Down { device } => {
                self.lock(device.at()).await;
                let result = self.dev_down(device.at()).await;
                self.unlock(device.at());
                result.into()
            }
            Call::SetQueues { device, queues } => {
                self.lock(device.at()).await;
                let result = self.set_queues(device.at(), queues).await;
                self.unlock(device.at());
                result.into()
            }
            Call::Delete { napi } => self.delete(napi.at()).await.into(),
            Call::Group(call) => self.group_call(&call, capable).await.into(),
            Call::Send(sending) => self.send(&sending, me).await,
            Call::Activate { device } => {
                self.lock(device.at()).await;
                let result = self.tx_activate(device.at()).await;
                self.unlock(device.at());
                result.into()
            }
            Call::Deactivate { device } => {
                self.lock(device.at()).await;
                self.tx_deactivate(device.at()).await;
                self.unlock(device.at());
                Answer::Number(0)
            }
            call => self.w().quick_call(call, capable),
        };
        (answer, Vec::new())
    }

    async fn delete(&self, napi: usize) -> Result<(), Errno> {
        let dev = self.w().napis[napi].dev;
        self.lock(dev).await;
        let disabled = {
            let w = self.w();
            w.napis[napi].present && w.napis[napi].word.is_disabled()
        };
        if disabled {
            self.napi_del(napi).await;
        }
        self.unlock(dev);
        if disabled { Ok(()) } else { Err(Errno::EBUSY) }
    }

    pub(super) async fn recv(&self, socket: usize, nonblock: bool, timeout: Option<Span>, me: ThreadIx) -> Answer {
        // Only sleeping counts against the time-out, not busy polling. Source: `net/core/datagram.c
        // __skb_wait_for_more_packets`.
        let mut left = timeout;
        if !self.w().socks[socket].open {
            return Answer::Error(Errno::EBADF);
        }
        let stream = self.w().socks[socket].kind == SocketKind::Tcp;
        let mut may_poll = true;
        loop {
            let before = {
                let mut w = self.w();
                if w.take_packet(socket) {
                    return Answer::Number(1);
                }
                w.socks[socket].arrivals
            };
            let (params, id) = {
                let w = self.w();
                (w.socks[socket].busy.busy_params(nonblock, w.ids.first()), w.socks[socket].busy.napi_id)
            };
            if let Some(params) = params.filter(|_| may_poll) {
                self.busy_loop(id, params, false, move |w| !w.socks[socket].queue.is_empty()).await;
                // A stream polls at most once per call; datagrams as long as the queue changes.
                may_poll = !stream;
                if self.w().socks[socket].arrivals != before {
                    continue;
                }
            }
            if nonblock || left.is_some_and(Span::is_zero) {
                return Answer::Error(Errno::EAGAIN);
            }
            let slept_from = self.w().now;
            let until = left.map_or(Deadline::NEVER, |span| Deadline::after(slept_from, span));
            {
                let mut w = self.w();
                if !w.socks[socket].queue.is_empty() {
                    continue;
                }
                w.note(Event::Sleep { thread: me });
                w.socks[socket].waiters.push(self.me);
            }
            self.block(until).await;
            let mut w = self.w();
            w.socks[socket].waiters.retain(|ctx| *ctx != self.me);
            if w.socks[socket].queue.is_empty() && until.is_due(w.now) {
                return Answer::Error(Errno::EAGAIN);
            }
            left = left.map(|span| Span::from_ns(span.ns.saturating_sub(w.now.ns - slept_from.ns)));
        }
    }

    /// CPU time that others want.
    pub(super) async fn hog_main(self, policy: usize) {
        loop {
            let ns = std::mem::take(&mut self.w().hogs[self.cpu()][policy].1);
            if ns == 0 {
                self.block(Deadline::NEVER).await;
            } else {
                self.spend(Span::from_ns(ns)).await;
            }
        }
    }
}

/// Most events of one wait. Source: `fs/eventpoll.c EP_MAX_EVENTS`, `INT_MAX` over the 12 bytes of an event.
const EVENTS_MAX: usize = i32::MAX as usize / 12;

impl World {
    /// Calls that take no time of their own.
    fn quick_call(&mut self, call: Call, capable: bool) -> Answer {
        match call {
            Call::Socket { socket } => {
                let busy = SocketBusy::new(self.sysctl.busy_read);
                let sock = &mut self.socks[socket.at()];
                sock.open = true;
                sock.busy = busy;
                Answer::Number(0)
            }
            Call::SetSockOpt { socket, option, value, optlen } => {
                self.set_option(socket, option, value, optlen, capable).into()
            }
            Call::GetSockOpt { socket, option } => self.get_option(socket, option),
            Call::EpollAdd { epoll, socket } => self.epoll_ctl(epoll, socket, Ctl::Add).into(),
            Call::EpollMod { epoll, socket } => self.epoll_ctl(epoll, socket, Ctl::Mod).into(),
            Call::EpollDel { epoll, socket } => self.epoll_ctl(epoll, socket, Ctl::Del).into(),
            Call::EpollSetParams { epoll, params } => self.epoll_set_params(epoll, params, capable).into(),
            Call::EpollGetParams { epoll } => self.epoll_get_params(epoll),
            Call::Ioctl { on: Callable::Socket(_), .. } => Answer::Error(Errno::ENOTTY),
            Call::Ioctl { on: Callable::Epoll(_), number } => {
                // Those that exist want a pointer, and an ioctl by number brings none.
                let known = EPOLL_IOCTLS.contains(&number);
                Answer::Error(if known { Errno::EFAULT } else { Errno::EINVAL })
            }
            Call::NapiGet { napi } => self.napi_get(napi),
            Call::NapiDump { device, ifindex } => self.napi_dump(device, ifindex),
            Call::QueueGet { device, ifindex, queue, kind } => self.queue_get(device, ifindex, queue, kind),
            Call::Read { device, file } => Answer::Text(self.read_file(device.at(), file)),
            Call::Sysctl { name, value } => self.set_sysctl(&name, value).into(),
            call => unreachable!("{} takes time", call.name()),
        }
    }

    fn set_option(
        &mut self,
        socket: SocketIx,
        option: i32,
        value: i32,
        optlen: u32,
        capable: bool,
    ) -> Result<(), Errno> {
        let bytes = value.to_ne_bytes();
        let given = bytes.get(..optlen as usize).unwrap_or(&bytes);
        let value = option_value(given).map_err(|error| error.errno())?;
        let option = BusyOption::from_number(option).ok_or(Errno::ENOPROTOOPT)?;
        self.socks[socket.at()].busy.set(option, value, capable).map_err(|error| error.errno())
    }

    fn get_option(&self, socket: SocketIx, option: i32) -> Answer {
        let Some(option) = BusyOption::from_number(option) else { return Answer::Error(Errno::ENOPROTOOPT) };
        match self.socks[socket.at()].busy.get(option, self.ids.first()) {
            Err(error) => Answer::Error(error.errno()),
            Ok(id) if option == BusyOption::IncomingNapiId && id != 0 => {
                let known = self.napis.iter().position(|n| n.id == id.cast_unsigned());
                known.map_or(Answer::Number(id.into()), |napi| Answer::Text(self.napi_name(napi)))
            }
            Ok(value) => Answer::Number(value.into()),
        }
    }

    fn epoll_ctl(&mut self, epoll: EpollIx, socket: SocketIx, ctl: Ctl) -> Result<(), Errno> {
        let ep = &mut self.epolls[epoll.at()];
        if !ep.open || !self.socks[socket.at()].open {
            return Err(Errno::EBADF);
        }
        let member = ep.members.contains(&socket);
        match (ctl, member) {
            (Ctl::Add, true) => return Err(Errno::EEXIST),
            (Ctl::Mod | Ctl::Del, false) => return Err(Errno::ENOENT),
            (Ctl::Add, false) => {
                ep.members.push(socket);
                self.socks[socket.at()].watchers.push(epoll.0);
                self.socks[socket.at()].watchers.sort_unstable();
                self.epoll_attach(epoll.at(), socket.at());
            }
            (Ctl::Del, true) => {
                ep.members.retain(|other| *other != socket);
                ep.ready.retain(|other| *other != socket);
                self.socks[socket.at()].watchers.retain(|watcher| *watcher != epoll.0);
            }
            (Ctl::Mod, true) => {}
        }
        // What is ready already is found at once, without a callback.
        let ep = &mut self.epolls[epoll.at()];
        if ctl != Ctl::Del && !self.socks[socket.at()].queue.is_empty() && !ep.ready.contains(&socket) {
            ep.ready.push_back(socket);
        }
        Ok(())
    }

    fn epoll_set_params(&mut self, epoll: EpollIx, params: EpollParamsRequest, capable: bool) -> Result<(), Errno> {
        self.epolls[epoll.at()].params = params.check(capable).map_err(|error| error.errno())?;
        Ok(())
    }

    fn epoll_get_params(&self, epoll: EpollIx) -> Answer {
        let params = self.epolls[epoll.at()].params;
        let pairs = [
            ("busy_poll_usecs", u64::from(params.busy_poll_usecs)),
            ("busy_poll_budget", params.busy_poll_budget.into()),
            ("prefer_busy_poll", params.prefer_busy_poll.into()),
            ("pad", 0),
        ];
        Answer::Attributes(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect())
    }
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Ctl {
    Add,
    Mod,
    Del,
}

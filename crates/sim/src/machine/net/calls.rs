//! Calls on sockets and event contexts that take no time of their own, and knobs.

use napier_core::control::Errno;
use napier_core::event::EpollParamsRequest;
use napier_core::sockopt::{BusyOption, SocketBusy, option_value};
use napier_core::softirq::netdev_budget_of;

use crate::machine::net::Network;
use napier_scenario::{Answer, Call, Callable, EpollIx, SocketIx};

/// `EPIOCSPARAMS` and `EPIOCGPARAMS`. Source: `include/uapi/linux/eventpoll.h`.
const EPOLL_IOCTLS: [u32; 2] = [0x4008_8A01, 0x8008_8A02];

#[derive(Copy, Clone, PartialEq, Eq)]
enum Ctl {
    Add,
    Mod,
    Del,
}

impl Network {
    /// Calls that take no time of their own.
    pub(crate) fn quick_call(&mut self, call: Call, capable: bool) -> Answer {
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

    /// Writes a knob.
    pub(crate) fn set_sysctl(&mut self, name: &str, value: i64) -> Result<(), Errno> {
        let natural = || u32::try_from(value).map_err(|_| Errno::EINVAL);
        match name {
            "netdev_budget" => self.sysctl.netdev_budget = i32::try_from(value).map_err(|_| Errno::EINVAL)?,
            "netdev_budget_usecs" => {
                let usecs = natural()?;
                netdev_budget_of(usecs.into(), self.hz).map_err(|_| Errno::EINVAL)?;
                self.sysctl.netdev_budget_usecs = usecs;
            }
            "busy_read" => self.sysctl.busy_read = natural()?,
            "busy_poll" => self.sysctl.busy_poll = natural()?,
            "gro_normal_batch" => match natural()? {
                0 => return Err(Errno::EINVAL),
                batch => self.sysctl.gro_normal_batch = batch,
            },
            "dev_weight" => match natural()? {
                0 => return Err(Errno::EINVAL),
                weight => self.sysctl.dev_weight = weight,
            },
            "qdisc_max_burst" => self.sysctl.qdisc_max_burst = i32::try_from(value).map_err(|_| Errno::EINVAL)?,
            _ => return Err(Errno::ENOENT),
        }
        Ok(())
    }
}

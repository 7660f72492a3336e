//! Calls as fields of a step.

use super::{Fields, Out, quote, until};
use crate::{Call, Callable, DeviceIx, NapiRef};

impl Out<'_> {
    pub(super) fn call(&self, call: &Call, to: &mut Fields) {
        match call {
            Call::Socket { socket } => to.add("socket", self.socket(*socket)),
            Call::Recv { socket, nonblock, timeout } => {
                to.add("socket", self.socket(*socket));
                to.add("nonblock", nonblock);
                if !nonblock {
                    to.add("timeout", until(*timeout));
                }
            }
            Call::SetSockOpt { socket, option, value, optlen } => {
                to.add("socket", self.socket(*socket));
                to.add("option", option);
                to.add("value", value);
                to.add("optlen", optlen);
            }
            Call::GetSockOpt { socket, option } => {
                to.add("socket", self.socket(*socket));
                to.add("option", option);
            }
            Call::EpollAdd { epoll, socket } | Call::EpollMod { epoll, socket } | Call::EpollDel { epoll, socket } => {
                to.add("epoll", quote(&self.machine.epolls[epoll.at()].name));
                to.add("socket", self.socket(*socket));
            }
            Call::EpollSetParams { epoll, params } => {
                to.add("epoll", quote(&self.machine.epolls[epoll.at()].name));
                to.add("busy_poll_usecs", params.busy_poll_usecs);
                to.add("busy_poll_budget", params.busy_poll_budget);
                to.add("prefer_busy_poll", params.prefer_busy_poll);
                to.add("pad", params.pad);
            }
            Call::EpollGetParams { epoll } | Call::EpollClose { epoll } => {
                to.add("epoll", quote(&self.machine.epolls[epoll.at()].name));
            }
            Call::EpollWait { epoll, timeout, max_events } => {
                to.add("epoll", quote(&self.machine.epolls[epoll.at()].name));
                to.add("timeout", until(*timeout));
                to.add("maxevents", max_events);
            }
            Call::Ioctl { on, number } => {
                let name = match on {
                    Callable::Socket(socket) => self.socket(*socket),
                    Callable::Epoll(epoll) => quote(&self.machine.epolls[epoll.at()].name),
                };
                to.add("on", name);
                to.add("number", format_args!("{number:#x}"));
            }
            Call::Poll { sockets, timeout } => {
                to.add("sockets", self.sockets(sockets));
                to.add("timeout", until(*timeout));
            }
            Call::BusyLoop { napi, usecs, prefer, budget, rcu } => {
                to.add("napi", self.napi(*napi));
                to.add_if("usecs", *usecs, |usecs| usecs.to_string());
                to.add("prefer", prefer);
                to.add("budget", budget);
                to.add("rcu", rcu);
            }
            _ => self.control_call(call, to),
        }
    }

    fn control_call(&self, call: &Call, to: &mut Fields) {
        let device = |device: DeviceIx| self.machine.devices[device.at()].name.as_str();
        match call {
            Call::NapiSet { napi, attributes } => {
                self.napi_ref(*napi, to);
                let attributes = attributes.iter().map(|(name, value)| format!("{} = {value}", quote(name)));
                to.add("attributes", format_args!("{{ {} }}", attributes.collect::<Vec<_>>().join(", ")));
            }
            Call::NapiGet { napi } => self.napi_ref(*napi, to),
            Call::NapiDump { device: which, ifindex } => {
                to.add_if("device", *which, |which| quote(device(which)));
                to.add_if("ifindex", *ifindex, |n| n.to_string());
            }
            Call::QueueGet { device: which, ifindex, queue, kind } => {
                to.add_if("device", *which, |which| quote(device(which)));
                to.add_if("ifindex", *ifindex, |n| n.to_string());
                to.add_if("queue", *queue, |n| n.to_string());
                to.add_if("type", *kind, |n| n.to_string());
            }
            Call::Write { device: of, file, value } => {
                to.add("file", quote(&format!("{}/{}", device(*of), file.file_name())));
                to.add("value", quote(value));
            }
            Call::Read { device: of, file } => to.add("file", quote(&format!("{}/{}", device(*of), file.file_name()))),
            Call::Sysctl { name, value } => {
                to.add("name", quote(name));
                to.add("value", value);
            }
            Call::Up { device: which }
            | Call::Down { device: which }
            | Call::Deactivate { device: which }
            | Call::Activate { device: which } => to.add("device", quote(device(*which))),
            Call::SetQueues { device: which, queues } => {
                to.add("device", quote(device(*which)));
                to.add("queues", queues);
            }
            Call::Delete { napi } => to.add("napi", self.napi(*napi)),
            Call::Send(sending) => self.sending(sending, to),
            Call::Group(call) => self.group_call(call, to),
            _ => panic!("{} is a call of a socket or of an event context", call.name()),
        }
    }

    fn napi_ref(&self, napi: NapiRef, to: &mut Fields) {
        match napi {
            NapiRef::Napi(napi) => to.add("napi", self.napi(napi)),
            NapiRef::Id(id) => to.add("id", id),
            NapiRef::Missing => {}
        }
    }
}

//! Application threads: they make the calls of the timeline, one after the other.

use napier_core::control::Errno;
use napier_core::time::{Deadline, Span};

use crate::machine::cpu::work::Work;
use crate::machine::kernel::busy::busy_loop;
use crate::machine::kernel::control::{napi_set, write_file};
use crate::machine::kernel::epoll::{epoll_close, epoll_wait, poll_sockets};
use crate::machine::kernel::group::control::group_call;
use crate::machine::kernel::lifecycle::{dev_down, dev_lock, dev_unlock, dev_up, napi_del, set_queues};
use crate::machine::kernel::recv::recv;
use crate::machine::kernel::tx::lifecycle::{tx_activate, tx_deactivate};
use crate::machine::kernel::tx::send::send;
use crate::machine::vm::K;
use napier_scenario::{Answer, Call, Event, SocketIx, ThreadIx};

/// Most events of one wait. Source: `fs/eventpoll.c EP_MAX_EVENTS`, `INT_MAX` over the 12 bytes of an event.
const EVENTS_MAX: usize = i32::MAX as usize / 12;

/// The thread's code.
pub(crate) async fn app_main(k: K, thread: usize) {
    let me = ThreadIx(thread as u16);
    loop {
        let call = {
            let mut w = k.w();
            let call = w.inboxes[thread].calls.pop_front();
            w.inboxes[thread].busy = call.is_some();
            call
        };
        let Some(call) = call else {
            k.block(Deadline::NEVER).await;
            continue;
        };
        k.work(Work::Syscall).await;
        let name = call.name();
        let (answer, ready) = make_call(&k, call, thread).await;
        k.w().note(Event::Return { thread: me, call: name, answer, ready });
    }
}

async fn make_call(k: &K, call: Call, thread: usize) -> (Answer, Vec<SocketIx>) {
    let me = ThreadIx(thread as u16);
    let capable = k.w().inboxes[thread].cap_net_admin;
    let answer = match call {
        Call::Recv { socket, nonblock, timeout } => recv(k, socket.at(), nonblock, timeout, me).await,
        Call::Poll { sockets, timeout } => Answer::Number(poll_sockets(k, &sockets, timeout, me).await),
        Call::BusyLoop { napi, usecs, prefer, budget, rcu } => {
            let limit = usecs.map_or(napier_core::busy::BusyLimit::Once, napier_core::busy::BusyLimit::For);
            let params = napier_core::busy::BusyParams { prefer, budget_pkts: budget, limit };
            let id = k.w().napis[napi.at()].id;
            busy_loop(k, id, params, rcu, |_| false).await;
            Answer::Number(0)
        }
        Call::EpollWait { epoll, timeout, max_events } => {
            if !k.w().epolls[epoll.at()].open {
                return (Answer::Error(Errno::EBADF), Vec::new());
            }
            let Some(max) = usize::try_from(max_events).ok().filter(|max| (1..=EVENTS_MAX).contains(max)) else {
                return (Answer::Error(Errno::EINVAL), Vec::new());
            };
            let ready = epoll_wait(k, epoll.at(), timeout, max, me).await;
            return (Answer::Number(ready.len() as i64), ready);
        }
        Call::EpollClose { epoll } => {
            epoll_close(k, epoll.at()).await;
            Answer::Number(0)
        }
        Call::NapiSet { napi, attributes } => napi_set(k, napi, &attributes, capable).await.into(),
        Call::Write { device, file, value } => write_file(k, device.at(), file, &value, capable).await.into(),
        Call::Up { device } => {
            dev_lock(k, device.at()).await;
            let result = dev_up(k, device.at()).await;
            dev_unlock(k, device.at());
            result.into()
        }
        Call::Down { device } => {
            dev_lock(k, device.at()).await;
            let result = dev_down(k, device.at()).await;
            dev_unlock(k, device.at());
            result.into()
        }
        Call::SetQueues { device, queues } => {
            dev_lock(k, device.at()).await;
            let result = set_queues(k, device.at(), queues).await;
            dev_unlock(k, device.at());
            result.into()
        }
        Call::Delete { napi } => delete(k, napi.at()).await.into(),
        Call::Group(call) => group_call(k, &call, capable).await.into(),
        Call::Send(sending) => send(k, &sending, me).await,
        Call::Activate { device } => {
            dev_lock(k, device.at()).await;
            let result = tx_activate(k, device.at()).await;
            dev_unlock(k, device.at());
            result.into()
        }
        Call::Deactivate { device } => {
            dev_lock(k, device.at()).await;
            tx_deactivate(k, device.at()).await;
            dev_unlock(k, device.at());
            Answer::Number(0)
        }
        call => k.w().quick_call(call, capable),
    };
    (answer, Vec::new())
}

async fn delete(k: &K, napi: usize) -> Result<(), Errno> {
    let dev = k.w().napis[napi].dev;
    dev_lock(k, dev).await;
    let disabled = {
        let w = k.w();
        w.napis[napi].present && w.napis[napi].word.is_disabled()
    };
    if disabled {
        napi_del(k, napi).await;
    }
    dev_unlock(k, dev);
    if disabled { Ok(()) } else { Err(Errno::EBUSY) }
}

/// CPU time that others want.
pub(crate) async fn hog_main(k: K, policy: usize) {
    loop {
        let ns = std::mem::take(&mut k.w().hogs[k.cpu()][policy].1);
        if ns == 0 {
            k.block(Deadline::NEVER).await;
        } else {
            k.spend(Span::from_ns(ns)).await;
        }
    }
}

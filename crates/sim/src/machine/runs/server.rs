//! The program that answers requests.

use napier_core::time::Span;

use crate::machine::cpu::work::Work;
use crate::machine::cpu::work::{Disturbance, WorkCosts};
use crate::machine::kernel::epoll::epoll_wait;
use crate::machine::vm::K;
use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::event::EpollParams;
use napier_scenario::ThreadIx;
use std::sync::Arc;

/// A server's core, with a second one where a thread that polls has one of its own: costs, queue and program.
#[derive(Clone, Debug)]
pub struct Core {
    /// What work costs.
    pub costs: WorkCosts,
    /// What an interrupt and a switch cost beside.
    pub disturbance: Disturbance,
    /// Jiffies per second.
    pub hz: u32,
    /// The card moderates its interrupts by itself (DIM); else every packet interrupts that finds the queue unmasked.
    pub moderates: bool,
    /// How long the card takes to change its moderation, without interrupts.
    pub apply: Span,
    /// Settings of the instance.
    pub tunables: Tunables,
    /// Who polls it.
    pub threaded: ThreadedSetting,
    /// The thread that polls has a core of its own.
    pub apart: bool,
    /// Parameters of the program's event context.
    pub epoll: EpollParams,
    /// Longest wait of the program.
    pub wait: Option<Span>,
    /// Events of one wait at most.
    pub events_max: usize,
    /// Requests of one wait whose data is still in the CPU's cache when they are answered; the others' is not.
    pub warm_max: usize,
    /// What a request takes the program beside [`Work::Request`](Work), in ns: points of its distribution, of which each
    /// request gets one at random. Empty: nothing.
    pub service_ns: Arc<[u64]>,
}

impl Core {
    /// What a request takes the core at least, if nothing slows it down and nothing is shared by several.
    pub(crate) fn demand(&self) -> Span {
        let works = [Work::PacketUp, Work::AckUp, Work::Request, Work::Answer];
        let works = works.iter().map(|work| self.costs.get(*work).ns).sum::<u64>();
        let service = self.service_ns.iter().sum::<u64>().checked_div(self.service_ns.len() as u64).unwrap_or(0);
        Span::from_ns(works + service)
    }
}

/// The program of a server; see [`Core`].
#[derive(Debug)]
pub(crate) struct ServerProgram {
    /// Which thread, and which event context.
    nth: u16,
    wait: Option<Span>,
    events_max: usize,
    warm_max: usize,
    service_ns: Arc<[u64]>,
}

impl ServerProgram {
    /// The thread with this number, with the event context of the same number.
    pub(crate) fn of(core: &Core, nth: u16) -> Self {
        let Core { wait, events_max, warm_max, .. } = *core;
        Self { nth, wait, events_max, warm_max, service_ns: core.service_ns.clone() }
    }
}

/// A server that waits in an event context, answers what is there, and waits again.
pub(crate) async fn serve_main(k: K, server: ServerProgram) {
    let me = ThreadIx(server.nth);
    loop {
        k.work(Work::Syscall).await;
        let ready = epoll_wait(&k, server.nth.into(), server.wait, server.events_max, me).await;
        if let Some(asking) = &mut k.w().asking {
            asking.waits += 1;
            asking.events += ready.len() as u64;
        }
        k.works(&[(Work::EpollReturn, 1), (Work::EpollEvent, ready.len() as u64)]).await;
        for (at, socket) in ready.into_iter().enumerate() {
            if at >= server.warm_max {
                k.w().cool(k.cpu());
            }
            while k.w().take_request(socket.at()) {
                k.work(Work::Request).await;
                if !server.service_ns.is_empty() {
                    let service = k.w().draw_service(k.cpu(), &server.service_ns);
                    k.spend(service).await;
                }
                k.work(Work::Answer).await;
                k.w().send_answer(socket.at());
            }
        }
    }
}

//! The program that answers, and the laws of a run of it and its clients.

use std::sync::Arc;

use napier_core::time::Span;

use super::figures::Core;
use super::laws::Look;
use super::vm::K;
use super::work::Work;
use super::world::World;
use napier_scenario::ThreadIx;

/// The program of a server; see [`Core`].
#[derive(Debug)]
pub(super) struct Server {
    /// Which thread, and which event context.
    nth: u16,
    wait: Option<Span>,
    events_max: usize,
    warm_max: usize,
    service_ns: Arc<[u64]>,
}

impl Server {
    /// The thread with this number, with the event context of the same number.
    pub(super) fn of(core: &Core, nth: u16) -> Self {
        let Core { wait, events_max, warm_max, .. } = *core;
        Self { nth, wait, events_max, warm_max, service_ns: core.service_ns.clone() }
    }
}

impl K {
    /// A server that waits in an event context, answers what is there, and waits again.
    pub(super) async fn serve_main(self, server: Server) {
        let me = ThreadIx(server.nth);
        loop {
            self.work(Work::Syscall).await;
            let ready = self.epoll_wait(server.nth.into(), server.wait, server.events_max, me).await;
            if let Some(asking) = &mut self.w().asking {
                asking.waits += 1;
                asking.events += ready.len() as u64;
            }
            self.works(&[(Work::EpollReturn, 1), (Work::EpollEvent, ready.len() as u64)]).await;
            for (at, socket) in ready.into_iter().enumerate() {
                if at >= server.warm_max {
                    self.w().cool(self.cpu());
                }
                while self.w().take_request(socket.at()) {
                    self.work(Work::Request).await;
                    if !server.service_ns.is_empty() {
                        let service = self.w().draw_service(self.cpu(), &server.service_ns);
                        self.spend(service).await;
                    }
                    self.work(Work::Answer).await;
                    self.w().send_answer(socket.at());
                }
            }
        }
    }
}

impl World {
    /// A program takes a request, if there is one.
    fn take_request(&mut self, socket: usize) -> bool {
        let took = self.take_packet(socket);
        if let Some(asking) = &mut self.asking {
            asking.in_programs += u64::from(took);
        }
        took
    }

    /// What the next request takes beside, drawn and accounted for.
    fn draw_service(&mut self, cpu: usize, points_ns: &[u64]) -> Span {
        let ns = self.asking.as_mut().expect("somebody asks").draw(points_ns);
        self.cpus[cpu].speed.serve(ns);
        Span::from_ns(ns)
    }

    /// The data of the next request is not in the CPU's cache any more.
    fn cool(&mut self, cpu: usize) {
        let lasts = Span::from_ns(self.costs.get(Work::Request).ns + self.costs.get(Work::Answer).ns);
        self.cpus[cpu].speed.disturb(lasts);
    }

    /// Laws of a server's run since a look; `programs` are as many as there are CPUs for them.
    pub(super) fn check_asking(&mut self, before: Look, programs: u64) {
        self.check_conserved();
        let window = self.since(before);
        let (request, answer) = (self.costs.get(Work::Request), self.costs.get(Work::Answer));
        let delivered = self.socks.iter().map(|sock| sock.delivered).sum::<u64>();
        let queued = self.socks.iter().map(|sock| sock.queue.len() as u64).sum::<u64>();
        let asking = self.asking.as_ref().expect("somebody asks");
        let places = [asking.on_wire, asking.entered - delivered, queued, asking.in_programs, asking.on_way_back];
        let found = places.iter().sum::<u64>();
        let tally = asking.tally;
        let mut held = vec![tally.holds(self.now, asking.sent()), window.busy(), window.work(request, programs)];
        held.push(window.capacity(request + answer, programs));
        if tally.out() != found {
            held.push(Err(format!(
                "requests are not conserved: {} are out, {found} are found: on the wire, on the way up, in sockets, in programs, on \
                 the way back {places:?}; {} were lost on the way",
                tally.out(),
                asking.lost
            )));
        }
        held.push(match asking.expected(window.before.at, window.after.at) {
            Some(expected) => window.offered(expected),
            None => window.closed(),
        });
        held.into_iter().for_each(|held| self.must(held));
    }
}

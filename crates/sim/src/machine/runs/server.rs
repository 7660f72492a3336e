//! The program that answers requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::event::EpollParams;
use napier_core::time::{Instant, Span};
use napier_rng::load::Load;

use crate::machine::cpu::work::{Disturbance, Work, WorkCosts};
use crate::machine::dev::nic::Nic;
use crate::machine::dev::tune::TunerKind;
use crate::machine::exec::{Code, Exec};
use crate::machine::kernel::epoll::epoll_wait;
use crate::machine::laws::LawsLook;
use crate::machine::peers::clients::{Asking, Clients, RTO_MIN};
use crate::machine::peers::datagrams::{Datagrams, SOCKET_PACKETS};
use crate::machine::peers::recorded::{RecordedArrivals, Replay};
use crate::machine::runs::measure::{CpuUse, Latencies, Length, Staged};
use crate::machine::vm::K;
use crate::machine::world::World;
use napier_scenario::{CpuIx, Device, Epoll, Machine, NapiIx, Policy, Socket, SocketIx, SocketKind, Thread, ThreadIx};

/// Turns of each connection of a closed loop in the measured time, at least.
const ROUNDS: u64 = 8;

/// A closed loop that has not come round by then is measured as it is.
const WARM_UP_MAX: Span = Span::from_secs(10);

/// The measured time is not made longer than this.
const MEASURED_MAX: Span = Span::from_secs(10);

/// Packets of a ring, as drivers have it that say nothing else.
const RING: u32 = 1024;

/// A server's core, with a second one where a thread that polls has one of its own: costs, queue and program.
#[derive(Clone, Debug)]
pub struct Core {
    /// What work costs.
    pub costs: WorkCosts,
    /// What an interrupt and a switch cost beside.
    pub disturbance: Disturbance,
    /// By how much work is slower then in a closed loop, in percent; `None`: as anywhere.
    pub slower_closed_pct: Option<u32>,
    /// A busy poll that ends polls once more before its timer is armed, as Linux before 7.3 does.
    pub polls_at_stop: bool,
    /// Jiffies per second.
    pub hz: u32,
    /// The card moderates its interrupts by itself (DIM); else every packet interrupts that finds the queue unmasked.
    pub moderates: bool,
    /// How long the card takes to change its moderation, without interrupts.
    pub apply: Span,
    /// Settings of the instance.
    pub tunables: Tunables,
    /// A rule that changes them while it runs.
    pub tuner: Option<&'static TunerKind>,
    /// Who polls it.
    pub threaded: ThreadedSetting,
    /// Microseconds and frames for which interrupts are held back, if the card does not moderate them by itself.
    pub coalescing: (u32, u32),
    /// Packets that the queue's ring holds.
    pub ring: u32,
    /// The thread that polls is on another core than the program.
    pub apart: bool,
    /// So are the interrupt and its softirq.
    pub interrupt_apart: bool,
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
    /// One whose kernel is as it starts, and whose program waits for up to so many events.
    #[must_use]
    pub fn of(costs: WorkCosts, events_max: usize) -> Self {
        Self {
            costs,
            disturbance: Disturbance::default(),
            slower_closed_pct: None,
            polls_at_stop: false,
            hz: 1000,
            moderates: false,
            apply: Span::ZERO,
            tunables: Tunables::default(),
            tuner: None,
            threaded: ThreadedSetting::Disabled,
            coalescing: (0, 0),
            ring: RING,
            apart: false,
            interrupt_apart: false,
            epoll: EpollParams::default(),
            wait: None,
            events_max,
            warm_max: usize::MAX,
            service_ns: Arc::new([]),
        }
    }

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
        k.w().note_wait(ready.len() as u64);
        k.works(&[(Work::EpollReturn, 1), (Work::EpollEvent, ready.len() as u64)]).await;
        for (at, socket) in ready.into_iter().enumerate() {
            if at >= server.warm_max {
                k.w().cool(k.cpu());
            }
            loop {
                let Some(request) = k.w().take_request(socket.at()) else { break };
                k.work(Work::Request).await;
                if !server.service_ns.is_empty() {
                    let service = k.w().draw_service(k.cpu(), &server.service_ns);
                    k.spend(service).await;
                }
                k.work(Work::Answer).await;
                k.w().send_answer(request);
            }
        }
    }
}

/// A core and its clients.
pub(crate) struct ServedCore<'a> {
    pub(crate) core: &'a Core,
    pub(crate) clients: &'a Clients,
    /// Requests as they were recorded, of as many connections; none: by chance.
    pub(crate) recorded: Option<&'a Arc<RecordedArrivals>>,
    /// They come as datagrams to one socket, and no one waits for an answer.
    pub(crate) datagrams: bool,
}

impl ServedCore<'_> {
    /// A connection per socket, or one socket for all.
    fn sockets(&self) -> Vec<Socket> {
        if self.datagrams {
            let all = Socket::tcp("datagrams".to_owned(), NapiIx(0));
            return vec![Socket { kind: SocketKind::Udp, connected: false, queue: SOCKET_PACKETS, ..all }];
        }
        (0..self.clients.connections).map(|nth| Socket::tcp(format!("c{nth}"), NapiIx(0))).collect()
    }
}

impl Staged for ServedCore<'_> {
    fn costs(&self) -> WorkCosts {
        self.core.costs
    }

    /// One queue, one core or two, one program with a connection per socket.
    fn machine(&self, seed: u64) -> Machine {
        let core = self.core;
        let apart = |apart: bool| vec![CpuIx(u16::from(apart))];
        let (rx_usecs, rx_frames) = core.coalescing;
        let device = Device {
            irq_cpu: apart(core.interrupt_apart),
            thread_cpu: apart(core.apart),
            tunables: core.tunables,
            threaded: core.threaded,
            ring: core.ring,
            rx_usecs,
            rx_frames,
            ..Device::new("eth0", 1, |_| CpuIx(0))
        };
        let sockets = self.sockets();
        let members = (0..sockets.len() as u16).map(SocketIx).collect();
        let thread =
            |name: &str| Thread { name: name.to_owned(), cpu: CpuIx(0), policy: Policy::Fair, cap_net_admin: true };
        Machine {
            devices: vec![device],
            threads: vec![thread("server"), thread("ctl")],
            sockets,
            epolls: vec![Epoll { name: "ep".to_owned(), params: core.epoll, members }],
            ..Machine::bare(1 + u16::from(core.apart || core.interrupt_apart), core.hz, seed)
        }
    }

    fn code(&self, k: K, thread: usize) -> Option<Code> {
        (thread == 0).then(|| Box::pin(serve_main(k, ServerProgram::of(self.core, 0))) as Code)
    }

    fn begin(&self, w: &mut World, seed: u64) {
        w.disturbance = self.core.disturbance;
        if let (Load::Max, Some(slower_pct)) = (self.clients.load, self.core.slower_closed_pct) {
            w.disturbance.slower_pct = slower_pct;
        }
        w.polls_at_stop = self.core.polls_at_stop;
        w.napis[0].tuner = self.core.tuner.map(|kind| (kind.new)());
        if self.core.moderates {
            w.napis[0].nic = Some(Nic::new(w.now, self.core.apply));
        }
        if self.datagrams {
            return w.begin_datagrams(Datagrams::new(*self.clients, seed));
        }
        let round = self.core.demand().ns * u64::from(self.clients.connections);
        let asking = Asking::new(*self.clients, seed).with_round(Span::from_ns(round));
        let replay = self.recorded.map(|of| Replay::new(of.clone(), &mut napier_rng::stream(seed, "replay")));
        let begun = w.now;
        w.begin_asking(match replay {
            Some(replay) => asking.with_replay(begun, replay),
            None => asking,
        });
    }

    /// Runs until what is asked and answered is as it will be.
    ///
    /// At a rate that is for as long as was asked for: connections ask from the first moment on as they will. In a closed loop each
    /// connection has had its turn, and requests that the beginning lost have come again.
    fn warm_up(&self, exec: &mut Exec, begun: Instant, length: Length, stop: &AtomicBool) -> Length {
        exec.run_until_or(begun + length.warm_up, stop);
        if self.clients.load != Load::Max {
            return length;
        }
        let connections = u64::from(self.clients.connections);
        let step = length.warm_up.max(Span::from_ms(10));
        let until = begun + WARM_UP_MAX;
        loop {
            let (now, answered, lost) = {
                let w = exec.vm.w();
                let asking = w.asking.as_ref().expect("they began");
                (w.now, asking.tally.answered, asking.lost)
            };
            let least = if lost > 0 { begun + length.warm_up + RTO_MIN + RTO_MIN } else { begun };
            let is_over = exec.vm.w().broken.is_some() || stop.load(Ordering::Relaxed) || now >= until;
            if is_over || answered >= 2 * connections && now >= least {
                let round = Span::from_ns((now - begun).ns * connections / answered.max(1));
                let mut measured = length.measured.max(Span::from_ns(round.ns * ROUNDS));
                if lost > 0 {
                    measured = measured.max(Span::from_ns(RTO_MIN.ns * ROUNDS));
                }
                let measured = measured.min(length.measured.max(MEASURED_MAX));
                return Length { measured, ..length };
            }
            exec.run_until_or(now + step, stop);
        }
    }

    fn count_from(&self, w: &mut World, from: Instant) {
        if let Some(asking) = &mut w.asking {
            asking.from = from;
        }
        if let Some(datagrams) = &mut w.datagrams {
            datagrams.count_from(from);
        }
    }

    fn use_of(&self, cpu: usize) -> CpuUse {
        if cpu == 0 { CpuUse::Program } else { CpuUse::Polling }
    }

    fn check(&self, w: &mut World, look: LawsLook) {
        if w.broken.is_none() {
            if self.datagrams { w.check_datagrams(look) } else { w.check_asking(look, 1) }
        }
    }

    fn due(&self, w: &World, from: Instant, to: Instant) -> Option<u64> {
        if let Some(datagrams) = &w.datagrams {
            return Some(datagrams.offered());
        }
        self.recorded?;
        Some(w.asking.as_ref()?.expected(from, to)?.round() as u64)
    }

    fn latencies(&self, w: &mut World) -> Latencies {
        if let Some(datagrams) = w.datagrams.take() {
            return (datagrams.latency_ns.clone(), datagrams.latency_ns, datagrams.way_ns);
        }
        let asking = w.asking.take().expect("they began");
        (asking.latency_ns, asking.from_due_ns, asking.way_ns)
    }
}

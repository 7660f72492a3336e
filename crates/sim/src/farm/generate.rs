//! Random machines and random timelines: everything that may happen to an instance, at every point.

use napier_core::completion::Tunables;
use napier_core::control::{DevAttribute, ThreadedSetting};
use napier_core::event::{EpollParams, EpollParamsRequest};
use napier_core::sockopt::SocketBusy;
use napier_core::time::{Instant, Span};
use napier_rng::Xoshiro256PlusPlus;

use super::random::Random;
use napier_scenario::{
    Action, Call, Costs, CpuIx, Device, DeviceIx, EnginePart, Epoll, EpollIx, Expect, KernelPart, Machine, NapiIx,
    NapiRef, Packets, Policy, Quirk, Scenario, Socket, SocketIx, SocketKind, Step, Sysctl, Target, Thread, ThreadIx,
    Tolerance, Topology,
};

/// How long the disturbance lasts at most.
const DISTURBANCE_MAX: Span = Span::from_ms(20);
/// After the disturbance everything must have drained within this: as many waits of 20 ms for a thread to be stopped as
/// a timeline can ask for, one after the other, and room.
const DRAIN_BOUND: Span = Span::from_secs(2);

/// The random scenario of one seed.
#[must_use]
pub fn scenario(seed: u64) -> Scenario {
    let mut draw = FarmDraw { rng: napier_rng::stream(seed, "scenario"), real_time: false };
    let mut machine = draw.machine(seed);
    let mut timeline = draw.timeline(&machine);
    super::waiters::add(seed, &mut machine, &mut timeline);
    super::transmit::add(seed, &mut machine, &mut timeline);
    super::groups::add(seed, &mut machine, &mut timeline);
    Scenario {
        title: format!("What seed {seed} of the farm does"),
        rules: Vec::new(),
        machine,
        timeline,
        expect: Expect {
            watch: Vec::new(),
            events: Vec::new(),
            counters: Vec::new(),
            tolerance: Tolerance { sim: Span::from_us(20), engine: Span::from_ms(2) },
            drains: true,
            settle: DRAIN_BOUND,
        },
        engine: EnginePart { not_runnable: Some("a random scenario for the simulator".to_owned()), watch: None },
        kernel: KernelPart::not_said(Span::from_ms(2)),
    }
}

struct FarmDraw {
    rng: Xoshiro256PlusPlus,
    /// Some NAPI threads are real-time: one that spins would keep every other thread of its CPU out for ever.
    real_time: bool,
}

impl Random for FarmDraw {
    fn rng(&mut self) -> &mut Xoshiro256PlusPlus {
        &mut self.rng
    }
}

impl FarmDraw {
    fn machine(&mut self, seed: u64) -> Machine {
        let hz = self.of(&[100, 250, 1000]);
        let mut machine = Machine {
            cpus: self.of(&[1, 2, 2, 3, 4]),
            topology: Topology::FLAT,
            hz,
            seed,
            jitter: !self.one_in(8),
            late_interrupts: self.one_in(2),
            sysctl: self.sysctl(hz),
            costs: Costs::default(),
            devices: Vec::new(),
            threads: Vec::new(),
            sockets: Vec::new(),
            epolls: Vec::new(),
            groups: Vec::new(),
        };
        self.real_time = self.one_in(5);
        for index in 0..self.of(&[1, 1, 2]) {
            let device = self.device(index, machine.cpus);
            machine.devices.push(device);
        }
        for index in 0..self.of(&[1_u16, 2, 3]) {
            let policy = if self.one_in(6) { Policy::Fifo } else { Policy::Fair };
            let cpu = CpuIx(self.below(machine.cpus.into()) as u16);
            let cap_net_admin = !self.one_in(4);
            machine.threads.push(Thread { name: format!("app{index}"), cpu, policy, cap_net_admin });
        }
        let cpu = CpuIx(machine.cpus - 1);
        machine.threads.push(Thread { name: "ctl".to_owned(), cpu, policy: Policy::Fair, cap_net_admin: true });
        for index in 0..self.of(&[1_u16, 2, 4]) {
            let socket = self.socket(index, &machine);
            machine.sockets.push(socket);
        }
        for index in 0..self.of(&[0_u16, 1, 1, 2, 2]) {
            let sockets = (0..machine.sockets.len() as u16).map(SocketIx);
            let members = sockets.filter(|socket| self.one_in(2) && machine.sockets[socket.at()].open).collect();
            machine.epolls.push(Epoll { name: format!("ep{index}"), params: self.epoll_params(), members });
        }
        machine
    }

    fn sysctl(&mut self, hz: u32) -> Sysctl {
        Sysctl {
            netdev_budget: self.of(&[1, 16, 64, 300, 300, 300]),
            busy_read: self.of(&[0, 0, 20]),
            busy_poll: self.of(&[0, 0, 30, 100]),
            gro_normal_batch: self.of(&[1, 8, 8]),
            ..Sysctl::defaults(hz)
        }
    }

    fn tunables(&mut self) -> Tunables {
        Tunables {
            defer_hard_irqs: self.of(&[0, 0, 1, 2, 5]),
            gro_flush_timeout: Span::from_ns(self.of(&[0, 0, 10, 100, 1000, 20_000, 200_000, 1_000_000])),
            irq_suspend_timeout: Span::from_us(self.of(&[0, 0, 50, 2000])),
        }
    }

    fn device(&mut self, index: usize, cpus: u16) -> Device {
        let queues = self.of(&[1, 1, 2, 3]);
        let rx_usecs = self.of(&[0, 0, 10, 50]);
        let some_cpus = |draw: &mut Self| (0..queues).map(|_| CpuIx(draw.below(cpus.into()) as u16)).collect();
        Device {
            name: format!("eth{index}"),
            queues,
            ring: self.of(&[4, 32, 256]),
            irq_cpu: some_cpus(self),
            thread_cpu: some_cpus(self),
            thread_policy: if self.real_time { Policy::Fifo } else { Policy::Fair },
            persistent: !self.one_in(3),
            no_busy_poll: self.one_in(12),
            up: true,
            tunables: self.tunables(),
            threaded: self.of(&[ThreadedSetting::Disabled, ThreadedSetting::Disabled, ThreadedSetting::Enabled]),
            rx_usecs,
            // Frames without a time would wait for ever, and are refused.
            rx_frames: if rx_usecs == 0 { 0 } else { self.of(&[0, 4]) },
            gro: self.one_in(3),
            weight: self.of(&[64, 64, 8, 2]),
            transmit: None,
        }
    }

    fn socket(&mut self, index: u16, machine: &Machine) -> Socket {
        let kind = self.of(&[SocketKind::Udp, SocketKind::Udp, SocketKind::Tcp]);
        let open = !self.one_in(10);
        Socket {
            name: format!("s{index}"),
            kind,
            connected: kind == SocketKind::Tcp || self.one_in(2),
            napi: self.napi(machine),
            queue: self.of(&[2, 16, 1024]),
            open,
            busy: SocketBusy {
                busy_poll_usecs: self.of(&[0, 10, 60, 200]),
                prefer: self.one_in(2),
                budget: self.of(&[0, 0, 1, 64]),
                napi_id: 0,
            },
            primed: open && !self.one_in(5),
            recverr: false,
        }
    }

    fn epoll_params(&mut self) -> EpollParams {
        EpollParams {
            busy_poll_usecs: self.of(&[0, 0, 20, 100, 400]),
            busy_poll_budget: self.of(&[0, 1, 8, 64]),
            prefer_busy_poll: self.one_in(2),
        }
    }

    fn napi(&mut self, machine: &Machine) -> NapiIx {
        NapiIx(self.below(machine.napis().into()) as u16)
    }

    fn socket_ix(&mut self, machine: &Machine) -> SocketIx {
        SocketIx(self.below(machine.sockets.len() as u32) as u16)
    }

    /// The disturbance, and then peace: drivers behave, and no thread spins for ever.
    fn timeline(&mut self, machine: &Machine) -> Vec<Step> {
        let steps = self.of(&[15, 30, 60, 120]);
        let gap_us = DISTURBANCE_MAX.ns / 1000 / steps;
        let mut now = Instant::ZERO;
        let mut timeline = Vec::new();
        for _ in 0..steps {
            now += if self.one_in(3) { self.us(2) } else { self.us(gap_us) };
            let action = self.action(machine);
            timeline.push(Step { at: now, line: 0, action });
        }
        for napi in 0..machine.napis() {
            timeline.push(Step { at: now, line: 0, action: Action::Driver { napi: NapiIx(napi), quirk: Quirk::None } });
        }
        for napi in (0..machine.napis()).map(NapiIx) {
            timeline.push(Step { at: now, line: 0, action: control(machine, set_threaded(napi, 0)) });
        }
        timeline
    }

    fn action(&mut self, machine: &Machine) -> Action {
        match self.below(100) {
            0..40 => self.packets(machine),
            40..44 => Action::Interrupt { napi: self.napi(machine) },
            44..47 => Action::Schedule { napi: self.napi(machine), cpu: CpuIx(self.below(machine.cpus.into()) as u16) },
            47..50 => {
                let thread = ThreadIx(self.below(machine.threads.len() as u32) as u16);
                Action::Stall { thread, span: self.us(500) }
            }
            50..53 => {
                let policy = self.of(&[Policy::Fair, Policy::Fifo]);
                let cpu = CpuIx(self.below(machine.cpus.into()) as u16);
                Action::Hog { cpu, span: self.us(300), policy }
            }
            53..55 => Action::FailThread { nth: self.of(&[1, 2, 3]) },
            55..57 => Action::Driver { napi: self.napi(machine), quirk: self.of(&[Quirk::None, Quirk::AlwaysFull]) },
            57..75 => self.settings(machine),
            _ => {
                let thread = ThreadIx(self.below(machine.threads.len() as u32) as u16);
                Action::Call { thread, call: self.call(machine) }
            }
        }
    }

    fn packets(&mut self, machine: &Machine) -> Action {
        let to =
            if self.one_in(12) { Target::Napi(self.napi(machine)) } else { Target::Socket(self.socket_ix(machine)) };
        Action::Packets(Packets {
            to,
            count: self.of(&[1, 1, 2, 7, 70]),
            every: Span::from_ns(self.of(&[0, 100, 1000, 20_000])),
            flow: self.below(4),
            own_flow: self.one_in(3),
            hash: if self.one_in(3) { Some(0) } else { None },
            mergeable: !self.one_in(4),
            rss: self.one_in(3),
            loopback: self.one_in(20),
            syn: None,
        })
    }

    fn settings(&mut self, machine: &Machine) -> Action {
        let device = DeviceIx(self.below(machine.devices.len() as u32) as u16);
        let napi = self.napi(machine);
        let write = |file, value: u64| Call::Write { device, file, value: value.to_string() };
        let call = match self.below(12) {
            0 | 1 => set_threaded(napi, self.of(if self.real_time { &[0, 1] } else { &[0, 1, 2, 2] })),
            2 => Call::NapiSet {
                napi: NapiRef::Napi(napi),
                attributes: vec![
                    ("defer-hard-irqs".to_owned(), self.of(&[0, 1, 3])),
                    ("gro-flush-timeout".to_owned(), self.of(&[0, 10, 100, 1_000, 30_000, 500_000])),
                ],
            },
            3 => Call::NapiSet {
                napi: NapiRef::Napi(napi),
                attributes: vec![("irq-suspend-timeout".to_owned(), self.of(&[0, 100_000, 3_000_000]))],
            },
            4 => write(DevAttribute::Threaded, self.of(&[0, 1])),
            5 => write(DevAttribute::GroFlushTimeout, self.of(&[0, 20_000])),
            6 => write(DevAttribute::NapiDeferHardIrqs, self.of(&[0, 2])),
            7 => Call::Down { device },
            8..=10 => Call::Up { device },
            _ => Call::SetQueues { device, queues: 1 + self.below(machine.devices[device.at()].queues.into()) as u16 },
        };
        control(machine, call)
    }

    fn call(&mut self, machine: &Machine) -> Call {
        let socket = self.socket_ix(machine);
        let timeout = Some(self.us(3000));
        let epoll = EpollIx(self.below(machine.epolls.len().max(1) as u32) as u16);
        match self.below(20) {
            0..4 => Call::Recv { socket, nonblock: true, timeout: None },
            4..8 => Call::Recv { socket, nonblock: false, timeout },
            8 => Call::Poll { sockets: vec![socket], timeout: self.of(&[Some(Span::ZERO), timeout]) },
            9 => Call::BusyLoop {
                napi: self.napi(machine),
                usecs: self.of(&[None, Some(20), Some(300)]),
                prefer: self.one_in(2),
                budget: self.of(&[1, 8, 64]),
                rcu: self.one_in(2),
            },
            10 => Call::SetSockOpt { socket, option: 46, value: self.of(&[0, 10, 300]), optlen: 4 },
            11 if !machine.sockets[socket.at()].open => Call::Socket { socket },
            _ if machine.epolls.is_empty() => Call::Recv { socket, nonblock: true, timeout: None },
            12..17 => Call::EpollWait { epoll, timeout: self.of(&[Some(Span::ZERO), timeout, timeout]), max_events: 4 },
            17 => Call::EpollAdd { epoll, socket },
            18 if self.one_in(3) => Call::EpollClose { epoll },
            _ => {
                let params = self.epoll_params();
                Call::EpollSetParams {
                    epoll,
                    params: EpollParamsRequest {
                        busy_poll_usecs: params.busy_poll_usecs,
                        busy_poll_budget: params.busy_poll_budget,
                        prefer_busy_poll: params.prefer_busy_poll.into(),
                        pad: 0,
                    },
                }
            }
        }
    }
}

/// A call of the control thread, which is the last one.
fn control(machine: &Machine, call: Call) -> Action {
    Action::Call { thread: ThreadIx(machine.threads.len() as u16 - 1), call }
}

fn set_threaded(napi: NapiIx, threaded: u64) -> Call {
    Call::NapiSet { napi: NapiRef::Napi(napi), attributes: vec![("threaded".to_owned(), threaded)] }
}

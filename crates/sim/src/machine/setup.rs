//! From a scenario to a machine whose devices are up.

use std::collections::VecDeque;
use std::rc::Rc;

use napier_core::completion::Tunables;
use napier_core::config::ConfigTable;
use napier_core::control::{DevSetting, DevSettings, ThreadedSetting};
use napier_core::moderation::{Coalesce, Moderation};
use napier_core::sockopt::SocketBusy;
use napier_core::time::{Instant, Span};

use crate::machine::cpu::ctx::{Ctx, Level};
use crate::machine::cpu::sched::Cpu;
use crate::machine::cpu::work::WorkCosts;
use crate::machine::dev::device::Dev;
use crate::machine::dev::napi::new_instance;
use crate::machine::exec::{Code, Exec};
use crate::machine::group::add_groups;
use crate::machine::kernel::app::{app_main, hog_main};
use crate::machine::kernel::group::thread::group_main;
use crate::machine::kernel::kthread::kthread_main;
use crate::machine::kernel::softirq::{hard_main, ksoftirqd_main, soft_main};
use crate::machine::kernel::tx::send::boxed_xmit;
use crate::machine::net::socket::{Ep, Sock};
use crate::machine::sim::event::Ev;
use crate::machine::sim::plant::Options;
use crate::machine::tx::setup::add_transmit;
use crate::machine::vm::{K, Vm};
use crate::machine::world::{Inbox, World};
use napier_scenario::{Call, DeviceIx, Machine, NapiIx, Policy, Scenario, SocketKind, Step};

/// Longest time that bringing the devices up may take.
const SETUP_MAX: Instant = Instant::from_ns(1_000_000_000);

/// Builds the machine and brings its devices up; what happens meanwhile is not logged. Time zero is a whole second.
pub(crate) fn build(scenario: &Scenario, options: &Options) -> Exec {
    build_for(&scenario.machine, &scenario.timeline, options, None)
}

/// Programs in place of the calls of some threads.
pub(crate) struct Programs<'a> {
    /// What work costs.
    pub(crate) costs: WorkCosts,
    /// The code of a thread, by its position; `None`: it makes the calls of the timeline.
    pub(crate) code: &'a dyn Fn(K, usize) -> Option<Code>,
}

/// The same, with programs of its own.
pub(crate) fn build_for(
    machine: &Machine,
    timeline: &[Step],
    options: &Options,
    programs: Option<&Programs<'_>>,
) -> Exec {
    let mut w = World::new(machine, timeline, options);
    if let Some(programs) = programs {
        w.costs = programs.costs;
    }
    add_cpus(&mut w, machine);
    add_devices(&mut w, machine);
    add_transmit(&mut w, machine);
    add_programs(&mut w, machine);
    add_groups(&mut w, machine);
    let vm = Vm::new(w, boxed_xmit);
    let code = write_code(&vm, machine, programs);
    let mut exec = Exec { vm, code };
    bring_up(&mut exec, machine);
    exec
}

fn add_cpus(w: &mut World, machine: &Machine) {
    for cpu in 0..usize::from(machine.cpus) {
        let first = w.ctxs.len();
        w.cpus.push(Cpu::new(first));
        // Interrupt level, softirq level, ksoftirqd, two hogs.
        for policy in [Policy::Fifo, Policy::Fifo, Policy::Fair, Policy::Fair, Policy::Fifo] {
            w.ctxs.push(Ctx::new(cpu, policy));
        }
        let ksoftirqd = w.cpus[cpu].ksoftirqd;
        w.hogs.push([(ksoftirqd + 1, 0), (ksoftirqd + 2, 0)]);
        w.cpus[cpu].ready.extend([ksoftirqd, ksoftirqd + 1, ksoftirqd + 2]);
    }
}

fn add_devices(w: &mut World, machine: &Machine) {
    for (dev, device) in machine.devices.iter().enumerate() {
        let first_napi = w.napis.len();
        let settings = DevSettings {
            gro_flush_timeout: device.tunables.gro_flush_timeout,
            defer_hard_irqs: device.tunables.defer_hard_irqs,
            // Busy polling is a setting of instances; it is made when the device is up.
            threaded: if device.threaded == ThreadedSetting::BusyPoll {
                ThreadedSetting::Enabled
            } else {
                device.threaded
            },
        };
        let mut config = ConfigTable::new(device.queues, device.queues);
        config.write_all(DevSetting::GroFlushTimeout(settings.gro_flush_timeout));
        config.write_all(DevSetting::NapiDeferHardIrqs(settings.defer_hard_irqs));
        config.write_all(DevSetting::Threaded(settings.threaded));
        let coalesce = Coalesce::new(device.rx_usecs, device.rx_frames).expect("checked when the file was read");
        w.devs.push(Dev {
            name: device.name.clone(),
            up: false,
            queues: device.queues,
            first_napi,
            all_queues: device.queues,
            ring: device.ring as usize,
            persistent: device.persistent,
            no_busy_poll: device.no_busy_poll,
            merges: device.gro,
            settings,
            config,
            moderation: vec![(Moderation::new(coalesce), 0); device.queues.into()],
            locked: false,
            lock_waiters: Vec::new(),
        });
        for queue in 0..device.queues {
            let pick = |list: &[napier_scenario::CpuIx], other: usize| {
                if list.is_empty() { other } else { list[usize::from(queue) % list.len()].at() }
            };
            let irq_cpu = pick(&device.irq_cpu, usize::from(queue) % usize::from(machine.cpus));
            let thread_cpu = pick(&device.thread_cpu, irq_cpu);
            let kthread = w.ctxs.len();
            w.ctxs.push(Ctx::new(thread_cpu, device.thread_policy));
            w.cpus[thread_cpu].ready.push(kthread);
            let index = NapiIx(w.napis.len() as u16);
            w.napis.push(new_instance(index, dev, queue, irq_cpu, kthread, device.weight));
            if device.persistent {
                // Such a driver adds its instances when it finds the device, not when the device comes up.
                w.add_instance(index.at());
            }
        }
    }
}

fn add_programs(w: &mut World, machine: &Machine) {
    for socket in &machine.sockets {
        w.socks.push(Sock {
            name: socket.name.clone(),
            kind: socket.kind,
            connected: socket.connected,
            napi: socket.napi.at(),
            depth: socket.queue as usize,
            open: socket.open,
            busy: SocketBusy { napi_id: 0, ..socket.busy },
            queue: VecDeque::new(),
            arrivals: 0,
            delivered: 0,
            taken: 0,
            waiters: Vec::new(),
            watchers: Vec::new(),
            recverr: socket.recverr,
        });
    }
    for (ep, epoll) in machine.epolls.iter().enumerate() {
        for member in &epoll.members {
            w.socks[member.at()].watchers.push(ep as u16);
        }
        w.epolls.push(Ep {
            open: true,
            params: epoll.params,
            slot: 0,
            members: epoll.members.clone(),
            ready: VecDeque::new(),
            waiters: Vec::new(),
        });
    }
    for thread in &machine.threads {
        let ctx = w.ctxs.len();
        w.ctxs.push(Ctx::new(thread.cpu.at(), thread.policy));
        w.cpus[thread.cpu.at()].ready.push(ctx);
        w.inboxes.push(Inbox { ctx, cap_net_admin: thread.cap_net_admin, ..Inbox::default() });
    }
}

/// The code of every context, in the order in which the contexts were made.
fn write_code(vm: &Rc<Vm>, machine: &Machine, programs: Option<&Programs<'_>>) -> Vec<Code> {
    let mut code: Vec<Code> = Vec::new();
    let k = |me: usize, level: Level| K::new(vm.clone(), me, level);
    for _ in 0..machine.cpus {
        let me = code.len();
        code.push(Box::pin(hard_main(k(me, Level::Hard))));
        code.push(Box::pin(soft_main(k(me + 1, Level::Soft))));
        code.push(Box::pin(ksoftirqd_main(k(me + 2, Level::Task))));
        code.push(Box::pin(hog_main(k(me + 3, Level::Task), 0)));
        code.push(Box::pin(hog_main(k(me + 4, Level::Task), 1)));
    }
    let napis = vm.w().napis.len();
    for napi in 0..napis {
        code.push(Box::pin(kthread_main(k(code.len(), Level::Task), napi)));
    }
    for thread in 0..machine.threads.len() {
        let k = k(code.len(), Level::Task);
        let own = programs.and_then(|programs| (programs.code)(k.clone(), thread));
        code.push(own.unwrap_or_else(|| Box::pin(app_main(k, thread))));
    }
    let threads = vm.w().groups.threads();
    for _ in 0..threads {
        code.push(Box::pin(group_main(k(code.len(), Level::Task))));
    }
    code
}

/// The last thread brings the devices up; then what needs ids is set.
fn bring_up(exec: &mut Exec, machine: &Machine) {
    {
        let mut w = exec.vm.w();
        let ctl = w.inboxes.len() - 1;
        for (dev, device) in machine.devices.iter().enumerate() {
            if device.up {
                w.inboxes[ctl].calls.push_back(Call::Up { device: DeviceIx(dev as u16) });
            }
        }
        let now = w.now;
        for cpu in 0..w.cpus.len() {
            // Everybody looks once whether there is something to do.
            let generation = 0;
            w.push_at(now, Ev::Cpu { cpu, generation });
        }
    }
    exec.run_until(SETUP_MAX);
    let mut w = exec.vm.w();
    assert!(w.inboxes.iter().all(|inbox| inbox.calls.is_empty() && !inbox.busy), "devices come up within a second");
    for (dev, device) in machine.devices.iter().enumerate() {
        let (first, queues) = w.queues(dev);
        for napi in first..first + queues {
            set_at_start(&mut w, dev, napi, device.tunables.irq_suspend_timeout, device.threaded);
        }
    }
    for (socket, described) in machine.sockets.iter().enumerate() {
        if described.primed && described.kind != SocketKind::TcpListener {
            w.socks[socket].busy.napi_id = w.napis[described.napi.at()].id;
        }
    }
    for ep in 0..w.epolls.len() {
        for member in w.epolls[ep].members.clone() {
            w.epoll_attach(ep, member.at());
        }
    }
    w.begin_groups(machine);
    w.epoch = w.now;
    w.started = true;
    let epoch = w.epoch;
    for step in 0..w.timeline.len() {
        let at = Instant::from_ns(epoch.ns + w.timeline[step].at.ns);
        w.push_at(at, Ev::Step { step, left: u32::MAX });
    }
}

fn set_at_start(w: &mut World, dev: usize, napi: usize, suspend: Span, threaded: ThreadedSetting) {
    let queue = usize::from(w.napis[napi].queue);
    w.napis[napi].tunables.irq_suspend_timeout = suspend;
    let tunables = Tunables { irq_suspend_timeout: suspend, ..w.devs[dev].config.slots()[queue].tunables };
    w.devs[dev].config.save(queue, tunables);
    if threaded == ThreadedSetting::BusyPoll && w.napis[napi].present {
        w.napis[napi].threaded = threaded;
        w.devs[dev].config.set_threaded(queue, threaded);
        w.transition(napi, |word| (word.set_threaded(threaded.threaded()), ()));
    }
}

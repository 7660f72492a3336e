//! The kernel under test: its own stack on one end of a veth pair or on an interface of this machine, in the mode of a row.

pub(crate) mod counters;
pub(crate) mod on;
pub(crate) mod program;
pub(crate) mod threads;

use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use napier_core::control::plan::{Change, Place, Plan, Write, apply, put_back};
use napier_core::control::{NapiChange, NapiInfo, ThreadedSetting};
use napier_kv::serve::kernel::{KernelNet, KernelStop};
use napier_linux::change::{Key, Ledger, Line, Scope, ThreadKey, ThreadSetting, lines_of};
use napier_linux::{KernelSink, LinuxError, Netns, VethEnd, netdev};
use rustix::thread::{CpuSet, Pid};

use self::program::ProgramConfig;
use crate::cpus::CpuLayout;
use crate::modes::Mode;
use crate::subject::{Receive, Subject};
use on::OnInterface;

/// Priority of a thread that stands for an interrupt; the engine's softirq threads have the same.
const IRQ_PRIORITY: i32 = 50;

/// The interface under test.
#[derive(Clone, Debug)]
enum Interface {
    /// An end of a pair that goes with this process.
    Veth(VethEnd),
    /// One that others use too: all changes are noted before they are made.
    On(OnInterface),
}

/// The server's interface, with the kernel's stack on it. What a mode changed is put back when this goes.
#[derive(Debug)]
pub(crate) struct KernelEnd {
    at: Interface,
    changes: Vec<Change<Place>>,
    noted: Option<Ledger>,
}

impl Drop for KernelEnd {
    fn drop(&mut self) {
        // An end that is gone has nothing to put back; of an interface the journal has what could not be.
        let _ = self.put_back();
    }
}

impl KernelEnd {
    /// Prepares the end: with receive offload a veth delivers through a NAPI instance, which the modes are about.
    pub(crate) fn new(end: &VethEnd) -> Result<Self, LinuxError> {
        end.set_feature(c"rx-gro", true)?;
        Ok(Self { at: Interface::Veth(end.clone()), changes: Vec::new(), noted: None })
    }

    /// An interface of this machine.
    pub(crate) fn on(interface: &OnInterface) -> Self {
        Self { at: Interface::On(interface.clone()), changes: Vec::new(), noted: None }
    }

    /// Where it is.
    pub(crate) fn netns(&self) -> &Netns {
        match &self.at {
            Interface::Veth(end) => end.netns(),
            Interface::On(interface) => &interface.netns,
        }
    }

    /// What arrived at an interface of this machine so far; `None` on a veth of the run's own.
    pub(crate) fn arrived(&self) -> anyhow::Result<Option<on::Arrived>> {
        match &self.at {
            Interface::Veth(_) => Ok(None),
            Interface::On(interface) => interface.arrived().map(Some),
        }
    }

    /// Applies a plan to the end and every NAPI instance of it, in place of one that is; threads of instances go to
    /// the CPU of their worker, and stand for its interrupt if that is asked for.
    pub(crate) fn put_in_force(&mut self, plan: &Plan, receive: Receive, cpus: &CpuLayout) -> anyhow::Result<()> {
        self.put_back()?;
        let plan = &match receive {
            Receive::Device => plan.clone(),
            Receive::Irq => by_thread(plan),
        };
        match self.at.clone() {
            Interface::Veth(end) => self.put_in_force_on_veth(&end, plan, receive, cpus),
            Interface::On(interface) => self.put_in_force_noted(&interface, plan, receive, cpus),
        }
    }

    fn put_in_force_on_veth(
        &mut self,
        end: &VethEnd,
        plan: &Plan,
        receive: Receive,
        cpus: &CpuLayout,
    ) -> anyhow::Result<()> {
        let name = end.name();
        ensure!(!end.napis()?.is_empty(), "{name} has no NAPI instance: the veth of this kernel has no GRO");
        self.changes = end.netns().run(|| -> anyhow::Result<_> {
            let mut sink = sink(end);
            let plan = sink.fit(plan)?;
            Ok(apply(&mut sink, &plan)?)
        })??;
        self.pin_threads(cpus)?;
        if receive == Receive::Irq {
            let threads = self.threads()?;
            ensure!(!threads.is_empty(), "{name} has no thread that receives");
            for pid in threads {
                napier_linux::set_fifo(pid.as_raw_nonzero().get().cast_unsigned(), IRQ_PRIORITY)
                    .context("SCHED_FIFO for the thread that stands for the interrupt (it needs CAP_SYS_NICE)")?;
            }
        }
        Ok(())
    }

    /// The same, each value noted before; the threads of instances are the interface's and go on after the run.
    fn put_in_force_noted(
        &mut self,
        interface: &OnInterface,
        plan: &Plan,
        receive: Receive,
        cpus: &CpuLayout,
    ) -> anyhow::Result<()> {
        let lines = lines_of(plan, &interface.device)?;
        let scope = Scope::device(interface.device.clone())?;
        // What a killed run has left is put back by then, and was said when this command began.
        let ledger = self.noted.insert(Ledger::begin(&scope, lines.len(), &mut |_| ())?);
        ledger.apply(&lines)?;
        let threads = self.threads()?;
        ensure!(
            receive != Receive::Irq || !threads.is_empty(),
            "{} has no thread that receives",
            interface.device.name
        );
        let mut lines = Vec::new();
        for (queue, pid) in threads.into_iter().enumerate() {
            let tid = pid.as_raw_nonzero().get().cast_unsigned();
            let set = |setting| ThreadKey::of(tid, setting).map(Key::Thread);
            let cpu = cpus.poller(queue).unwrap_or(cpus.workers[0]);
            lines.push(Line::new(set(ThreadSetting::Affinity)?, cpu.to_string()));
            if receive == Receive::Irq {
                lines.push(Line::new(set(ThreadSetting::Scheduling)?, format!("fifo {IRQ_PRIORITY}")));
            }
        }
        let ledger = self.noted.as_mut().expect("it was begun above");
        Ok(ledger.apply(&lines)?)
    }

    /// Puts back what was there before the plan.
    pub(crate) fn put_back(&mut self) -> anyhow::Result<()> {
        let mut left = Vec::new();
        if let Some(noted) = self.noted.take() {
            left.extend(noted.put_back().lines());
        }
        let changes = std::mem::take(&mut self.changes);
        if let Interface::Veth(end) = &self.at
            && !changes.is_empty()
        {
            let refused = end.netns().run(|| put_back(&mut sink(end), &changes))?.err();
            left.extend(refused.iter().flatten().map(ToString::to_string));
        }
        ensure!(left.is_empty(), "not put back: {}", left.join("; "));
        Ok(())
    }

    fn pin_threads(&self, cpus: &CpuLayout) -> anyhow::Result<()> {
        for (queue, pid) in self.threads()?.into_iter().enumerate() {
            let cpu = cpus.poller(queue).unwrap_or(cpus.workers[0]);
            let mut set = CpuSet::new();
            set.set(cpu);
            rustix::thread::sched_setaffinity(Some(pid), &set)
                .with_context(|| format!("pinning the thread of queue {queue} to CPU {cpu}"))?;
        }
        Ok(())
    }

    /// Instances, the oldest first.
    fn napis(&self) -> anyhow::Result<Vec<NapiInfo>> {
        match &self.at {
            Interface::Veth(end) => Ok(end.napis()?),
            Interface::On(OnInterface { device, .. }) => {
                let listed = netdev::napi_dump(Some(device.ifindex));
                let mut napis = listed.map_err(|error| anyhow!("listing the instances of {}: {error}", device.name))?;
                napis.sort_by_key(|napi| napi.id);
                Ok(napis)
            }
        }
    }

    /// Threads that poll the instances, one each, if they are threaded.
    fn threads(&self) -> anyhow::Result<Vec<Pid>> {
        let pids = self.napis()?.into_iter().filter_map(|napi| napi.pid);
        Ok(pids.filter_map(|pid| Pid::from_raw(pid.cast_signed())).collect())
    }

    /// CPU time of those threads.
    pub(crate) fn thread_cpu(&self) -> anyhow::Result<Duration> {
        Ok(self.threads()?.into_iter().map(|pid| threads::cpu_of(pid.as_raw_nonzero().get().cast_unsigned())).sum())
    }

    /// Why this kernel cannot run a mode; `None` if it can. The mode is applied to find out, and taken back.
    pub(crate) fn why_not(&mut self, subject: Subject, cpus: &CpuLayout) -> Option<String> {
        let plan = subject.mode.plan();
        let tried = self.put_in_force(&plan, subject.receive, cpus).and_then(|()| {
            let stop = KernelStop::new()?;
            KernelNet::new(&stop, &plan).map(drop).context("an event context of the kernel")
        });
        let tried = tried.and_then(|()| self.put_back());
        let since = match subject.mode {
            Mode::ThreadedBusyPoll => " (NAPI threads that busy poll are in Linux since 6.19)",
            _ => "",
        };
        tried.err().map(|error| format!("the kernel refuses: {error:#}{since}"))
    }
}

fn sink(end: &VethEnd) -> KernelSink<'_> {
    KernelSink::Interface { name: end.name(), ifindex: end.ifindex() }
}

/// The plan with a thread that polls in place of the softirq.
fn by_thread(plan: &Plan) -> Plan {
    let threaded = |write: &Write| match write {
        Write::Instance(NapiChange::Threaded(_)) => Write::Instance(NapiChange::Threaded(ThreadedSetting::Enabled)),
        other => *other,
    };
    plan.writes().map(threaded).collect()
}

/// Why a program that was not made for it cannot run a mode from outside; `None` if it can.
pub(crate) fn why_no_program(program: &ProgramConfig, mode: Mode) -> Option<String> {
    let refused = program.library(&mode.plan()).err()?;
    Some(format!("its waits have to poll, which takes a library in the program: {refused}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_a_library_is_refused_where_none_can_be_loaded() {
        let why = |mode: &str| {
            let program = ProgramConfig { command: vec!["/proc/self/status".to_owned()], speaks: None };
            why_no_program(&program, mode.parse().unwrap())
        };
        assert!(why("fullbusy").is_some_and(|why| why.contains("linked statically")));
        assert_eq!((why("suspend20"), why("busy-read")), (None, None));
    }

    #[test]
    fn a_thread_takes_the_place_of_the_softirq_and_nothing_else_changes() {
        let plan = Mode::Suspend { us: 20 }.plan();
        let changed = by_thread(&plan);
        let other = plan.writes().zip(changed.writes()).filter(|(one, other)| one != other).count();
        assert_eq!((other, changed.writes().count()), (1, plan.writes().count()));
        assert!(changed.changes().any(|change| change == NapiChange::Threaded(ThreadedSetting::Enabled)));
    }
}

//! The softirq CPUs of an engine, and what a program's thread that calls the engine does for the one that it runs on.

use std::ops::Deref;
use std::sync::Arc;

use super::SoftirqCpu;
use crate::deliver::Deliver;
use crate::napi::{Context, Napi};
use napier_stack::host::IrqHandOver;

/// All softirq CPUs, by their number.
pub(crate) struct SoftirqCpus {
    cpus: Box<[Arc<SoftirqCpu>]>,
    /// Number by processor; [`NONE`] if it has none.
    by_processor: Box<[u32]>,
}

const NONE: u32 = u32::MAX;

impl SoftirqCpus {
    /// One for each of these processors; their threads come with [`start`](super::start).
    ///
    /// # Errors
    /// One gets no descriptors.
    pub(in crate::deliver) fn new(processors: &[usize], pinned: bool) -> rustix::io::Result<Self> {
        let mut by_processor = vec![NONE; processors.iter().max().map_or(0, |cpu| cpu + 1)];
        let mut cpus = Vec::with_capacity(processors.len());
        for (index, &cpu) in (0..).zip(processors) {
            by_processor[cpu] = index;
            cpus.push(Arc::new(SoftirqCpu::new(index, cpu, pinned)?));
        }
        Ok(Self { cpus: cpus.into(), by_processor: by_processor.into() })
    }

    /// The number of a processor's.
    #[inline]
    pub(crate) fn index_of(&self, processor: usize) -> Option<u32> {
        self.by_processor.get(processor).copied().filter(|index| *index != NONE)
    }

    /// The one that the calling thread counts as being on; for a thread on a processor without one, that which takes the
    /// instance's interrupt.
    #[inline]
    pub(in crate::deliver) fn of(&self, cx: Context, napi: &Napi) -> &SoftirqCpu {
        let index = cx.softirq_cpu().or_else(|| self.index_of(rustix::thread::sched_getcpu()));
        &self.cpus[index.unwrap_or_else(|| napi.irq_cpu()) as usize]
    }

    /// The calling thread, a program's that holds nothing, is about to sleep unless `ready`: nothing is held back that its
    /// processor would be interrupted for. If it may work for others meanwhile, and no other thread does: its processor's softirq.
    #[inline]
    pub(crate) fn prepare_to_wait(&self, deliver: &Deliver, ready: &dyn Fn() -> bool) -> Option<Arc<dyn IrqHandOver>> {
        let cx = Context::current();
        if self.holds_any() {
            self.release_holds(cx, deliver, ready);
            if ready() {
                return None;
            }
        }
        self.hand_over(cx, deliver)
    }

    /// The calling thread, a program's that holds nothing, does what was deferred on its processor: holds whose time has come
    /// are ended, and timers that are due are run, and the kernel's timer need not.
    #[inline]
    pub(crate) fn poll_deferred(&self, deliver: &Deliver) {
        let holds = self.holds_any();
        if !holds && !self.any_timer_is_due(deliver) {
            return;
        }
        let cx = Context::current();
        let Some(cpu) = self.cpu_of_program(cx) else { return };
        if holds {
            let cx = cx.poll_on();
            cpu.end_due_holds(*cx, deliver, deliver.clock.now(), true);
        }
        cpu.run_deferred_timers(cx, deliver);
    }

    fn any_timer_is_due(&self, deliver: &Deliver) -> bool {
        self.cpus.iter().any(|cpu| cpu.has_timers()) && {
            let now = deliver.clock.now();
            self.cpus.iter().any(|cpu| cpu.timer_is_due(now))
        }
    }

    /// The softirq CPU of the processor that a program runs on; none in the midst of a softirq.
    fn cpu_of_program(&self, cx: Context) -> Option<&SoftirqCpu> {
        if cx.in_softirq() || cx.thread_of().is_some() {
            return None;
        }
        self.index_of(rustix::thread::sched_getcpu()).map(|index| &*self.cpus[index as usize])
    }

    /// Whether some CPU may have a hold: one load for each, and there are few.
    #[inline]
    fn holds_any(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.holds.any())
    }

    fn release_holds(&self, cx: Context, deliver: &Deliver, ready: &dyn Fn() -> bool) {
        let Some(cpu) = self.cpu_of_program(cx) else { return };
        let cx = cx.poll_on();
        cpu.end_holds(*cx, deliver);
        // What was polled just now may be for others, and this thread goes to sleep after all.
        if cpu.holds.any() && !ready() {
            cpu.end_holds(*cx.unmoderated(), deliver);
        }
    }

    /// The softirq of the CPU where the calling thread is, if that may work for others and no other thread has it.
    pub(super) fn hand_over(&self, cx: Context, deliver: &Deliver) -> Option<Arc<dyn IrqHandOver>> {
        if !cx.may_run_inline() || cx.serves() || deliver.stopping() {
            return None;
        }
        let index = self.index_of(rustix::thread::sched_getcpu())?;
        self.cpus[index as usize].hand_over.take()
    }
}

impl Deref for SoftirqCpus {
    type Target = [Arc<SoftirqCpu>];

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.cpus
    }
}

impl<'a> IntoIterator for &'a SoftirqCpus {
    type Item = &'a Arc<SoftirqCpu>;
    type IntoIter = std::slice::Iter<'a, Arc<SoftirqCpu>>;

    fn into_iter(self) -> Self::IntoIter {
        self.cpus.iter()
    }
}

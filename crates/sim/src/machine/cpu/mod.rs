//! The CPUs of the machine: levels and threads, how threads get to a CPU, what work costs there.

pub(crate) mod ctx;
pub(crate) mod place;
pub(crate) mod sched;
pub(crate) mod spend;
pub(crate) mod trace;
pub(crate) mod work;

use napier_core::time::Span;

use crate::machine::cpu::ctx::Ctx;
use crate::machine::cpu::place::Placement;
use crate::machine::cpu::sched::Cpu;
use crate::machine::cpu::trace::Stretches;
use crate::machine::cpu::work::{Disturbance, WorkCosts};
use crate::machine::sim::Sim;
use crate::machine::sim::event::CtxId;
use napier_scenario::Machine;

/// The CPUs, and the contexts that run there.
pub(crate) struct Cpus {
    below: Sim,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) ctxs: Vec<Ctx>,
    /// CPU time that is wanted by others, per CPU and policy (fair, FIFO).
    pub(crate) hogs: Vec<[(CtxId, u64); 2]>,
    pub(crate) costs: WorkCosts,
    pub(crate) disturbance: Disturbance,
    /// A CPU that was idle for so long sleeps deeply; 0: never.
    pub(crate) deep_after: Span,
    pub(crate) places: Placement,
    /// The CPU whose code goes on now; none while an event is carried out.
    pub(crate) on_cpu: Option<usize>,
    /// Threads that were put on another CPU.
    pub(crate) migrations: u64,
    /// What each CPU did, in runs to look at.
    pub(crate) trace: Option<Box<Stretches>>,
}

stands_on!(Cpus, Sim);

impl Cpus {
    pub(crate) fn new(below: Sim, machine: &Machine) -> Self {
        Self {
            below,
            cpus: Vec::new(),
            ctxs: Vec::new(),
            hogs: Vec::new(),
            costs: WorkCosts::from(&machine.costs),
            disturbance: Disturbance::default(),
            deep_after: Span::ZERO,
            places: Placement::default(),
            on_cpu: None,
            migrations: 0,
            trace: None,
        }
    }
}

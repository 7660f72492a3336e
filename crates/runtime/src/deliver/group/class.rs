//! The scheduling class of a group's threads, which the control path sets from outside.

use std::sync::atomic::Ordering;

use napier_core::group::{GiveWay, GroupCpu};
use napier_core::time::{Instant, Span};
use napier_sys::sched::{available_cpus, set_class_of};
use napier_sys::topology::is_isolated;

use super::control::GroupChangeError;
use super::{CpuPoller, Group, GroupTable};
use crate::deliver::softirq::class::FIFO_PRIORITY;

/// Below interrupt and softirq threads, which the group's own work may wait for.
const PRIORITY: i32 = FIFO_PRIORITY - 1;
/// Other threads of a CPU wait at most this long for a real-time thread.
const GIVE_WAY: Span = Span::from_ms(1);
/// And run for this long. The virtual machine has the same two.
const ASIDE: std::time::Duration = std::time::Duration::from_micros(50);

/// In which scheduling class a group polls.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum GroupClass {
    /// `SCHED_FIFO` on CPUs that the system keeps other threads from, where it is granted; elsewhere `SCHED_OTHER`.
    #[default]
    Auto,
    /// `SCHED_OTHER`.
    Other,
    /// `SCHED_FIFO`, on every CPU; on one with other threads it steps aside for 50 us after each ms.
    Fifo,
}

impl GroupClass {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Other, Self::Fifo];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Other => "other",
            Self::Fifo => "fifo",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

impl CpuPoller {
    /// Puts its thread into the class.
    ///
    /// # Errors
    /// [`GroupClass::Fifo`] was asked for and is not granted; nothing has changed.
    pub(super) fn set_class(&self, class: GroupClass) -> Result<(), GroupChangeError> {
        let isolated = is_isolated(self.cpu.0);
        let wanted = class == GroupClass::Fifo || class == GroupClass::Auto && isolated;
        let answer = set_class_of(self.pid.load(Ordering::Relaxed), wanted.then_some(PRIORITY));
        match answer {
            Err(error) if class == GroupClass::Fifo => {
                return Err(GroupChangeError::ClassNotGranted { cpu: self.cpu.0, error });
            }
            answer => self.fifo.store(wanted && answer.is_ok(), Ordering::Relaxed),
        }
        self.shared.store(!isolated, Ordering::Relaxed);
        Ok(())
    }
}

impl Group {
    /// Puts all its threads into the class, or none.
    ///
    /// # Errors
    /// As [`CpuPoller::set_class`].
    pub(super) fn set_class(&self, class: GroupClass) -> Result<(), GroupChangeError> {
        let mut before = self.class.lock().expect("only stored");
        let pollers = self.pollers.load_full();
        for (nth, poller) in pollers.iter().enumerate() {
            if let Err(error) = poller.set_class(class) {
                // What was in force is granted again.
                pollers[..nth].iter().for_each(|poller| _ = poller.set_class(*before));
                return Err(error);
            }
        }
        *before = class;
        Ok(())
    }
}

impl GroupTable {
    /// Whether programs have a CPU without a real-time thread that polls, if this group gets the class and the CPU.
    pub(super) fn leaves_a_cpu(
        &self,
        group: &Group,
        class: GroupClass,
        more: Option<GroupCpu>,
    ) -> Result<(), GroupChangeError> {
        if class != GroupClass::Fifo {
            return Ok(());
        }
        let is_fifo = |other: &Group| *other.class.lock().expect("only stored") == GroupClass::Fifo;
        let running = self.running.load();
        let cpus_of = |group: &Group| group.pollers.load().iter().map(|poller| poller.cpu).collect::<Vec<_>>();
        let others = running.iter().filter(|other| other.name != group.name && is_fifo(other));
        let taken: Vec<GroupCpu> = others.flat_map(|other| cpus_of(other)).chain(cpus_of(group)).chain(more).collect();
        let is_left = |cpu: &usize| !taken.iter().any(|taken| usize::from(taken.0) == *cpu);
        if available_cpus().iter().any(is_left) { Ok(()) } else { Err(GroupChangeError::NoCpuLeft) }
    }
}

/// Between two rounds: a real-time thread lets the others of its CPU run. True: it did.
pub(super) fn step_aside(poller: &CpuPoller, way: &mut GiveWay, now: Instant) -> bool {
    let others = poller.fifo.load(Ordering::Relaxed) && poller.shared.load(Ordering::Relaxed);
    let aside = way.asks(now, others);
    if aside {
        std::thread::sleep(ASIDE);
    }
    aside
}

/// The bound for other threads.
pub(super) const fn way() -> GiveWay {
    GiveWay::new(GIVE_WAY)
}

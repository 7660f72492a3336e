//! Which CPU of a scenario takes what, and how many processors it needs.

use napier_core::control::ThreadedSetting;
use napier_scenario::{Action, Call, CpuIx, Device, Machine, NapiIx, Scenario, ThreadIx};

use super::refused;
use crate::Refused;

/// The CPU that takes the interrupts of a queue.
pub(crate) fn irq_cpu(machine: &Machine, device: &Device, queue: u16) -> CpuIx {
    match device.irq_cpu.as_slice() {
        [] => CpuIx(queue % machine.cpus),
        list => list[usize::from(queue) % list.len()],
    }
}

/// The CPU of the thread of a queue's instance.
pub(crate) fn thread_cpu(machine: &Machine, device: &Device, queue: u16) -> CpuIx {
    match device.thread_cpu.as_slice() {
        [] => irq_cpu(machine, device, queue),
        list => list[usize::from(queue) % list.len()],
    }
}

/// Refuses a scenario that needs more processors than there are. `receives`: a call that must be made on the CPU of its thread.
///
/// # Errors
/// See above.
pub(crate) fn check(scenario: &Scenario, cpus: usize, receives: impl Fn(&Call) -> bool) -> Result<(), Refused> {
    let machine = &scenario.machine;
    let mut needed = 1;
    for napi in (0..machine.napis()).map(NapiIx) {
        let (device, queue) = machine.queue_of(napi);
        let device = &machine.devices[device.at()];
        needed = needed.max(irq_cpu(machine, device, queue).at() + 1);
        if device.threaded != ThreadedSetting::Disabled || !device.thread_cpu.is_empty() {
            needed = needed.max(thread_cpu(machine, device, queue).at() + 1);
        }
    }
    for (me, thread) in (0..).map(ThreadIx).zip(&machine.threads) {
        // A thread that only gives orders may do so from anywhere.
        let polls = scenario
            .timeline
            .iter()
            .any(|step| matches!(&step.action, Action::Call { thread, call } if *thread == me && receives(call)));
        if polls {
            needed = needed.max(thread.cpu.at() + 1);
        }
    }
    if needed > cpus {
        return Err(refused(format!("it needs {needed} processors, and this machine has {cpus}")));
    }
    Ok(())
}

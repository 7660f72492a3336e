//! Which CPU each queue's work has: the interrupts of a queue, its NAPI thread and the worker of that number have one and the
//! same. For [`crate::doctor`] too, so that it does not find wrong what [`crate::tune`] does.

use crate::facts::{DeviceFacts, Facts, Instance, Irq, Thread};
use crate::irqs::Role;

/// The CPU of a queue.
pub(crate) fn cpu_of(queue: u32, cpus: &[u32]) -> Option<u32> {
    cpus.get(queue as usize % cpus.len().max(1)).copied()
}

/// Each interrupt of a queue with its CPU. Those of one queue go together, whatever their order is; those whose queue is not known are
/// dealt by their order, each role by itself. Interrupts that are for no packets are left out.
pub(crate) fn irqs<'a>(device: &'a DeviceFacts, cpus: &[u32]) -> Vec<(&'a Irq, u32)> {
    let mut unknown = [0_u32; 3];
    let of = |irq: &'a Irq| {
        let queue = irq.queue.unwrap_or_else(|| {
            let at = match irq.role {
                Role::Receive => 0,
                Role::Transmit => 1,
                Role::Both | Role::Control => 2,
            };
            unknown[at] += 1;
            unknown[at] - 1
        });
        Some((irq, cpu_of(queue, cpus)?))
    };
    device.queue_irqs().filter_map(of).collect()
}

/// The queue that an instance's work is dealt by: that which it receives from, or the number of its interrupt, or its place.
pub(crate) fn number_of(device: &DeviceFacts, instance: &Instance) -> u32 {
    let by_irq = || device.irqs.iter().find(|irq| instance.irq == Some(irq.number)).and_then(|irq| irq.queue);
    device.queue_of(instance).or_else(by_irq).unwrap_or(instance.place)
}

/// Each thread of an instance with its CPU.
pub(crate) fn threads<'a>(device: &'a DeviceFacts, cpus: &[u32]) -> Vec<(&'a Instance, &'a Thread, u32)> {
    let of = |instance: &'a Instance| {
        Some((instance, instance.thread.as_ref()?, cpu_of(number_of(device, instance), cpus)?))
    };
    device.instances().iter().filter_map(of).collect()
}

/// CPUs near the device that are online: those of its node, or all.
pub(crate) fn near(facts: &Facts, device: &DeviceFacts) -> Vec<u32> {
    let node = facts.cpus.nodes.iter().find(|node| Some(node.id) == device.numa_node);
    let all = &facts.cpus.online;
    let own: Vec<u32> = all.iter().copied().filter(|cpu| node.is_none_or(|node| node.cpus.contains(cpu))).collect();
    if own.is_empty() { all.clone() } else { own }
}

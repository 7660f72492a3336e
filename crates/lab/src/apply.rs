//! Plans applied to the engine.

use napier_core::control::plan::{Plan, Write, apply};
use napier_runtime::device::DeviceHandle;
use napier_runtime::engine::{Engine, EngineSink, GroupSettings};

use crate::modes::Mode;

/// Sets a plan on every queue of a device that has a peer (a memif device has none before its peer is there), by the calls
/// that a user would make. `poller` is the processor for the thread that polls the instance of a queue; none is pinned
/// without one.
pub(crate) fn on_device(
    engine: &Engine,
    device: &DeviceHandle,
    plan: &Plan,
    poller: impl Fn(usize) -> Option<usize>,
) -> anyhow::Result<()> {
    for queue in 0..device.queues() {
        let id = device.napi_id(queue);
        if id != 0
            && let Some(cpu) = poller(queue.into())
        {
            engine.set_thread_affinity(id, cpu)?;
        }
    }
    apply(&mut EngineSink::Device(engine, device), plan)?;
    Ok(())
}

/// The group that the mode of that name makes.
pub(crate) const GROUP: &str = "napier";

/// Applies a mode. A group of CPUs polls all queues of the device, where that is the mode; `poller` says which processors it has.
pub(crate) fn mode_on_device(
    engine: &Engine,
    device: &DeviceHandle,
    mode: Mode,
    poller: impl Fn(usize) -> Option<usize>,
) -> anyhow::Result<()> {
    on_device(engine, device, &mode.plan(), &poller)?;
    if mode != Mode::Group {
        return Ok(());
    }
    let mut cpus: Vec<usize> = (0..device.queues()).filter_map(|queue| poller(queue.into())).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if !engine.groups().iter().any(|group| group.name == GROUP) {
        engine.group_new(GROUP, &cpus, GroupSettings::default())?;
    }
    let has = |id: u32| engine.groups().iter().any(|group| group.members.iter().any(|member| member.napi_id == id));
    for id in (0..device.queues()).map(|queue| device.napi_id(queue)) {
        if id != 0 && !has(id) {
            engine.group_attach(GROUP, id)?;
        }
    }
    Ok(())
}

/// The same for an experiment that sets what no mode does.
pub(crate) fn writes_on_device(
    engine: &Engine,
    device: &DeviceHandle,
    writes: impl IntoIterator<Item = Write>,
) -> anyhow::Result<()> {
    on_device(engine, device, &writes.into_iter().collect(), |_| None)
}

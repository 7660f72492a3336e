//! Plans put into force on the engine.

use napier_core::control::plan::{Plan, Write, apply};
use napier_runtime::device::DeviceHandle;
use napier_runtime::engine::{Engine, EngineSink};

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

/// The same for an experiment that sets what no mode does.
pub(crate) fn writes_on_device(
    engine: &Engine,
    device: &DeviceHandle,
    writes: impl IntoIterator<Item = Write>,
) -> anyhow::Result<()> {
    on_device(engine, device, &writes.into_iter().collect(), |_| None)
}

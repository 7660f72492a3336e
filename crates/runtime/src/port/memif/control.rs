//! The control channel of an engine's memif devices, and its two threads.
//!
//! One thread listens, connects, shakes hands and notices that a peer has gone ([`Peers`]); it alone has what it works on, so no
//! thread waits for it. The other is the guard. Packets pass through neither, and neither runs a softirq.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use napier_memif::drive::{AddedInterface, Channel, Peers, Reservation};
use napier_ring::FrameTable;

use super::handler::{DeviceHandler, PortParts};
use super::{AddMemifError, MemifConfig, Parts};
use crate::bounds::mtu_of;
use crate::port::{AddedDevice, EndConfig, Made, PortKind, Service, ServiceHost};
use crate::threads::{ThreadRole, pass_on};
use napier_sys::sched;

/// Above the softirq threads (50), which may be who waits for the guard. It runs for some microseconds at a time.
const GUARD_PRIORITY: i32 = 51;

struct Running {
    channel: Arc<Channel>,
    threads: Vec<JoinHandle<()>>,
}

/// The control channel of an engine's memif devices. Locked for moments only.
#[derive(Default)]
pub(crate) struct Control {
    running: Mutex<Option<Running>>,
}

impl Control {
    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().expect("no panic while held")
    }

    /// Begins to add a device: its number is taken.
    ///
    /// # Errors
    ///
    /// See [`AddMemifError`]; nothing is taken then.
    pub(crate) fn reserve(&self, host: &dyn ServiceHost, config: MemifConfig) -> Result<NewMemif, AddMemifError> {
        config.check()?;
        let reserved = self.started(host)?.reserve(config.interface())?;
        Ok(NewMemif { config, reserved, parts: None })
    }

    fn started(&self, host: &dyn ServiceHost) -> Result<Arc<Channel>, AddMemifError> {
        let mut running = self.lock();
        if let Some(running) = &*running {
            return Ok(running.channel.clone());
        }
        let channel = Channel::new()?;
        let spawn = |name, work| host.spawn(name, ThreadRole::MemifControl, work);
        let (guarded, fifo) = (channel.clone(), host.has_fifo());
        let on_guard = move || {
            if fifo {
                // As well as it goes.
                let _ = sched::set_fifo(GUARD_PRIORITY);
            }
            guarded.guard();
        };
        let on_guard = spawn("memif-guard", Box::new(on_guard))?;
        let driven = channel.clone();
        let control = spawn("memif", Box::new(move || run(driven)));
        let control = control.inspect_err(|_| channel.stopped())?;
        *running = Some(Running { channel: channel.clone(), threads: vec![control, on_guard] });
        Ok(channel)
    }
}

impl Service for Control {
    /// Tells every peer and stops; the engine is going away.
    fn stop(&self) {
        let Some(Running { channel, threads }) = self.lock().take() else { return };
        channel.stop();
        let mut panicked = None;
        for thread in threads {
            panicked = thread.join().err().or(panicked);
            // After the control thread: its last peers may make a thread wait.
            channel.stopped();
        }
        if let Some(panic) = panicked {
            pass_on(panic);
        }
    }
}

/// A device that is about to be added.
pub(crate) struct NewMemif {
    config: MemifConfig,
    reserved: Reservation,
    parts: Option<PortParts>,
}

impl PortKind for NewMemif {
    type Error = AddMemifError;

    fn shape(&self) -> (u16, u32) {
        (self.config.queues, mtu_of(self.config.frame_bytes))
    }

    fn make(&mut self, _end: &mut EndConfig, frames: &Arc<FrameTable>) -> Result<Made, AddMemifError> {
        let Parts { ports, lines } = Parts::new(&self.config, frames)?;
        let counters =
            ports.queues.iter().map(|queue| (queue.rx.counters().clone(), queue.tx.counters().clone())).collect();
        self.parts = Some(PortParts { lines, counters });
        Ok(Made { ports, mtu: self.shape().1, unusable: Some("no peer has connected yet".to_owned()) })
    }

    /// Lets it look for its peer.
    fn added(self, device: Arc<dyn AddedDevice>) -> Option<Box<dyn Any + Send>> {
        let Self { config, reserved, parts } = self;
        let (frame_bytes, keep_connections) = (config.frame_bytes as usize, config.keep_connections);
        let handler = DeviceHandler { device: device.clone(), parts: parts?, frame_bytes, keep_connections };
        let interface = reserved.add(device.name(), Arc::new(handler));
        Some(Box::new(Attachment(Some(interface))))
    }
}

/// A device's place in the control channel, which it leaves with this.
struct Attachment(Option<AddedInterface>);

impl Drop for Attachment {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(AddedInterface::remove);
    }
}

fn run(channel: Arc<Channel>) {
    napier_sys::nowait::this_thread();
    let mut peers = Peers::new(channel);
    while peers.turn(None) {}
}

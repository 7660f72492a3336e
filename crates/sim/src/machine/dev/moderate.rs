//! When a NIC interrupts.

use napier_core::moderation::Moderated;
use napier_core::time::Deadline;

use crate::machine::dev::Devices;
use crate::machine::dev::nic::OnFrame;
use crate::machine::sim::event::{Ev, HardIrq};

impl Devices {
    /// A frame came while the interrupt is unmasked.
    pub(crate) fn moderate(&mut self, napi: usize) {
        let now = self.now;
        if let Some(nic) = &mut self.napis[napi].nic {
            match nic.on_frame(now) {
                OnFrame::Fire => {
                    nic.done();
                    self.raise_irq(napi);
                }
                OnFrame::Wait => {}
                OnFrame::StartTimer(span) => {
                    let generation = nic.generation;
                    self.push(Deadline::after(now, span), Ev::Coalesce { napi, generation });
                }
            }
            return;
        }
        let (dev, queue) = (self.napis[napi].dev, usize::from(self.napis[napi].queue));
        let now = self.now;
        let (moderation, generation) = &mut self.devs[dev].moderation[queue];
        match moderation.on_frames(1, now) {
            Moderated::Fire => self.raise_irq(napi),
            Moderated::StartTimer(span) => {
                *generation += 1;
                let generation = *generation;
                self.push(Deadline::after(now, span), Ev::Coalesce { napi, generation });
            }
            // A timer runs, or the interrupt has been raised since the last unmask.
            Moderated::Wait => {}
        }
    }

    /// A card that moderates by itself finds what came while it was masked; false if it does not moderate.
    pub(crate) fn look_at_ring(&mut self, napi: usize) -> bool {
        if self.napis[napi].nic.is_none() {
            return false;
        }
        self.moderate(napi);
        true
    }

    /// The coalescing time is over.
    pub(crate) fn coalesce_expires(&mut self, napi: usize, generation: u32) {
        let n = &mut self.napis[napi];
        if let Some(nic) = &mut n.nic {
            if nic.on_timer(generation) && !n.masked {
                nic.done();
                self.raise_irq(napi);
            }
            return;
        }
        let (dev, queue) = (self.napis[napi].dev, usize::from(self.napis[napi].queue));
        let now = self.now;
        let (moderation, current) = &mut self.devs[dev].moderation[queue];
        if *current == generation && moderation.on_timer(now) && !self.napis[napi].masked {
            self.raise_irq(napi);
        }
    }

    /// The device may interrupt again.
    pub(crate) fn rearm_irq(&mut self, napi: usize) {
        let now = self.now;
        let n = &mut self.napis[napi];
        if let Some(nic) = &mut n.nic {
            nic.done();
            nic.completed(now, n.packets, n.wire_bytes, n.interrupts);
        }
        let (dev, queue) = (self.napis[napi].dev, usize::from(self.napis[napi].queue));
        self.napis[napi].masked = false;
        let (moderation, generation) = &mut self.devs[dev].moderation[queue];
        *generation += 1;
        moderation.on_unmask();
        self.touch(napi);
    }

    /// The interrupt goes to its CPU; one that is under way is enough.
    pub(crate) fn raise_irq(&mut self, napi: usize) {
        let n = &mut self.napis[napi];
        if std::mem::replace(&mut n.irq_latched, true) {
            return;
        }
        let cpu = n.irq_cpu;
        let delay = self.irq_delay();
        let at = self.after(delay);
        self.push(at, Ev::Irq { cpu, irq: HardIrq::Device { napi } });
        if self.spurious() {
            self.push(at, Ev::Irq { cpu, irq: HardIrq::Schedule { napi } });
        }
    }
}

//! What a device keeps of its instances while they are disabled.

use crate::machine::dev::Devices;
use napier_scenario::Event;

impl Devices {
    /// First instance and number of instances of a device's queues in use.
    pub(crate) fn queues(&self, dev: usize) -> (usize, usize) {
        (self.devs[dev].first_napi, self.devs[dev].queues.into())
    }

    /// What an instance with persistent configuration was, or a new id.
    pub(crate) fn restore_config(&mut self, napi: usize) {
        let (dev, queue) = (self.napis[napi].dev, usize::from(self.napis[napi].queue));
        let no_id = self.devs[dev].no_busy_poll;
        let in_use: Vec<u32> = self.napis.iter().filter(|n| n.id_visible).map(|n| n.id).collect();
        let kept: Vec<u32> = self.devs.iter().flat_map(|d| d.config.slots()).filter_map(|slot| slot.napi_id).collect();
        let ids = &mut self.ids;
        let mut new_id = || ids.allocate(|id| in_use.contains(&id) || kept.contains(&id));
        if self.devs[dev].persistent {
            let slot = self.devs[dev].config.restore(queue, || if no_id { 0 } else { new_id() });
            let n = &mut self.napis[napi];
            n.tunables = slot.tunables;
            n.threaded = slot.threaded;
            n.id = slot.napi_id.unwrap_or(0);
        } else {
            self.napis[napi].id = if no_id { 0 } else { new_id() };
        }
    }

    pub(crate) fn save_config(&mut self, napi: usize) {
        let (dev, queue) = (self.napis[napi].dev, usize::from(self.napis[napi].queue));
        let tunables = self.napis[napi].tunables;
        self.devs[dev].config.save(queue, tunables);
    }

    /// The thread has left its loop for good.
    pub(crate) fn thread_ended(&mut self, napi: usize) {
        let n = &mut self.napis[napi];
        n.thread_stop = false;
        if std::mem::take(&mut n.has_thread) {
            let index = n.index;
            self.note(Event::KthreadStop { napi: index });
        }
    }
}

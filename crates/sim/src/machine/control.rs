//! The control plane: netlink requests, device files, knobs.

use napier_core::control::{
    DevAttribute, DevSet, DevSetting, DeviceQueues, Errno, NapiChange, NapiGet, NapiInfo, NapiSet, QueueGet,
    ThreadedSetting, check_dump_filter, device_threaded_in_force, parse_number, sort_dump,
};
use napier_core::softirq::netdev_budget_of;

use super::vm::K;
use super::world::World;
use napier_scenario::{Answer, DeviceIx, NapiRef};

/// Index of the first device; 1 is loopback.
const FIRST_IFINDEX: u32 = 2;

impl K {
    /// napi-set.
    pub(super) async fn napi_set(
        &self,
        napi: NapiRef,
        attributes: &[(String, u64)],
        capable: bool,
    ) -> Result<(), Errno> {
        let mut request = NapiSet { id: self.w().id_of(napi), ..NapiSet::default() };
        for (name, value) in attributes {
            request.attribute(name, *value).map_err(|error| error.errno())?;
        }
        let checked = request.check(capable).map_err(|error| error.errno())?;
        let dev = {
            let w = self.w();
            let found = w.by_id(checked.id()).ok_or_else(|| checked.no_such_napi().errno())?;
            w.napis[found].dev
        };
        self.lock(dev).await;
        let result = self.apply_changes(checked).await;
        self.unlock(dev);
        result
    }

    async fn apply_changes(&self, checked: napier_core::control::CheckedNapiSet) -> Result<(), Errno> {
        // Looked up again under the lock: the device may have gone down meanwhile.
        let napi = self.w().by_id(checked.id()).ok_or_else(|| checked.no_such_napi().errno())?;
        for change in checked.changes() {
            self.apply(napi, change).await?;
        }
        Ok(())
    }

    async fn apply(&self, napi: usize, change: NapiChange) -> Result<(), Errno> {
        if let NapiChange::Threaded(setting) = change {
            return self.napi_set_threaded(napi, setting).await;
        }
        let applied = change.apply(&mut self.w().napis[napi].tunables);
        assert!(applied, "threaded was handled above");
        self.op().await;
        Ok(())
    }

    /// Writes a device file.
    pub(super) async fn write_file(
        &self,
        dev: usize,
        attribute: DevAttribute,
        value: &str,
        capable: bool,
    ) -> Result<(), Errno> {
        let listed = self.w().listed(dev).count();
        // The kernel asks for the capability before it parses.
        let value = if capable { parse_number(value).map_err(|error| error.errno())? } else { 0 };
        let setting = DevSet { attribute, value }.check(capable, listed).map_err(|error| error.errno())?;
        self.lock(dev).await;
        let result = self.write_all(dev, setting).await;
        self.unlock(dev);
        result
    }

    /// A device setting reaches every listed instance and every configuration slot.
    async fn write_all(&self, dev: usize, setting: DevSetting) -> Result<(), Errno> {
        let napis: Vec<usize> = self.w().listed(dev).collect();
        let mut setting = setting;
        let mut failed = None;
        if let DevSetting::Threaded(wanted) = setting
            && wanted != ThreadedSetting::Disabled
        {
            // All threads first: if one fails nobody is threaded.
            failed = napis.iter().find_map(|napi| self.create_thread(*napi).err());
            setting = DevSetting::Threaded(device_threaded_in_force(wanted, failed.is_none()));
        }
        {
            let mut w = self.w();
            w.devs[dev].settings.apply(setting);
            w.devs[dev].config.write_all(setting);
        }
        for napi in napis {
            // Threads exist or are being stopped, so this cannot fail.
            let _ = self.apply(napi, setting.as_napi_change()).await;
        }
        failed.map_or(Ok(()), Err)
    }
}

impl World {
    fn id_of(&self, napi: NapiRef) -> Option<u64> {
        match napi {
            NapiRef::Napi(napi) => Some(self.napis[napi.at()].id.into()),
            NapiRef::Id(id) => Some(id),
            NapiRef::Missing => None,
        }
    }

    /// The instances of a device that exist.
    fn listed(&self, dev: usize) -> impl Iterator<Item = usize> {
        let (first, queues) = self.queues(dev);
        (first..first + queues).filter(|napi| self.napis[*napi].present)
    }

    fn ifindex(dev: usize) -> u32 {
        FIRST_IFINDEX + dev as u32
    }

    fn info(&self, napi: usize) -> NapiInfo {
        let n = &self.napis[napi];
        NapiInfo {
            ifindex: Self::ifindex(n.dev),
            id: n.id,
            irq: Some(n.index.0.into()),
            pid: n.has_thread.then_some(1000 + u32::from(n.index.0)),
            defer_hard_irqs: Some(n.tunables.defer_hard_irqs),
            gro_flush_timeout: Some(n.tunables.gro_flush_timeout),
            irq_suspend_timeout: Some(n.tunables.irq_suspend_timeout),
            threaded: Some(napier_core::state::State::threaded(n.word).into()),
        }
    }

    /// napi-get of one instance.
    pub(super) fn napi_get(&self, napi: NapiRef) -> Answer {
        let found = NapiGet { id: self.id_of(napi) }.check().map_err(|error| error.errno());
        let napi = match found {
            Err(errno) => return Answer::Error(errno),
            Ok(id) => match self.by_id(id) {
                None => return Answer::Error(Errno::ENOENT),
                Some(napi) => napi,
            },
        };
        let info = self.info(napi);
        let attributes = info.attributes().map(|(name, value)| {
            let text = match info.threaded {
                Some(threaded) if name == "threaded" => threaded.name().to_owned(),
                _ => value.to_string(),
            };
            (name.to_owned(), text)
        });
        Answer::Attributes(attributes.collect())
    }

    /// napi-get dump.
    pub(super) fn napi_dump(&self, device: Option<DeviceIx>, ifindex: Option<u64>) -> Answer {
        let wanted = ifindex.or_else(|| device.map(|device| Self::ifindex(device.at()).into()));
        let filter = match check_dump_filter(wanted) {
            Ok(filter) => filter,
            Err(error) => return Answer::Error(error.errno()),
        };
        let known = FIRST_IFINDEX..FIRST_IFINDEX + self.devs.len() as u32;
        if filter.is_some_and(|wanted| !known.contains(&wanted)) {
            return Answer::Error(Errno::ENODEV);
        }
        let mut infos: Vec<NapiInfo> = (0..self.napis.len())
            .filter(|napi| self.napis[*napi].id_visible)
            .map(|napi| self.info(napi))
            .filter(|info| filter.is_none_or(|wanted| info.ifindex == wanted))
            .collect();
        sort_dump(&mut infos);
        let names = infos.iter().filter_map(|info| self.by_id(info.id)).map(|napi| self.napi_name(napi));
        Answer::Names(names.collect())
    }

    /// queue-get of one queue.
    pub(super) fn queue_get(
        &self,
        device: Option<DeviceIx>,
        ifindex: Option<u64>,
        queue: Option<u64>,
        kind: Option<u64>,
    ) -> Answer {
        let ifindex = ifindex.or_else(|| device.map(|device| Self::ifindex(device.at()).into()));
        let checked = match (QueueGet { id: queue, kind, ifindex }).check() {
            Ok(checked) => checked,
            Err(error) => return Answer::Error(error.errno()),
        };
        let dev =
            checked.ifindex.checked_sub(FIRST_IFINDEX).map(|dev| dev as usize).filter(|dev| *dev < self.devs.len());
        let queues = dev.map(|dev| {
            let queues = u32::from(self.devs[dev].queues);
            DeviceQueues { up: self.devs[dev].up, rx: queues, tx: queues }
        });
        let queue = match checked.queue(queues) {
            Ok(queue) => queue,
            Err(error) => return Answer::Error(error.errno()),
        };
        let mut attributes = vec![
            ("id".to_owned(), queue.to_string()),
            ("ifindex".to_owned(), checked.ifindex.to_string()),
            ("type".to_owned(), checked.kind.name().to_owned()),
        ];
        let napi = self.devs[dev.expect("it has queues")].first_napi + queue as usize;
        if self.napis[napi].id_visible {
            attributes.push(("napi-id".to_owned(), self.napi_name(napi)));
        }
        Answer::Attributes(attributes)
    }

    /// Reads a device file: the device's own value.
    pub(super) fn read_file(&self, dev: usize, attribute: DevAttribute) -> String {
        let settings = &self.devs[dev].settings;
        match attribute {
            DevAttribute::GroFlushTimeout => settings.gro_flush_timeout.ns.to_string(),
            DevAttribute::NapiDeferHardIrqs => settings.defer_hard_irqs.to_string(),
            DevAttribute::Threaded => settings.threaded.number().map_or_else(String::new, |number| number.to_string()),
        }
    }

    /// Writes a knob.
    pub(super) fn set_sysctl(&mut self, name: &str, value: i64) -> Result<(), Errno> {
        let natural = || u32::try_from(value).map_err(|_| Errno::EINVAL);
        match name {
            "netdev_budget" => self.sysctl.netdev_budget = i32::try_from(value).map_err(|_| Errno::EINVAL)?,
            "netdev_budget_usecs" => {
                let usecs = natural()?;
                netdev_budget_of(usecs.into(), self.hz).map_err(|_| Errno::EINVAL)?;
                self.sysctl.netdev_budget_usecs = usecs;
            }
            "busy_read" => self.sysctl.busy_read = natural()?,
            "busy_poll" => self.sysctl.busy_poll = natural()?,
            "gro_normal_batch" => match natural()? {
                0 => return Err(Errno::EINVAL),
                batch => self.sysctl.gro_normal_batch = batch,
            },
            "dev_weight" => match natural()? {
                0 => return Err(Errno::EINVAL),
                weight => self.sysctl.dev_weight = weight,
            },
            "qdisc_max_burst" => self.sysctl.qdisc_max_burst = i32::try_from(value).map_err(|_| Errno::EINVAL)?,
            _ => return Err(Errno::ENOENT),
        }
        Ok(())
    }
}

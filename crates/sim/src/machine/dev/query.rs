//! What netlink and device files say of instances and queues.

use napier_core::control::{
    DevAttribute, DeviceQueues, Errno, NapiGet, NapiInfo, QueueGet, check_dump_filter, sort_dump,
};

use crate::machine::dev::Devices;
use napier_scenario::{Answer, DeviceIx, NapiRef};

/// Index of the first device; 1 is loopback.
const FIRST_IFINDEX: u32 = 2;

impl Devices {
    pub(crate) fn id_of(&self, napi: NapiRef) -> Option<u64> {
        match napi {
            NapiRef::Napi(napi) => Some(self.napis[napi.at()].id.into()),
            NapiRef::Id(id) => Some(id),
            NapiRef::Missing => None,
        }
    }

    /// The instances of a device that exist.
    pub(crate) fn listed(&self, dev: usize) -> impl Iterator<Item = usize> {
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
    pub(crate) fn napi_get(&self, napi: NapiRef) -> Answer {
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
    pub(crate) fn napi_dump(&self, device: Option<DeviceIx>, ifindex: Option<u64>) -> Answer {
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
    pub(crate) fn queue_get(
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
    pub(crate) fn read_file(&self, dev: usize, attribute: DevAttribute) -> String {
        let settings = &self.devs[dev].settings;
        match attribute {
            DevAttribute::GroFlushTimeout => settings.gro_flush_timeout.ns.to_string(),
            DevAttribute::NapiDeferHardIrqs => settings.defer_hard_irqs.to_string(),
            DevAttribute::Threaded => settings.threaded.number().map_or_else(String::new, |number| number.to_string()),
        }
    }
}

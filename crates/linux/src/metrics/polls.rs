//! Polls by who made them, where that is asked for: the one thing here that is traced.

use std::collections::BTreeMap;

use napier_core::control::NapiInfo;
use napier_core::metric::{Metric, Sink, Unit};

use super::counter;
use crate::observe::Polling;
use crate::tracefs::TraceError;

pub(super) static POLLS: Metric = counter(
    "napier_kernel_napi_polls",
    Unit::Count,
    "With export --polls: polls of an instance since then, by who made them: a program, by its name, the instance's thread (napi-thread), \
     a softirq, ksoftirqd",
    &["device", "napi_id", "by", "program"],
);

/// Interfaces whose polls are counted.
#[derive(Debug, Default)]
pub(super) struct CountedPolls(Vec<(String, Polling)>);

impl CountedPolls {
    pub(super) fn begin(devices: impl Iterator<Item = String>) -> Result<Self, TraceError> {
        let of = |name: String| {
            let mut polling = Polling::by_instance(&name)?;
            polling.begin()?;
            Ok((name, polling))
        };
        devices.map(of).collect::<Result<_, _>>().map(Self)
    }

    /// Takes what was recorded; an interface that cannot be told of any more stays as it was.
    pub(super) fn look(&mut self) {
        for (_, polling) in &mut self.0 {
            let _ = polling.look();
        }
    }

    pub(super) fn walk(&self, instances: &[NapiInfo], names: &BTreeMap<u32, &str>, sink: &mut dyn Sink) {
        for (device, polling) in &self.0 {
            let own = instances.iter().filter(|info| names.get(&info.ifindex) == Some(&device.as_str()));
            let ids: Vec<u32> = own.map(|info| info.id).collect();
            let mut all: BTreeMap<[String; 3], u64> = BTreeMap::new();
            for (id, polls) in &polling.so_far().of_instances {
                // Of an interface with one instance all are its own, whether or not a packet has told its id.
                let id = match (*id, &ids[..]) {
                    (0, [one]) => one.to_string(),
                    (0, _) => String::new(),
                    (id, _) => id.to_string(),
                };
                for (who, polls) in polls {
                    *all.entry([id.clone(), who.kind().to_owned(), who.program().to_owned()]).or_default() += polls;
                }
            }
            for ([id, by, program], polls) in all {
                sink.sample(&POLLS, &[device, &id, &by, &program], polls);
            }
        }
    }
}

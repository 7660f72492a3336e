//! Which NAPI instance a poll was of: the tracepoint of polls tells an address, and the one of packets an id.

use std::collections::BTreeMap;

use crate::tracefs::{NAPI_POLL, TraceError, TraceEvent, Tracepoint, Tracer};

/// `trace_napi_gro_receive_entry`: a packet that an instance takes, with the instance's id. Source: `include/trace/events/net.h`.
const RECEIVE: Tracepoint = Tracepoint("net", "napi_gro_receive_entry");
/// Buffer of each processor.
const TRACE_KIB: u32 = 64;

/// Learns ids of instances from packets, for as long as one is not known.
#[derive(Debug)]
pub(super) struct InstanceIds {
    tracer: Tracer,
    device: String,
    is_learning: bool,
    known: BTreeMap<String, u32>,
}

impl InstanceIds {
    /// Of interfaces with this name.
    pub(super) fn new(device: &str) -> Result<Self, TraceError> {
        let tracer = Tracer::new()?;
        tracer.buffer(TRACE_KIB)?;
        Ok(Self { tracer, device: device.to_owned(), is_learning: false, known: BTreeMap::new() })
    }

    /// Begins to learn.
    pub(super) fn begin(&mut self) -> Result<(), TraceError> {
        if self.is_learning {
            return Ok(());
        }
        self.tracer.clear()?;
        self.tracer.record(RECEIVE, Some(&format!("name == \"{}\"", self.device)))?;
        self.tracer.record(NAPI_POLL, Some(&format!("dev_name == \"{}\" && work > 0", self.device)))?;
        self.is_learning = true;
        Ok(())
    }

    /// The id of the instance at this address, as the kernel's text has it; 0 where that is not known yet.
    pub(super) fn of(&self, address: &str) -> u32 {
        self.known.get(address).copied().unwrap_or(0)
    }

    /// Takes polls; packets are traced only while instances are polled that have no id yet.
    pub(super) fn look(&mut self, polls: &[TraceEvent]) -> Result<(), TraceError> {
        if self.is_learning {
            let recorded = self.tracer.take()?;
            self.learn(&recorded.events);
        }
        let is_new = |event: &TraceEvent| {
            let has_packets = event.field("work").is_some_and(|work| work != "0");
            has_packets && event.field("struct").is_some_and(|address| !self.known.contains_key(address))
        };
        if polls.iter().any(is_new) {
            self.begin()?;
        } else if self.is_learning && !polls.is_empty() {
            self.tracer.stop()?;
            self.is_learning = false;
        }
        Ok(())
    }

    /// A poll takes its packets on one CPU, and is told when it ends.
    fn learn(&mut self, events: &[TraceEvent]) {
        let mut packets: BTreeMap<u32, u32> = BTreeMap::new();
        for event in events {
            if event.name == RECEIVE.1 {
                packets.extend(event.field("napi_id").and_then(id).map(|id| (event.cpu, id)));
            } else if let Some(id) = packets.remove(&event.cpu) {
                self.known.extend(event.field("struct").map(|address| (address.to_owned(), id)));
            }
        }
    }
}

/// `0x561e`; 0 is no instance.
fn id(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok().filter(|id| *id > 0)
}

//! Where the packets of a port go, as a value of the list: `queue 4`, or `none` without a rule of their own.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ethtool::rules::{self, FlowTo, FlowType};
use crate::ethtool::{EthtoolError, Feature, features};
use crate::setting::text::quoted;
use crate::setting::{DeviceRef, KeyError, Setting};

/// Without a rule.
const NONE: &str = "none";
/// As `ethtool -k` names what switches rules on.
const NTUPLE: &str = "rx-ntuple-filter";

/// The rule for packets to one port. It is known by what it is about, not by its place in the driver's table: which place a rule has is
/// the driver's choice on some cards.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct FlowRuleKey {
    /// The interface.
    pub device: DeviceRef,
    /// Kind of packets.
    pub flow: FlowType,
    /// Port that they go to.
    pub port: u16,
}

impl FlowRuleKey {
    /// The value that sends them to a queue.
    #[must_use]
    pub fn to_queue(queue: u32) -> String {
        format!("queue {queue}")
    }

    fn error(&self, error: EthtoolError) -> KeyError {
        let name = &self.device.name;
        match error {
            EthtoolError::Gone => KeyError::Gone(format!("{name} is gone")),
            EthtoolError::NotPermitted => KeyError::Denied("CAP_NET_ADMIN"),
            EthtoolError::NotHere(_) if self.is_off() => KeyError::NotHere(format!(
                "{name} has its flow rules switched off, which is a setting of the whole card: ethtool -K {name} ntuple on"
            )),
            EthtoolError::NotHere(_) => KeyError::NotHere(format!(
                "the driver of {name} takes no flow rules (ethtool -n {name}), so no port can be sent to a queue: run without --port, and \
                 with --steer let each connection go to the listener of the queue that it arrives on"
            )),
            EthtoolError::Io(error) => KeyError::Io(error),
            error => KeyError::Refused(error.to_string()),
        }
    }

    /// Whether the driver has rules, and they are switched off.
    fn is_off(&self) -> bool {
        let is_it = |feature: &Feature| feature.name == NTUPLE && !feature.active && feature.changeable;
        features(self.device.ifindex).is_ok_and(|all| all.iter().any(is_it))
    }
}

impl Setting for FlowRuleKey {
    fn read(&self) -> Result<Option<String>, KeyError> {
        let found = rules::find(&self.device.name_now()?, self.flow, self.port).map_err(|error| self.error(error))?;
        Ok(Some(match found {
            None => NONE.to_owned(),
            Some((_, FlowTo::Queue(queue))) => Self::to_queue(queue),
            Some((_, FlowTo::Other)) => "elsewhere".to_owned(),
        }))
    }

    fn write(&self, value: &str) -> Result<(), KeyError> {
        let name = self.device.name_now()?;
        let queue = match value.strip_prefix("queue ") {
            Some(queue) => Some(queue.parse().map_err(|_| self.wrong(value))?),
            None if value == NONE => None,
            None => return Err(self.wrong(value)),
        };
        let found = rules::find(&name, self.flow, self.port).map_err(|error| self.error(error))?;
        let done = match (found, queue) {
            (None, None) => Ok(()),
            (None, Some(queue)) => rules::insert(&name, self.flow, self.port, queue),
            (Some((place, _)), None) => rules::delete(&name, place),
            // Another one's for just these packets is not taken away.
            (Some(_), Some(_)) => return Err(self.taken()),
        };
        done.map_err(|error| self.error(error))
    }

    fn command(&self, value: &str) -> Option<String> {
        let queue = value.strip_prefix("queue ")?;
        let (device, flow, port) = (quoted(&self.device.name), self.flow, self.port);
        Some(format!("ethtool -N {device} flow-type {flow} dst-port {port} action {queue}"))
    }

    fn device(&self) -> Option<&DeviceRef> {
        Some(&self.device)
    }

    fn refusal(&self, value: &str) -> Option<KeyError> {
        let now = self.read().ok().flatten()?;
        (now != NONE && now != value).then(|| self.taken())
    }
}

impl FlowRuleKey {
    fn wrong(&self, value: &str) -> KeyError {
        KeyError::Value { value: value.to_owned(), what: "a flow rule: queue N, or none" }
    }

    fn taken(&self) -> KeyError {
        let Self { device, flow, port } = self;
        KeyError::Refused(format!(
            "{0} has a rule of its own for {flow} packets to port {port}: ethtool -n {0} shows it, ethtool -N {0} delete PLACE removes it",
            device.name
        ))
    }
}

impl fmt::Display for FlowRuleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow rule of {} for {} port {}", self.device.name, self.flow, self.port)
    }
}

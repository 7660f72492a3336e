//! Requests: which operation takes which attributes, and what their values may be. Ranges and presence are the rules' own
//! (`napier_core::control`). Source: `Documentation/netlink/specs/netdev.yaml` (Linux 7.3), `tools/net/ynl/pyynl/lib/ynl.py`.

use std::fmt;

use napier_core::control::{Errno, NapiGet, NapiSet, QueueGet, QueueKind, ThreadedSetting};
use serde_json::{Map, Value};

/// An operation of the vocabulary.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "they are the kernel's names")]
pub enum Operation {
    NapiGet,
    NapiSet,
    QueueGet,
    DevGet,
    QstatsGet,
}

/// How it is asked for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum How {
    /// About one object.
    Do,
    /// About all of them.
    Dump,
}

impl How {
    /// `do` or `dump`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Do => "do",
            Self::Dump => "dump",
        }
    }
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::NapiGet, Self::NapiSet, Self::QueueGet, Self::DevGet, Self::QstatsGet];

    /// The kernel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NapiGet => "napi-get",
            Self::NapiSet => "napi-set",
            Self::QueueGet => "queue-get",
            Self::DevGet => "dev-get",
            Self::QstatsGet => "qstats-get",
        }
    }

    /// The operation of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// The attributes of a request; `None` if it cannot be asked for so.
    #[must_use]
    pub const fn accepts(self, how: How) -> Option<&'static [&'static str]> {
        match (self, how) {
            (Self::NapiGet, How::Do) => Some(&["id"]),
            (Self::NapiGet | Self::QueueGet, How::Dump) => Some(&["ifindex"]),
            (Self::NapiSet, How::Do) => {
                Some(&["id", "defer-hard-irqs", "gro-flush-timeout", "irq-suspend-timeout", "threaded"])
            }
            (Self::QueueGet, How::Do) => Some(&["ifindex", "type", "id"]),
            (Self::DevGet, How::Do) => Some(&["ifindex"]),
            (Self::DevGet, How::Dump) => Some(&[]),
            (Self::QstatsGet, How::Dump) => Some(&["ifindex", "scope"]),
            (Self::NapiSet, How::Dump) | (Self::QstatsGet, How::Do) => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A request as far as it can be judged without the executor.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "they are operations of the kernel, and filters by device")]
pub enum Call {
    NapiGet(NapiGet),
    NapiDump { ifindex: Option<u64> },
    NapiSet(NapiSet),
    QueueGet(QueueGet),
    QueueDump { ifindex: Option<u64> },
    DevGet { ifindex: Option<u64> },
    DevDump,
    QstatsDump { ifindex: Option<u64>, by_queue: bool },
}

/// Why a request cannot be understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// The operation has no such way.
    #[error("EOPNOTSUPP: {operation} has no {}: give {}", how.name(), other(*how).name())]
    NoSuchWay {
        /// The operation.
        operation: Operation,
        /// The way.
        how: How,
    },
    /// The operation does not take an attribute.
    #[error("EINVAL: {operation} ({}) does not accept {attribute}: it takes {}", how.name(), list(accepted))]
    NotAccepted {
        /// The operation.
        operation: Operation,
        /// The way.
        how: How,
        /// The attribute as given.
        attribute: String,
        /// What it takes.
        accepted: &'static [&'static str],
    },
    /// A value that the attribute cannot have.
    #[error("EINVAL: {attribute} must be {wanted}, not {value}")]
    Value {
        /// The attribute.
        attribute: &'static str,
        /// The value as given.
        value: String,
        /// What it may be.
        wanted: &'static str,
    },
}

impl CallError {
    /// The kernel's error number for it.
    #[must_use]
    pub const fn errno(&self) -> Errno {
        match self {
            Self::NoSuchWay { .. } => Errno::EOPNOTSUPP,
            Self::NotAccepted { .. } | Self::Value { .. } => Errno::EINVAL,
        }
    }
}

const fn other(how: How) -> How {
    match how {
        How::Do => How::Dump,
        How::Dump => How::Do,
    }
}

fn list(names: &[&str]) -> String {
    match names {
        [] => "no attributes".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

const NUMBER: &str = "a whole number from 0 to 18446744073709551615";
const TYPE: &str = "rx or tx (or 0, 1)";
const THREADED: &str = "disabled, enabled or busy-poll (or 0, 1, 2); on an engine workqueue as well";
const SCOPE: &str = "queue, or 0 for the device as a whole";

/// Reads a request.
///
/// # Errors
/// [`CallError`]: nothing was asked for yet.
pub fn call(operation: Operation, how: How, attributes: &Map<String, Value>) -> Result<Call, CallError> {
    let accepted = operation.accepts(how).ok_or(CallError::NoSuchWay { operation, how })?;
    let unknown = attributes.keys().find(|name| !accepted.contains(&name.as_str()));
    if let Some(attribute) = unknown.cloned() {
        return Err(CallError::NotAccepted { operation, how, attribute, accepted });
    }
    let number = |name| number(attributes, name);
    let ifindex = number("ifindex")?;
    Ok(match (operation, how) {
        (Operation::NapiGet, How::Do) => Call::NapiGet(NapiGet { id: number("id")? }),
        (Operation::NapiGet, How::Dump) => Call::NapiDump { ifindex },
        (Operation::NapiSet, _) => {
            let (threaded, workqueue) = threaded(attributes)?;
            Call::NapiSet(NapiSet {
                id: number("id")?,
                defer_hard_irqs: number("defer-hard-irqs")?,
                gro_flush_timeout: number("gro-flush-timeout")?,
                irq_suspend_timeout: number("irq-suspend-timeout")?,
                threaded,
                workqueue,
            })
        }
        (Operation::QueueGet, How::Do) => {
            Call::QueueGet(QueueGet { id: number("id")?, kind: queue_type(attributes)?, ifindex })
        }
        (Operation::QueueGet, How::Dump) => Call::QueueDump { ifindex },
        (Operation::DevGet, How::Do) => Call::DevGet { ifindex },
        (Operation::DevGet, How::Dump) => Call::DevDump,
        (Operation::QstatsGet, _) => Call::QstatsDump { ifindex, by_queue: scope(attributes)? },
    })
}

fn wrong(attribute: &'static str, value: &Value, wanted: &'static str) -> CallError {
    CallError::Value { attribute, value: value.to_string(), wanted }
}

/// A number, or its digits as text.
fn as_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn number(attributes: &Map<String, Value>, name: &'static str) -> Result<Option<u64>, CallError> {
    let of = |value| as_number(value).ok_or_else(|| wrong(name, value, NUMBER));
    attributes.get(name).map(of).transpose()
}

fn queue_type(attributes: &Map<String, Value>) -> Result<Option<u64>, CallError> {
    let word = |value: &Value| {
        let kinds = [QueueKind::Rx, QueueKind::Tx];
        kinds.into_iter().find(|kind| value.as_str() == Some(kind.name())).map(|kind| kind as u64)
    };
    let of = |value| as_number(value).or_else(|| word(value)).ok_or_else(|| wrong("type", value, TYPE));
    attributes.get("type").map(of).transpose()
}

/// The number, or whether the engine's extension is asked for.
fn threaded(attributes: &Map<String, Value>) -> Result<(Option<u64>, bool), CallError> {
    let Some(value) = attributes.get("threaded") else { return Ok((None, false)) };
    if let Some(number) = as_number(value) {
        return Ok((Some(number), false));
    }
    let setting =
        value.as_str().and_then(ThreadedSetting::from_name).ok_or_else(|| wrong("threaded", value, THREADED))?;
    Ok((setting.number().map(u64::from), setting == ThreadedSetting::Workqueue))
}

/// Whether each queue is counted by itself.
fn scope(attributes: &Map<String, Value>) -> Result<bool, CallError> {
    let Some(value) = attributes.get("scope") else { return Ok(false) };
    let bit = |value: &Value| match (as_number(value), value.as_str()) {
        (Some(0), _) => Some(false),
        (Some(1), _) | (None, Some("queue")) => Some(true),
        _ => None,
    };
    let bits = match value {
        Value::Array(flags) => flags.iter().map(bit).collect::<Option<Vec<bool>>>().map(|bits| bits.contains(&true)),
        one => bit(one),
    };
    bits.ok_or_else(|| wrong("scope", value, SCOPE))
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;

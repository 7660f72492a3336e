//! Channels, rings, coalescing, offloads and flow rules of an interface (`ethtool -L`, `-G`, `-C`, `-K`, `-N`), in the namespace of the calling
//! thread. Source: `net/ethtool/{channels,rings,coalesce,features}.c`.

mod features;
pub mod rules;
mod wire;

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

pub(crate) use features::set;
pub use features::{Feature, features, set_feature};

/// What `ethtool` sets together, each of it a message of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Queues (`ethtool -l`, `-L`).
    Channels,
    /// Descriptors of each queue (`ethtool -g`, `-G`).
    Rings,
    /// When an interrupt is raised (`ethtool -c`, `-C`).
    Coalesce,
    /// Offloads (`ethtool -k`, `-K`), `on` or `off`.
    Features,
}

/// Number of an attribute, its name, and whether it is a switch.
type Attribute = (u16, &'static str, ValueShape);

#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueShape {
    Number,
    Switch,
    /// What only the driver decides.
    Maximum,
}

/// `ETHTOOL_A_CHANNELS_*`.
const CHANNELS: &[Attribute] = &[
    (2, "rx-max", ValueShape::Maximum),
    (3, "tx-max", ValueShape::Maximum),
    (4, "other-max", ValueShape::Maximum),
    (5, "combined-max", ValueShape::Maximum),
    (6, "rx", ValueShape::Number),
    (7, "tx", ValueShape::Number),
    (8, "other", ValueShape::Number),
    (9, "combined", ValueShape::Number),
];

/// `ETHTOOL_A_RINGS_*`.
const RINGS: &[Attribute] = &[
    (2, "rx-max", ValueShape::Maximum),
    (3, "rx-mini-max", ValueShape::Maximum),
    (4, "rx-jumbo-max", ValueShape::Maximum),
    (5, "tx-max", ValueShape::Maximum),
    (6, "rx", ValueShape::Number),
    (7, "rx-mini", ValueShape::Number),
    (8, "rx-jumbo", ValueShape::Number),
    (9, "tx", ValueShape::Number),
];

/// `ETHTOOL_A_COALESCE_*`.
const COALESCE: &[Attribute] = &[
    (2, "rx-usecs", ValueShape::Number),
    (3, "rx-frames", ValueShape::Number),
    (4, "rx-usecs-irq", ValueShape::Number),
    (5, "rx-frames-irq", ValueShape::Number),
    (6, "tx-usecs", ValueShape::Number),
    (7, "tx-frames", ValueShape::Number),
    (8, "tx-usecs-irq", ValueShape::Number),
    (9, "tx-frames-irq", ValueShape::Number),
    (11, "adaptive-rx", ValueShape::Switch),
    (12, "adaptive-tx", ValueShape::Switch),
];

impl Group {
    /// The letter of `ethtool` that sets it.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Channels => 'L',
            Self::Rings => 'G',
            Self::Coalesce => 'C',
            Self::Features => 'K',
        }
    }

    /// For messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Channels => "channels",
            Self::Rings => "rings",
            Self::Coalesce => "coalescing",
            Self::Features => "offloads",
        }
    }

    /// Attributes and the commands that get and set them (`ETHTOOL_MSG_*`); none for offloads, which are bits.
    const fn message(self) -> (&'static [Attribute], u8, u8) {
        match self {
            Self::Rings => (RINGS, 15, 16),
            Self::Channels => (CHANNELS, 17, 18),
            Self::Coalesce => (COALESCE, 19, 20),
            Self::Features => (&[], 0, 0),
        }
    }
}

/// Why the kernel did not show or set something.
#[derive(Debug, thiserror::Error)]
pub enum EthtoolError {
    /// This namespace has no such interface.
    #[error("the interface is gone")]
    Gone,
    /// The driver has none of it.
    #[error("the driver has no such setting ({0})")]
    NotHere(String),
    /// A capability is missing.
    #[error("not permitted: it needs CAP_NET_ADMIN")]
    NotPermitted,
    /// There is no setting of this name.
    #[error("there is no setting `{0}` of it on this interface")]
    Unknown(String),
    /// It is no value of this setting.
    #[error("`{0}` is no value of it: a number, or on or off for a switch")]
    Value(String),
    /// The kernel or the driver refused the value, in its words.
    #[error("the driver does not take that value: {0}")]
    Refused(String),
    /// As the system says it.
    #[error("{0}")]
    Io(io::Error),
}

/// A kernel's refusal.
fn refused(error: &io::Error, words: String) -> EthtoolError {
    match error.raw_os_error() {
        Some(libc::ENODEV) => EthtoolError::Gone,
        Some(libc::EPERM) => EthtoolError::NotPermitted,
        // The family itself is missing, or the driver's function.
        Some(libc::EOPNOTSUPP | libc::ENOENT) => EthtoolError::NotHere(words),
        Some(libc::EINVAL | libc::ERANGE | libc::EBUSY) => EthtoolError::Refused(words),
        Some(number) => EthtoolError::Io(io::Error::from_raw_os_error(number)),
        None => match error.kind() {
            io::ErrorKind::PermissionDenied => EthtoolError::NotPermitted,
            io::ErrorKind::Unsupported => EthtoolError::NotHere(words),
            io::ErrorKind::InvalidInput => EthtoolError::Refused(words),
            kind => EthtoolError::Io(io::Error::new(kind, words)),
        },
    }
}

/// What the interface has, by `ethtool`'s names; what the driver does not have is not among it. Switches are `on` or `off`.
///
/// # Errors
/// [`EthtoolError::NotHere`] where the driver has nothing of it.
pub fn get(ifindex: u32, group: Group) -> Result<BTreeMap<String, String>, EthtoolError> {
    if group == Group::Features {
        let all = features(ifindex)?.into_iter();
        return Ok(all.map(|feature| (feature.name, switch(feature.active).to_owned())).collect());
    }
    let (table, command, _) = group.message();
    let reply = wire::get(command, ifindex)?.unwrap_or_default();
    let known = |(kind, value): (u16, &[u8])| {
        let (_, name, shape) = table.iter().find(|(number, ..)| *number == kind)?;
        let text = match (shape, value) {
            (ValueShape::Switch, [value, ..]) => switch(*value != 0).to_owned(),
            (_, value) => u32::from_ne_bytes(value.try_into().ok()?).to_string(),
        };
        Some(((*name).to_owned(), text))
    };
    Ok(wire::attributes(&reply).filter_map(known).collect())
}

/// Sets one value. It is not read back.
///
/// # Errors
/// [`EthtoolError`].
pub fn set_one(ifindex: u32, group: Group, name: &str, value: &str) -> Result<(), EthtoolError> {
    let wrong = || EthtoolError::Value(value.to_owned());
    let on = || match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(wrong()),
    };
    if group == Group::Features {
        return set_feature(ifindex, name, on()?);
    }
    let (table, _, command) = group.message();
    let found = table.iter().find(|(_, found, shape)| *found == name && *shape != ValueShape::Maximum);
    let (kind, _, shape) = found.ok_or_else(|| EthtoolError::Unknown(name.to_owned()))?;
    let bytes = match shape {
        ValueShape::Switch => vec![u8::from(on()?)],
        ValueShape::Number | ValueShape::Maximum => value.parse::<u32>().map_err(|_| wrong())?.to_ne_bytes().to_vec(),
    };
    wire::set(command, ifindex, &[(*kind, bytes)])
}

const fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

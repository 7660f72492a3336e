//! The first line of a journal: what it is about, who writes it, and how long what it notes shall stay.

use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::queues::Queues;
use crate::setting::DeviceRef;
use crate::{NetnsId, device};

/// What a journal is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "scope", rename_all = "kebab-case")]
pub enum Scope {
    /// An interface, in the namespace of the calling thread.
    Device {
        /// The interface.
        device: DeviceRef,
        /// The namespace.
        netns: NetnsId,
        /// What tells it from one that has its number later.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u64>,
        /// Its receive queues that this is about; without them all of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queues: Option<Queues>,
    },
    /// The machine: sysctls, interrupts, processors.
    Host,
}

impl Scope {
    /// An interface of the calling thread's namespace.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub fn device(device: DeviceRef) -> io::Result<Self> {
        let node = device.name_now().ok().and_then(|name| device::node(&name));
        Ok(Self::Device { device, netns: NetnsId::current()?, node, queues: None })
    }

    /// Some receive queues of such an interface, or all of it.
    ///
    /// # Errors
    /// As [`Scope::device`].
    pub fn device_or_queues(device: DeviceRef, wanted: Option<Queues>) -> io::Result<Self> {
        let mut scope = Self::device(device)?;
        if let Self::Device { queues, .. } = &mut scope {
            *queues = wanted;
        }
        Ok(scope)
    }

    /// The same without its queues: all of the interface.
    #[must_use]
    pub fn whole(&self) -> Self {
        match self.clone() {
            Self::Device { device, netns, node, .. } => Self::Device { device, netns, node, queues: None },
            Self::Host => Self::Host,
        }
    }

    /// The queues that it is about, if not all of an interface.
    #[must_use]
    pub const fn queues(&self) -> Option<&Queues> {
        match self {
            Self::Device { queues, .. } => queues.as_ref(),
            Self::Host => None,
        }
    }

    /// Whether a value may belong to both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Device { device, netns, .. }, Self::Device { device: its, netns: there, .. }) => {
                let is_same = device.ifindex == its.ifindex && netns == there;
                is_same && self.queues().zip(other.queues()).is_none_or(|(own, its)| own.overlaps(its))
            }
            (Self::Host, Self::Host) => true,
            _ => false,
        }
    }

    /// What a run changes and what is kept have a file each: a run may come on top of what is kept.
    pub(super) fn file_name(&self, keep: Keep) -> String {
        let end = match keep {
            Keep::Run => RUN_END,
            Keep::UntilUndone => KEPT_END,
        };
        match self {
            Self::Device { device, netns, queues: Some(queues), .. } => {
                format!("device-{netns}-{}-q{}{end}", device.ifindex, queues.file_name())
            }
            Self::Device { device, netns, .. } => format!("device-{netns}-{}{end}", device.ifindex),
            Self::Host => format!("host{end}"),
        }
    }

    /// For messages: `eth0`, `queues 0-2 of eth0`.
    #[must_use]
    pub fn words(&self) -> String {
        match self.queues() {
            Some(queues) => format!("{} of {}", queues.words(), self.name()),
            None => self.name().to_owned(),
        }
    }

    /// The interface, or the machine.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Device { device, .. } => &device.name,
            Self::Host => "this machine",
        }
    }
}

/// How long what is changed shall stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// As long as the run: the next one puts it back if this one cannot.
    Run,
    /// Until it is asked back, or the machine starts anew.
    UntilUndone,
}

/// The first line of a journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct JournalHeader {
    /// Of this format.
    pub(super) version: u32,
    /// `/proc/sys/kernel/random/boot_id`: a kernel that started since has forgotten all of it.
    pub(super) boot: String,
    pub(super) pid: u32,
    /// The command, in words.
    #[serde(default)]
    pub(super) by: String,
    /// When it began, in seconds since 1970.
    #[serde(default)]
    pub(super) since: u64,
    /// Bytes that were taken for it: a file that is shorter was cut.
    #[serde(default)]
    pub(super) room: u64,
    pub(super) keep: Keep,
    #[serde(flatten)]
    pub(super) scope: Scope,
}

/// The first named namespaces by their inodes.
pub(super) const VERSIONS: [u32; 2] = [1, 2];
pub(super) const VERSION: u32 = VERSIONS[1];

/// Says once what command this process is, such as `host tune`: it is shown where something is changed.
pub fn called(by: &str) {
    let _ = CALLED.set(by.to_owned());
}

static CALLED: OnceLock<String> = OnceLock::new();

/// Ends of the names of journals.
pub(super) const RUN_END: &str = "-run.journal";
pub(super) const KEPT_END: &str = "-kept.journal";

impl JournalHeader {
    pub(super) fn new(keep: Keep, scope: Scope) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs());
        let by = CALLED.get().cloned().unwrap_or_default();
        Self { version: VERSION, boot: boot_id(), pid: std::process::id(), by, since, room: 0, keep, scope }
    }
}

/// Of this start of the kernel; empty if it does not tell.
pub(super) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// Whether a journal is one that a run writes: what is kept until it is asked back has the other end.
pub(super) fn is_of_run(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.ends_with(RUN_END))
}

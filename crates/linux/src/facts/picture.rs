//! A machine in one file: what its files said and its kernel answered while it was read, so that it can be read again elsewhere.
//!
//! It has what [`Facts::read`] reads of a machine and nothing else: no addresses, no host name, and of processes `irqbalance` alone.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::rc::Rc;

use napier_core::control::{DevSetError, Errno, NapiInfo, QueueKind, ThreadedSetting};
use napier_core::time::Span;
use serde::{Deserialize, Serialize};

use super::source::{Answers, Here, NEEDED, Queue, Source};
use super::{Facts, FactsError, Lost, Scope, Thread};
use crate::device::DeviceError;
use crate::error::KernelError;
use crate::ethtool::Group;
use crate::given;
use crate::root::{Files, Root};

/// The file's form.
const FORMAT: u32 = 1;

/// More than any machine's: 1024 CPUs have some 40,000 files of 100 bytes.
const BYTES_MAX: u64 = 64 << 20;

/// Read with a machine, although nothing judges them yet: for tests of what will.
const BESIDE: &[&str] = &["/proc/softirqs", "/proc/sys/net/core/dev_weight", "/proc/sys/kernel/sched_rt_runtime_us"];

/// A machine as it was read.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Picture {
    napier_picture: u32,
    files: Files,
    kernel: AnswersSaid,
}

/// Why there is no picture in a file.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is another kind of file, or damaged.
    #[error("no picture of a machine, as `napier doctor --save FILE` writes it: {0}")]
    Shape(serde_json::Error),
    /// A later napier wrote it.
    #[error("it has format {0}, and this napier reads {FORMAT}: use a later one")]
    Format(u32),
}

/// What is in a picture, for who reads it before it is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PictureContents {
    /// Files, folders and links.
    pub files: usize,
    /// Names of its interfaces.
    pub interfaces: Vec<String>,
    /// Names of its NAPI threads.
    pub threads: Vec<String>,
}

/// What the kernel said.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AnswersSaid {
    links: Vec<(u32, String, Option<String>)>,
    napis: Option<Vec<NapiSaid>>,
    /// Of interfaces by number: kind, number and instance of each queue.
    queues: BTreeMap<u32, Vec<(String, u32, Option<u32>)>>,
    ethtool: BTreeMap<u32, BTreeMap<Group, BTreeMap<String, String>>>,
    /// Of interfaces by number: receive queues with AF_XDP sockets, and whether the driver has zero copy.
    xsk: BTreeMap<u32, (Vec<u32>, Option<bool>)>,
    /// Interfaces with an XDP program.
    with_xdp: BTreeSet<String>,
    /// Of interfaces by name: files of their folder in the namespace's `sysfs`.
    files: BTreeMap<String, BTreeMap<String, FileSaid>>,
    threads: BTreeMap<u32, Thread>,
    missed: Vec<Lost>,
    held: Vec<u32>,
    missing_capabilities: Vec<String>,
}

/// A file of an interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FileSaid {
    Text(String),
    NotPermitted,
    NotThere,
}

/// An instance, as napi-get shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct NapiSaid {
    ifindex: u32,
    id: u32,
    irq: Option<u32>,
    pid: Option<u32>,
    defer_hard_irqs: Option<u32>,
    gro_flush_timeout_ns: Option<u64>,
    irq_suspend_timeout_ns: Option<u64>,
    threaded: Option<String>,
}

impl Picture {
    /// Takes one of this machine, in the namespace of the calling thread. A program is not part of it.
    ///
    /// # Errors
    /// [`FactsError`]: there is no such interface, or the list of interfaces cannot be read.
    pub fn take(device: Option<&str>) -> Result<Self, FactsError> {
        let files = Rc::new(RefCell::new(Files::default()));
        let root = Root::recorded(&files);
        BESIDE.iter().for_each(|path| drop(root.table(path)));
        let kernel = Recorder::default();
        let scope = Scope { device: device.map(ToOwned::to_owned), ..Scope::default() };
        Facts::read_from(&Source { root, kernel: &kernel }, &scope)?;
        let mut files = files.take();
        files.keep_processes(|name| name == "irqbalance");
        Ok(Self { napier_picture: FORMAT, files, kernel: kernel.said.into_inner() })
    }

    /// Reads one from a file.
    ///
    /// # Errors
    /// See [`PictureError`].
    pub fn read(path: &Path) -> Result<Self, PictureError> {
        /// What of every format is there.
        #[derive(Deserialize)]
        struct PictureHead {
            napier_picture: u32,
        }
        let text = given::read_text(path, BYTES_MAX)?;
        let head: PictureHead = serde_json::from_str(&text).map_err(PictureError::Shape)?;
        if head.napier_picture != FORMAT {
            return Err(PictureError::Format(head.napier_picture));
        }
        serde_json::from_str(&text).map_err(PictureError::Shape)
    }

    /// What [`Facts::read`] says of that machine; of its program and of a time in which it is looked at nothing.
    ///
    /// # Errors
    /// [`FactsError::NoDevice`].
    pub fn facts(&self, device: Option<&str>) -> Result<Facts, FactsError> {
        let source = Source { root: Root::picture(self.files.clone()), kernel: &self.kernel };
        Facts::read_from(&source, &Scope { device: device.map(ToOwned::to_owned), ..Scope::default() })
    }

    /// What it has.
    #[must_use]
    pub fn contents(&self) -> PictureContents {
        PictureContents {
            files: self.files.count() + self.kernel.files.values().map(BTreeMap::len).sum::<usize>(),
            interfaces: self.kernel.links.iter().map(|(_, name, _)| name.clone()).collect(),
            threads: self.kernel.threads.values().map(|thread| thread.name.clone()).collect(),
        }
    }
}

/// This machine's kernel; its answers are noted.
#[derive(Default)]
struct Recorder {
    said: RefCell<AnswersSaid>,
}

impl Recorder {
    fn note<T>(&self, found: T, note: impl FnOnce(&mut AnswersSaid, &T)) -> T {
        note(&mut self.said.borrow_mut(), &found);
        found
    }
}

impl Answers for Recorder {
    fn links(&self) -> io::Result<Vec<(u32, String, Option<String>)>> {
        let found = Here.links()?;
        Ok(self.note(found, |said, found| said.links.clone_from(found)))
    }

    fn napis(&self) -> Option<Vec<NapiInfo>> {
        let told = |found: &Option<Vec<NapiInfo>>| Some(found.as_ref()?.iter().map(NapiSaid::of).collect());
        self.note(Here.napis(), |said, found| said.napis = told(found))
    }

    fn queues(&self, ifindex: u32) -> Vec<Queue> {
        let told = |(kind, index, id): &Queue| (kind.name().to_owned(), *index, *id);
        self.note(Here.queues(ifindex), |said, found| {
            said.queues.insert(ifindex, found.iter().map(told).collect());
        })
    }

    fn ethtool(&self, ifindex: u32, group: Group) -> BTreeMap<String, String> {
        self.note(Here.ethtool(ifindex, group), |said, found| {
            said.ethtool.entry(ifindex).or_default().insert(group, found.clone());
        })
    }

    fn xsk(&self, ifindex: u32) -> (Vec<u32>, Option<bool>) {
        self.note(Here.xsk(ifindex), |said, found| {
            if !found.0.is_empty() {
                said.xsk.insert(ifindex, found.clone());
            }
        })
    }

    fn has_xdp(&self, interface: &str) -> bool {
        self.note(Here.has_xdp(interface), |said, found| {
            if *found {
                said.with_xdp.insert(interface.to_owned());
            }
        })
    }

    fn file(&self, interface: &str, file: &str) -> Result<String, DeviceError> {
        let told = |found: &Result<String, DeviceError>| match found {
            Ok(text) => FileSaid::Text(text.clone()),
            Err(error) if error.errno() == Some(Errno::EPERM) => FileSaid::NotPermitted,
            Err(_) => FileSaid::NotThere,
        };
        self.note(Here.file(interface, file), |said, found| {
            said.files.entry(interface.to_owned()).or_default().insert(file.to_owned(), told(found));
        })
    }

    fn thread(&self, tid: u32) -> Option<Thread> {
        self.note(Here.thread(tid), |said, found| said.threads.extend(found.clone().map(|thread| (tid, thread))))
    }

    fn missed(&self) -> Vec<Lost> {
        self.note(Here.missed(), |said, found| said.missed.clone_from(found))
    }

    fn held(&self) -> Vec<u32> {
        self.note(Here.held(), |said, found| said.held.clone_from(found))
    }

    fn missing_capabilities(&self) -> Vec<&'static str> {
        self.note(Here.missing_capabilities(), |said, found| {
            said.missing_capabilities = found.iter().map(ToString::to_string).collect();
        })
    }
}

impl Answers for AnswersSaid {
    fn links(&self) -> io::Result<Vec<(u32, String, Option<String>)>> {
        Ok(self.links.clone())
    }

    fn napis(&self) -> Option<Vec<NapiInfo>> {
        Some(self.napis.as_ref()?.iter().map(NapiSaid::info).collect())
    }

    fn queues(&self, ifindex: u32) -> Vec<Queue> {
        let of = |(kind, index, id): &(String, u32, Option<u32>)| {
            let kinds = [QueueKind::Rx, QueueKind::Tx];
            Some((kinds.into_iter().find(|known| known.name() == kind)?, *index, *id))
        };
        self.queues.get(&ifindex).into_iter().flatten().filter_map(of).collect()
    }

    fn ethtool(&self, ifindex: u32, group: Group) -> BTreeMap<String, String> {
        self.ethtool.get(&ifindex).and_then(|groups| groups.get(&group)).cloned().unwrap_or_default()
    }

    fn xsk(&self, ifindex: u32) -> (Vec<u32>, Option<bool>) {
        self.xsk.get(&ifindex).cloned().unwrap_or_default()
    }

    fn has_xdp(&self, interface: &str) -> bool {
        self.with_xdp.contains(interface)
    }

    fn file(&self, interface: &str, file: &str) -> Result<String, DeviceError> {
        match self.files.get(interface).and_then(|files| files.get(file)) {
            Some(FileSaid::Text(text)) => Ok(text.clone()),
            Some(FileSaid::NotPermitted) => Err(KernelError::Refused(DevSetError::NotPermitted)),
            Some(FileSaid::NotThere) | None => Err(io::Error::from(io::ErrorKind::NotFound).into()),
        }
    }

    fn thread(&self, tid: u32) -> Option<Thread> {
        self.threads.get(&tid).cloned()
    }

    fn missed(&self) -> Vec<Lost> {
        self.missed.clone()
    }

    fn held(&self) -> Vec<u32> {
        self.held.clone()
    }

    fn missing_capabilities(&self) -> Vec<&'static str> {
        let is_missing = |name: &&str| self.missing_capabilities.iter().any(|missing| missing == name);
        NEEDED.into_iter().map(|(_, name)| name).filter(is_missing).collect()
    }
}

impl NapiSaid {
    fn of(info: &NapiInfo) -> Self {
        Self {
            ifindex: info.ifindex,
            id: info.id,
            irq: info.irq,
            pid: info.pid,
            defer_hard_irqs: info.defer_hard_irqs,
            gro_flush_timeout_ns: info.gro_flush_timeout.map(|span| span.ns),
            irq_suspend_timeout_ns: info.irq_suspend_timeout.map(|span| span.ns),
            threaded: info.threaded.map(|setting| setting.name().to_owned()),
        }
    }

    fn info(&self) -> NapiInfo {
        NapiInfo {
            ifindex: self.ifindex,
            id: self.id,
            irq: self.irq,
            pid: self.pid,
            defer_hard_irqs: self.defer_hard_irqs,
            gro_flush_timeout: self.gro_flush_timeout_ns.map(Span::from_ns),
            irq_suspend_timeout: self.irq_suspend_timeout_ns.map(Span::from_ns),
            threaded: self.threaded.as_deref().and_then(ThreadedSetting::from_name),
        }
    }
}

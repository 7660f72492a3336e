//! A machine from words (`tests/machines/README.md`): its files in a folder of their own, and what its kernel answers.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::SplitWhitespace;

use napier_core::control::{NapiInfo, QueueKind, ThreadedSetting};
use napier_core::time::Span;

use super::super::source::{Answers, Queue, Source};
use super::super::{Facts, Lost, Scope, Thread};
use crate::device::DeviceError;
use crate::ethtool::Group;
use crate::root::Root;
use crate::setting::text::cpu_list;

/// A machine of the list, and what must come out of it.
#[derive(Default)]
pub(super) struct Machine {
    name: String,
    folder: PathBuf,
    cpus: u32,
    links: Vec<(u32, String, Option<String>)>,
    napis: Vec<NapiInfo>,
    queues: BTreeMap<u32, Vec<Queue>>,
    ethtool: BTreeMap<(u32, &'static str), BTreeMap<String, String>>,
    threads: Vec<Thread>,
    missed: Vec<Lost>,
    /// Its kernel does not list instances, or those that it listed are not known.
    is_unlisted: bool,
    /// Queues that AF_XDP sockets have, and whether the driver has zero copy, as the kernel says.
    xsk: BTreeMap<u32, (Vec<u32>, Option<bool>)>,
    softnet: String,
    interrupts: String,
    /// Folder of the last device.
    device: PathBuf,
    /// Behind `=`, words of each.
    pub(super) wanted: Vec<Vec<String>>,
}

/// Files of the list that end so.
pub(super) fn paths(ending: &str) -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines");
    let paths = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("one").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == ending)).collect()
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Machine {
    pub(super) fn all() -> Vec<Self> {
        let of = |path: PathBuf| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            Self::of(name, &fs::read_to_string(path).expect("text"))
        };
        paths("txt").into_iter().map(of).collect()
    }

    pub(super) fn of(name: String, text: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("napier-machine-{}-{name}", std::process::id()));
        let mut machine = Self::default();
        (machine.name, machine.folder) = (name, folder);
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            machine.line(line);
        }
        let head: String = (0..machine.cpus).map(|cpu| format!("{:>11}", format!("CPU{cpu}"))).collect();
        let zero = " 7".repeat(machine.cpus as usize);
        let table = format!("    {head}\n{} NMI:{zero}   Non-maskable interrupts\n ERR:  0\n", machine.interrupts);
        machine.put("/proc/interrupts", &table);
        machine.put("/proc/net/softnet_stat", &machine.softnet);
        machine
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn facts(&self) -> Facts {
        let source = Source { root: Root::folder(&self.folder), kernel: self };
        Facts::read_from(&source, &Scope::default()).expect("read")
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.folder.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    fn last(&self) -> (u32, String) {
        let (ifindex, name, _) = self.links.last().expect("a device first");
        (*ifindex, name.clone())
    }

    fn line(&mut self, line: &str) {
        const CPU: &str = "/sys/devices/system/cpu";
        let mut words = line.split_whitespace();
        let kind = words.next().expect("a word");
        let mut word = || words.next().unwrap_or_else(|| panic!("{}: {line}", self.name)).to_owned();
        match kind {
            "=" => self.wanted.push(words.map(ToOwned::to_owned).collect()),
            "kernel" => self.put("/proc/sys/kernel/osrelease", word()),
            "unlisted" => self.is_unlisted = true,
            "cpus" => {
                self.cpus = number(&word());
                let list = format!("0-{}", self.cpus - 1);
                self.put(&format!("{CPU}/online"), list);
            }
            "isolated" => self.put(&format!("{CPU}/isolated"), word()),
            "node" => {
                let (id, list): (u32, String) = (number(&word()), word());
                self.put("/sys/devices/system/node/online", format!("0-{id}"));
                self.put(&format!("/sys/devices/system/node/node{id}/cpulist"), list);
            }
            "file" => self.put(&word(), words.collect::<Vec<_>>().join(" ")),
            "dma-latency" => self.put("/dev/cpu_dma_latency", number::<i32>(&word()).to_ne_bytes()),
            "idle" => {
                let (name, latency) = (word(), word());
                let folder = format!("{CPU}/cpu0/cpuidle");
                let state = fs::read_dir(self.folder.join(&folder[1..])).map_or(0, Iterator::count);
                for cpu in 0..self.cpus {
                    let folder = format!("{CPU}/cpu{cpu}/cpuidle/state{state}");
                    self.put(&format!("{folder}/name"), &name);
                    self.put(&format!("{folder}/latency"), &latency);
                    self.put(&format!("{folder}/disable"), "0");
                }
            }
            "softnet" => {
                let of: Vec<u64> = (0..4).map(|_| number(&word())).collect();
                let line = format!("{:08x} {:08x} {:08x}{} {:08x} 0 0\n", of[1], of[2], of[3], " 0".repeat(9), of[0]);
                self.softnet += &line;
            }
            "thread" => {
                let (tid, name, cpus, scheduling) = (number(&word()), word(), word(), word());
                let cpus = cpu_list(&cpus).expect("a list");
                self.threads.push(Thread { tid, started: 1, name, last_cpu: cpus[0], cpus, scheduling });
            }
            "device" => self.device(line),
            _ => self.of_device(kind, words, line),
        }
    }

    fn device(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, name, ifindex, kind, driver, place] = words[..] else { panic!("{line}") };
        let folder = format!("/sys/class/net/{name}");
        self.put(&format!("{folder}/ifindex"), ifindex);
        self.put(&format!("{folder}/flags"), "0x1003");
        self.device = self.folder.join("sys/devices").join(place);
        if place != "-" {
            fs::create_dir_all(&self.device).expect("made");
            fs::write(self.device.join("uevent"), format!("DRIVER={driver}\n")).expect("written");
            let link = self.folder.join(&folder[1..]).join("device");
            std::os::unix::fs::symlink(format!("../../../devices/{place}"), link).expect("linked");
        }
        self.links.push((number(ifindex), name.to_owned(), (kind != "-").then(|| kind.to_owned())));
    }

    /// Lines about the last device.
    fn of_device(&mut self, kind: &str, mut words: SplitWhitespace<'_>, line: &str) {
        let (ifindex, device) = self.last();
        let folder = format!("/sys/class/net/{device}");
        let mut word = || words.next().unwrap_or_else(|| panic!("{}: {line}", self.name)).to_owned();
        match kind {
            "queues" => {
                for queue in 0..number(&word()) {
                    self.put(&format!("{folder}/queues/rx-{queue}/rps_cpus"), "0");
                    self.put(&format!("{folder}/queues/rx-{queue}/rps_flow_cnt"), "0");
                    self.queues.entry(ifindex).or_default().push((QueueKind::Rx, queue, None));
                }
            }
            "set" => self.put(&format!("{folder}/{}", word()), words.collect::<Vec<_>>().join(" ")),
            "ethtool" => {
                let (group, name, value) = (word(), word(), word());
                let group = ["channels", "rings", "coalesce", "features"].into_iter().find(|known| *known == group);
                self.ethtool.entry((ifindex, group.expect("a group"))).or_default().insert(name, value);
            }
            "missed" => {
                let (lost, of) = (number(&word()), number(&word()));
                self.missed.push(Lost { who: device, of, lost });
            }
            "napi" => {
                let id = number(&word());
                self.napi(ifindex, id, &words.collect::<Vec<_>>());
            }
            "xsk" => {
                let (queue, zero_copy) = (number(&word()), word());
                let entry = self.xsk.entry(ifindex).or_default();
                entry.0.push(queue);
                entry.1 = (zero_copy != "-").then(|| zero_copy == "yes");
            }
            "affinity" => {
                let (irq, list) = (word(), word());
                self.put(&format!("/proc/irq/{irq}/smp_affinity_list"), list);
            }
            "msi" | "irq" => self.irq(kind == "msi", &words.collect::<Vec<_>>()),
            _ => panic!("{}: {line}", self.name),
        }
    }

    /// `NUMBER CPU CHIP HWIRQ NAME`, of which the name may be missing.
    fn irq(&mut self, is_listed: bool, words: &[&str]) {
        let [irq, cpu, chip, hwirq, name @ ..] = words else { panic!("{}: {words:?}", self.name) };
        let irq: u32 = number(irq);
        let raised = (*cpu != "-").then(|| number::<u32>(cpu));
        let count = |of| if raised == Some(of) { " 12345678901" } else { " 0" };
        let counts: String = (0..self.cpus).map(count).collect();
        let hwirq = if *hwirq == "-" { String::new() } else { format!("{hwirq:8}  ") };
        self.interrupts += &format!("{irq:4}:{counts}  {}    {hwirq}{}\n", chip.replace('_', " "), name.join(" "));
        for file in ["smp_affinity_list", "effective_affinity_list"] {
            if let Some(cpu) = raised {
                self.put(&format!("/proc/irq/{irq}/{file}"), cpu.to_string());
            }
        }
        if is_listed {
            let is_part = self.device.file_name().is_some_and(|name| name.to_string_lossy().starts_with("virtio"));
            let place = if is_part { self.device.parent().expect("a folder") } else { &self.device };
            fs::create_dir_all(place.join("msi_irqs")).expect("made");
            fs::write(place.join("msi_irqs").join(irq.to_string()), "msix").expect("written");
        }
    }

    fn napi(&mut self, ifindex: u32, id: u32, pairs: &[&str]) {
        let value = |wanted: &str| pairs.chunks(2).find(|pair| pair[0] == wanted).map(|pair| number::<u64>(pair[1]));
        let small = |wanted: &str| value(wanted).map(|value| u32::try_from(value).expect("small"));
        let time = |wanted: &str| Some(Span::from_ns(value(wanted).unwrap_or(0)));
        let queues = self.queues.entry(ifindex).or_default();
        if let Some(queue) = small("queue") {
            let at =
                queues.iter().position(|(kind, index, _)| (*kind, *index) == (QueueKind::Rx, queue)).expect("a queue");
            queues[at].2 = Some(id);
        }
        queues.extend(small("tx").map(|queue| (QueueKind::Tx, queue, Some(id))));
        self.napis.push(NapiInfo {
            ifindex,
            id,
            irq: small("irq"),
            pid: small("pid"),
            defer_hard_irqs: Some(small("defer").unwrap_or(0)),
            gro_flush_timeout: time("flush"),
            irq_suspend_timeout: time("suspend"),
            threaded: ThreadedSetting::from_number(value("threaded").unwrap_or(0)),
        });
    }
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

impl Answers for Machine {
    fn links(&self) -> io::Result<Vec<(u32, String, Option<String>)>> {
        Ok(self.links.clone())
    }

    fn napis(&self) -> Option<Vec<NapiInfo>> {
        (!self.is_unlisted).then(|| self.napis.clone())
    }

    fn queues(&self, ifindex: u32) -> Vec<Queue> {
        self.queues.get(&ifindex).cloned().unwrap_or_default()
    }

    fn ethtool(&self, ifindex: u32, group: Group) -> BTreeMap<String, String> {
        let name = match group {
            Group::Channels => "channels",
            Group::Rings => "rings",
            Group::Coalesce => "coalesce",
            Group::Features => "features",
        };
        self.ethtool.get(&(ifindex, name)).cloned().unwrap_or_default()
    }

    fn has_xdp(&self, _: &str) -> bool {
        false
    }

    fn file(&self, interface: &str, file: &str) -> Result<String, DeviceError> {
        let root = Root::folder(&self.folder);
        let text = root.text(&format!("/sys/class/net/{interface}/{file}"));
        text.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into())
    }

    fn thread(&self, tid: u32) -> Option<Thread> {
        self.threads.iter().find(|thread| thread.tid == tid).cloned()
    }

    fn xsk(&self, ifindex: u32) -> (Vec<u32>, Option<bool>) {
        self.xsk.get(&ifindex).cloned().unwrap_or_default()
    }

    fn missed(&self) -> Vec<Lost> {
        self.missed.clone()
    }

    fn held(&self) -> Vec<u32> {
        Vec::new()
    }

    fn missing_capabilities(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

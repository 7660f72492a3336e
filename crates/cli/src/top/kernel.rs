//! Instances of the live kernel, on some interfaces: what [`napier_linux::metrics`] walks over, and polls if they can be traced.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::time::Duration;

use napier_linux::metrics::Kernel;
use napier_linux::observe::{Polling, Polls, Who, kernel_threads};
use napier_linux::tracefs::TraceError;

use super::Clock;
use super::figures::{Collected, Figures, label_of};
use super::snapshot::{Count, Cpu, Instance, Snapshot, Thread};
use super::source::{Ended, FigureSource, Traced};

/// As if threads had begun so long ago: only differences are looked at, and none may be below 0.
const BEGAN_NS: u64 = 1 << 62;

/// Interfaces of the kernel, in the network namespace of the calling thread.
pub(super) struct KernelSource {
    kernel: Kernel,
    watched: Vec<String>,
    /// What counts the polls of each of them.
    traced: Traced,
    /// `ksoftirqd/N`: its CPU and its process.
    ksoftirqd: Vec<(String, u32)>,
    notes: Vec<String>,
}

impl KernelSource {
    /// # Errors
    /// There is no such interface here.
    pub(super) fn open(names: &[String]) -> anyhow::Result<Self> {
        let kernel = Kernel::new(names).map_err(|error| crate::Usage(error.into()))?;
        let mut notes = Vec::new();
        let mut traced =
            |name: &String| polling(name).map_err(|error| notes.push(format!("polls are not counted: {error}"))).ok();
        let traced = Traced::new(names.iter().map(&mut traced).collect());
        notes.dedup();
        Ok(Self { kernel, watched: names.to_vec(), traced, ksoftirqd: ksoftirqd(), notes })
    }
}

/// Counts the polls of an interface from now on.
fn polling(name: &str) -> Result<Polling, TraceError> {
    let mut polling = Polling::by_instance(name)?;
    polling.begin()?;
    Ok(polling)
}

/// The threads of the kernel that softirqs are left to.
fn ksoftirqd() -> Vec<(String, u32)> {
    let mut found = kernel_threads("ksoftirqd/");
    found.sort_by_key(|(cpu, _)| cpu.parse::<u32>().unwrap_or(u32::MAX));
    found
}

impl FigureSource for KernelSource {
    fn title(&self) -> String {
        format!("kernel: {}", self.watched.join(", "))
    }

    fn traced(&self) -> Traced {
        self.traced.clone()
    }

    fn look(&mut self, clock: &Clock) -> anyhow::Result<Snapshot> {
        let mut collected = Collected::default();
        self.kernel.walk(Duration::from_nanos(clock.now_ns()), &mut collected);
        // A walk may take long, such as one that looks for findings.
        let at_ns = clock.now_ns();
        let figures = Figures::new(collected.families());
        let mut now = Snapshot { at_ns, notes: self.notes.clone(), ..Snapshot::default() };
        now.cpus = cpus(&figures);
        for (cpu, pid) in &self.ksoftirqd {
            let read = read_to_string(format!("/proc/{pid}/schedstat")).ok();
            let of = ["ksoftirqd", "", cpu];
            now.threads.extend(read.and_then(|text| schedstat(&text)).map(|spent| thread(of, spent, at_ns)));
        }
        for (place, name) in self.watched.iter().enumerate() {
            if figures.get("napier_kernel_device_up", &[("device", name)]).is_none() {
                return Err(Ended(format!("the interface {name}")).into());
            }
            now.instances.extend(instances(&figures, name, self.traced.seen(place).as_ref()));
            now.threads.extend(threads(&figures, name, at_ns));
            if figures.of("napier_kernel_napi_mode", &[("device", name)]).next().is_none() {
                now.notes.push(napier_linux::netdev::why_no_instance(name));
            }
        }
        let unread = figures.samples("napier_kernel_source_readable").iter().filter(|sample| sample.value == 0);
        now.notes.extend(unread.map(|sample| format!("{} cannot be read", label_of(sample, "source"))));
        Ok(now)
    }
}

/// Of `/proc/PID/schedstat`: time on a CPU, and time that it waited for one.
fn schedstat(text: &str) -> Option<(u64, Count)> {
    let mut words = text.split_whitespace().map(|word| word.parse().ok());
    Some((words.next()??, Some(words.next()??)))
}

/// A thread of the kernel. What it did is not known further; what it waited for a CPU is not sleep.
fn thread([role, name, cpu]: [&str; 3], (cpu_ns, waited_ns): (u64, Count), at_ns: u64) -> Thread {
    Thread {
        role: role.to_owned(),
        name: name.to_owned(),
        cpu: cpu.to_owned(),
        alive: 1,
        cpu_ns: Some(cpu_ns),
        spinning_ns: None,
        lived_ns: waited_ns.map(|waited_ns| BEGAN_NS + at_ns - waited_ns.min(BEGAN_NS)),
    }
}

fn threads(figures: &Figures<'_>, device: &str, at_ns: u64) -> Vec<Thread> {
    let thread = |sample: &_| {
        let (id, pid) = (label_of(sample, "napi_id"), label_of(sample, "thread"));
        let delay = figures.get("napier_kernel_napi_thread_delay", &[("thread", pid), ("napi_id", id)]);
        thread(["napi", &format!("{device}-{id}"), ""], (sample.value, delay), at_ns)
    };
    figures.of("napier_kernel_napi_thread_cpu", &[("device", device)]).map(thread).collect()
}

fn cpus(figures: &Figures<'_>) -> Vec<Cpu> {
    let cpu = |key: Vec<String>| {
        let cpu = key[0].as_str();
        let get = |name: &str| figures.get(name, &[("cpu", cpu)]);
        let spent = |states: &[&str]| -> Count {
            states.iter().map(|state| figures.get("napier_kernel_cpu", &[("cpu", cpu), ("state", state)])).sum()
        };
        Cpu {
            user_ns: spent(&["user", "nice"]),
            system_ns: spent(&["system"]),
            irq_ns: spent(&["irq"]),
            softirq_ns: spent(&["softirq"]),
            // Waiting for a disk is idle.
            idle_ns: spent(&["idle", "iowait"]),
            runs: figures.get("napier_kernel_softirqs", &[("cpu", cpu), ("kind", "NET_RX")]),
            packets: get("napier_kernel_softnet_processed"),
            dropped: get("napier_kernel_softnet_dropped"),
            squeezed: get("napier_kernel_softnet_time_squeeze"),
            cpu: cpu.to_owned(),
            ..Cpu::default()
        }
    };
    figures.objects("napier_kernel_cpu", &["cpu"]).into_iter().map(cpu).collect()
}

/// Polls by who made them, in the words of an engine's; threads of programs by their names.
fn by_whom<'a>(polls: impl Iterator<Item = (&'a Who, &'a u64)>) -> Vec<(String, u64)> {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for (who, polls) in polls {
        let name = match who {
            Who::Softirq => "softirq",
            Who::Ksoftirqd => "ksoftirqd",
            Who::NapiThread => "kthread",
            Who::Program(name) => name,
        };
        *all.entry(name).or_default() += polls;
    }
    all.into_iter().map(|(name, polls)| (name.to_owned(), polls)).collect()
}

/// A row for each instance, and for an interface with several, or with none that is shown, one for the whole of it. `polls` are
/// of the whole, and by instance where that is known.
fn instances(figures: &Figures<'_>, device: &str, polls: Option<&Polls>) -> Vec<Instance> {
    let of = [("device", device)];
    let modes = figures.of("napier_kernel_napi_mode", &of);
    let mut rows: Vec<Instance> =
        modes.map(|sample| instance(figures, device, label_of(sample, "napi_id"), label_of(sample, "mode"))).collect();
    let packets = figures.get("napier_kernel_device_rx_packets", &of);
    let taken = figures.get("napier_kernel_device_rx_polled_packets", &of);
    let by = polls.map(|polls| by_whom(polls.of_instances.values().flatten())).unwrap_or_default();
    let polls_all = polls.map(Polls::total);
    if let [one] = &mut rows[..] {
        one.packets = one.packets.or(packets);
        (one.polls_all, one.taken, one.polls) = (polls_all, taken, by);
        return rows;
    }
    for row in &mut rows {
        let own = row.id.parse::<u32>().ok().and_then(|id| polls?.of_instances.get(&id));
        row.polls_all = own.map(|own| own.values().sum());
        row.polls = by_whom(own.into_iter().flatten());
    }
    let whole = Instance {
        device: device.to_owned(),
        queue: "all".to_owned(),
        packets,
        taken,
        polls_all,
        polls: by,
        interrupts: figures.get("napier_kernel_interrupts", &[("device", device)]),
        ..Instance::default()
    };
    rows.insert(0, whole);
    rows
}

fn instance(figures: &Figures<'_>, device: &str, id: &str, mode: &str) -> Instance {
    let of = [("napi_id", id), ("device", device)];
    let receives = |sample: &&_| label_of(sample, "type") == "rx";
    let queues: Vec<&str> =
        figures.of("napier_kernel_queue_napi", &of).filter(receives).map(|sample| label_of(sample, "queue")).collect();
    let packets = queues
        .iter()
        .map(|queue| figures.get("napier_kernel_queue_rx_packets", &[("device", device), ("queue", queue)]))
        .sum();
    let irq = figures.of("napier_kernel_napi_irq", &of).next().map(|sample| label_of(sample, "irq"));
    // One that no CPU has taken yet is not there, and neither is one that was not found.
    let interrupts = |irq| figures.get("napier_kernel_interrupts", &[("irq", irq), ("device", device)]);
    Instance {
        device: device.to_owned(),
        queue: queues.join(","),
        id: id.to_owned(),
        mode: mode.to_owned(),
        packets: if queues.is_empty() { None } else { packets },
        interrupts: irq.and_then(interrupts),
        ..Instance::default()
    }
}

#[cfg(test)]
mod tests {
    use napier_control::metrics::{Family, Sample};

    use super::*;

    fn family(name: &str, samples: &[(&[(&str, &str)], u64)]) -> Family {
        let sample = |(labels, value): &(&[(&str, &str)], u64)| Sample {
            labels: labels.iter().map(|(name, label)| ((*name).to_owned(), (*label).to_owned())).collect(),
            value: *value,
        };
        Family { name: name.to_owned(), samples: samples.iter().map(sample).collect(), ..Family::default() }
    }

    #[test]
    fn a_device_with_several_instances_has_a_row_for_the_whole() {
        let mode = |id: &'static str| vec![("device", "eth0"), ("napi_id", id), ("mode", "base")];
        let (first, second) = (mode("8"), mode("9"));
        let irq = [("device", "eth0"), ("napi_id", "9"), ("irq", "27")];
        let by_cpu = |cpu: &'static str| vec![("device", "eth0"), ("irq", "27"), ("name", "eth0-1"), ("cpu", cpu)];
        let own = [(Who::Softirq, 3), (Who::Program("memcached".to_owned()), 30)].into();
        let of_instances = [(9, own)].into();
        let polls = Polls { softirq: 3, threads: [(70, 30)].into(), of_instances, ..Polls::default() };
        let (on_0, on_1) = (by_cpu("0"), by_cpu("1"));
        let queue = [("device", "eth0"), ("queue", "1"), ("type", "rx"), ("napi_id", "9")];
        let mut families = vec![
            family("napier_kernel_napi_mode", &[(&first, 1), (&second, 1)]),
            family("napier_kernel_device_rx_packets", &[(&[("device", "eth0")], 70)]),
            family("napier_kernel_napi_irq", &[(&irq, 1)]),
            family("napier_kernel_interrupts", &[(&on_0, 5), (&on_1, 6)]),
            family("napier_kernel_queue_napi", &[(&queue, 1)]),
            family("napier_kernel_queue_rx_packets", &[(&[("device", "eth0"), ("queue", "1")], 40)]),
        ];
        let rows = instances(&Figures::new(&families), "eth0", Some(&polls));
        let [whole, first, second] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!(
            (&*whole.queue, whole.packets, whole.polls_all, whole.interrupts),
            ("all", Some(70), Some(33), Some(11))
        );
        assert_eq!((&*first.id, first.packets, first.polls_all, first.interrupts), ("8", None, None, None));
        assert_eq!((&*second.queue, second.packets, second.interrupts), ("1", Some(40), Some(11)));
        let by = [("memcached".to_owned(), 30), ("softirq".to_owned(), 3)];
        assert_eq!((second.polls_all, &second.polls[..], &whole.polls[..]), (Some(33), &by[..], &by[..]));
        families[3].samples.clear();
        let without = instances(&Figures::new(&families), "eth0", Some(&polls));
        assert_eq!(without[2].interrupts, None, "an interrupt that was not found took no known number");
        families[0].samples.pop();
        families.push(family("napier_kernel_device_rx_polled_packets", &[(&[("device", "eth0")], 7)]));
        let rows = instances(&Figures::new(&families), "eth0", Some(&polls));
        let [one] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((&*one.id, one.packets, one.polls_all), ("8", Some(70), Some(33)), "it did all of it");
        assert_eq!(one.taken, Some(7));
    }

    #[test]
    fn a_thread_that_waits_for_a_cpu_does_not_sleep() {
        assert_eq!((schedstat("5"), schedstat("5 6 7\n")), (None, Some((5, Some(6)))));
        let of = |spent: (u64, u64), at_ns| thread(["napi", "x", ""], (spent.0, Some(spent.1)), at_ns);
        let (then, now) = (of((10, 700), 1000), of((40, 720), 2000));
        let more = |of: fn(&Thread) -> Count| of(&now).zip(of(&then)).map(|(now, then)| now - then);
        assert_eq!((more(|thread| thread.cpu_ns), more(|thread| thread.lived_ns)), (Some(30), Some(980)));
    }
}

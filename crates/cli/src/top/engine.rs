//! Figures of an engine, from its control socket.

use anyhow::{Context as _, bail};
use napier_control::client::engines;
use napier_control::metrics::{Family, Sample};
use napier_control::{AskError, Client};

use super::Clock;
use super::figures::{Figures, Key, label_of};
use super::programs::ProgramsSource;
use super::snapshot::{Context, Cpu, GroupCpu, Instance, Queue, Snapshot, Thread, mode};
use super::source::{Ended, FigureSource};

/// What the names of figures begin with that are shown; an engine with thousands of instances has more than one answer holds.
const SHOWN: [&str; 19] = [
    "napier_engine_uptime",
    "napier_napi_info",
    "napier_napi_owner",
    "napier_napi_polls",
    "napier_napi_empty_polls",
    "napier_napi_packets",
    "napier_napi_interrupts",
    "napier_napi_deferrals",
    "napier_napi_suspensions",
    "napier_napi_timer_fires",
    "napier_napi_spinning",
    "napier_napi_defer_hard_irqs",
    "napier_napi_gro_flush_timeout",
    "napier_napi_irq_suspend_timeout",
    "napier_thread",
    "napier_softirq_",
    "napier_tx",
    "napier_event_",
    "napier_group_",
];

/// An engine that is looked at.
pub(super) struct EngineSource {
    name: String,
    client: Client,
    programs: Option<ProgramsSource>,
}

impl EngineSource {
    /// Connects to the engine of this name, or to the only one.
    pub(super) fn open(name: Option<&str>) -> anyhow::Result<Self> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => match &engines()[..] {
                [one] => one.clone(),
                [] => bail!(
                    "no engine of this user answers: start one (napier serve), name it with --engine PID, or look at an \
                     interface of the kernel with --dev IF"
                ),
                several => bail!("several engines answer: give --engine, one of {}", several.join(", ")),
            },
        };
        let client = Client::connect(&name)?;
        let programs = ProgramsSource::of(&name);
        Ok(Self { name, client, programs })
    }
}

impl FigureSource for EngineSource {
    fn title(&self) -> String {
        format!("engine {}", self.name)
    }

    fn look(&mut self, _clock: &Clock) -> anyhow::Result<Snapshot> {
        let families = match self.client.metrics(&SHOWN) {
            Ok(families) => families,
            // It may have given this connection to another client; if it is gone, that shows now.
            Err(AskError::System { .. }) => {
                let again = Client::connect(&self.name).map_err(|_| Ended(self.title()))?;
                self.client = again;
                self.client.metrics(&SHOWN).with_context(|| format!("looking at {}", self.title()))?
            }
            Err(AskError::Refused { message, .. }) if message.contains("has stopped") => {
                return Err(Ended(self.title()).into());
            }
            Err(error) => return Err(error.into()),
        };
        let mut now = snapshot(&families);
        now.programs = self.programs.as_ref().map_or_else(Vec::new, ProgramsSource::look);
        Ok(now)
    }
}

/// What families of figures say of an engine.
pub(super) fn snapshot(families: &[Family]) -> Snapshot {
    let figures = Figures::new(families);
    // The engine's own: an answer may be late.
    let at_ns = figures.samples("napier_engine_uptime").first().map_or(0, |sample| sample.value);
    let contexts = contexts(&figures);
    let all = figures.samples("napier_event_contexts").first().map_or(0, |sample| sample.value);
    let mut notes = Vec::new();
    if all > contexts.len() as u64 {
        notes.push(format!("{all} event contexts are there, {} are shown", contexts.len()));
    }
    Snapshot {
        at_ns,
        instances: instances(&figures),
        threads: threads(&figures),
        cpus: cpus(&figures),
        queues: queues(&figures),
        contexts,
        groups: groups(&figures),
        programs: Vec::new(),
        notes,
    }
}

fn instances(figures: &Figures<'_>) -> Vec<Instance> {
    figures.samples("napier_napi_info").iter().map(|info| instance(figures, info)).collect()
}

fn instance(figures: &Figures<'_>, info: &Sample) -> Instance {
    let label = |name| label_of(info, name);
    let of = [("napi_id", label("napi_id")), ("ifindex", label("ifindex"))];
    let get = |name: &str| figures.get(name, &of);
    let polls = figures.of("napier_napi_polls", &of);
    let owner = figures.of("napier_napi_owner", &of).find(|sample| sample.value == 1);
    let setting = |name: &str| get(name).unwrap_or(0);
    Instance {
        device: label("device").to_owned(),
        queue: label("queue").to_owned(),
        id: label("napi_id").to_owned(),
        mode: mode(
            label("threaded"),
            label("group"),
            setting("napier_napi_defer_hard_irqs"),
            setting("napier_napi_gro_flush_timeout"),
            setting("napier_napi_irq_suspend_timeout"),
        ),
        owner: owner.map_or("", |sample| label_of(sample, "owner")).to_owned(),
        polls: polls.map(|sample| (label_of(sample, "context").to_owned(), sample.value)).collect(),
        taken: None,
        polls_all: get("napier_napi_polls"),
        empty_polls: get("napier_napi_empty_polls"),
        packets: get("napier_napi_packets"),
        interrupts: get("napier_napi_interrupts"),
        deferrals: get("napier_napi_deferrals"),
        suspensions: get("napier_napi_suspensions"),
        timers: get("napier_napi_timer_fires"),
        spinning_ns: get("napier_napi_spinning"),
    }
}

fn threads(figures: &Figures<'_>) -> Vec<Thread> {
    let keys = figures.objects("napier_thread_cpu", &["role", "name", "cpu"]);
    let thread = |key: Key| {
        let of = [("name", key[1].as_str()), ("role", &key[0]), ("cpu", &key[2])];
        let get = |name: &str| figures.get(name, &of);
        Thread {
            alive: get("napier_threads").unwrap_or(0),
            cpu_ns: get("napier_thread_cpu"),
            spinning_ns: get("napier_thread_spinning"),
            lived_ns: get("napier_thread_lifetime"),
            role: key[0].clone(),
            name: key[1].clone(),
            cpu: key[2].clone(),
        }
    };
    keys.into_iter().map(thread).collect()
}

fn cpus(figures: &Figures<'_>) -> Vec<Cpu> {
    let cpu = |key: Key| {
        let get = |name: &str| figures.get(name, &[("cpu", &key[0])]);
        Cpu {
            runs: get("napier_softirq_runs"),
            squeezed: get("napier_softirq_time_squeeze"),
            wakeups: get("napier_softirq_wakeups"),
            timers: get("napier_softirq_timer_programs"),
            run_delay_ns: get("napier_softirq_run_delay"),
            cpu: key[0].clone(),
            ..Cpu::default()
        }
    };
    figures.objects("napier_softirq_runs", &["cpu"]).into_iter().map(cpu).collect()
}

fn queues(figures: &Figures<'_>) -> Vec<Queue> {
    let queue = |info: &Sample| {
        let label = |name| label_of(info, name);
        let get = |name: &str| figures.get(name, &[("ifindex", label("ifindex")), ("queue", label("queue"))]);
        Queue {
            device: label("device").to_owned(),
            queue: label("queue").to_owned(),
            qdisc: label("qdisc").to_owned(),
            variant: if label("qdisc") == "noqueue" { String::new() } else { label("variant").to_owned() },
            packets: get("napier_tx_packets"),
            bytes: get("napier_tx"),
            drops: get("napier_tx_drops").zip(get("napier_tx_burst_drops")).map(|(drops, bursts)| drops + bursts),
            requeues: get("napier_tx_requeues"),
            flushes: get("napier_tx_flushes"),
            stops: get("napier_tx_stops"),
            waiting: get("napier_tx_qlen"),
        }
    };
    figures.samples("napier_tx_info").iter().map(queue).collect()
}

fn contexts(figures: &Figures<'_>) -> Vec<Context> {
    let context = |key: Key| {
        let get = |name: &str| figures.get(name, &[("event_context", &key[0])]);
        Context {
            napi_id: get("napier_event_busy_poll_napi_id")
                .filter(|id| *id != 0)
                .map_or_else(String::new, |id| id.to_string()),
            waits: get("napier_event_waits"),
            events: get("napier_event_events"),
            busy_loops: get("napier_event_busy_loops"),
            sleeps: get("napier_event_sleeps"),
            wakes: get("napier_event_wakes"),
            number: key[0].clone(),
        }
    };
    figures.objects("napier_event_waits", &["event_context"]).into_iter().map(context).collect()
}

fn groups(figures: &Figures<'_>) -> Vec<GroupCpu> {
    let group = |key: Key| {
        let (group, cpu) = (key[0].as_str(), key[1].as_str());
        let of_thread = [("name", group), ("role", "group"), ("cpu", cpu)];
        let has = |sample: &&Sample| label_of(sample, "group") == group && sample.value.to_string() == cpu;
        GroupCpu {
            group: group.to_owned(),
            cpu: cpu.to_owned(),
            asleep: figures.get("napier_group_cpu_asleep", &[("group", group), ("cpu", cpu)]) == Some(1),
            queues: figures.samples("napier_group_member_cpu").iter().filter(has).count() as u64,
            parks: figures.get("napier_group_cpu_parks", &[("group", group), ("cpu", cpu)]),
            vain_parks: figures.get("napier_group_cpu_vain_parks", &[("group", group), ("cpu", cpu)]),
            cpu_ns: figures.get("napier_thread_cpu", &of_thread),
            spinning_ns: figures.get("napier_thread_spinning", &of_thread),
            lived_ns: figures.get("napier_thread_lifetime", &of_thread),
        }
    };
    figures.objects("napier_group_cpu_parks", &["group", "cpu"]).into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::SHOWN;

    #[test]
    fn what_is_looked_for_is_asked_for() {
        let code = include_str!("engine.rs").split("\n#[cfg(test)]").next().unwrap_or_default();
        let names: Vec<&str> = code.split('"').filter(|word| word.starts_with("napier_")).collect();
        assert!(names.len() > 2 * SHOWN.len(), "{names:?}");
        for name in &names[SHOWN.len()..] {
            assert!(SHOWN.iter().any(|prefix| name.starts_with(prefix)), "{name}");
        }
    }
}

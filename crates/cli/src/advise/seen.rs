//! A workload from what is there: a program that is watched for some time, or packets that were captured.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use napier_core::control::{QueryError, QueueKind};
use napier_core::time::Span;
use napier_kv::service::Service;
use napier_lab::advise::{RecordedArrivals, log, pcap};
use napier_lab::machines::MachineFile;
use napier_linux::cost::CpuMeter;
use napier_linux::explain::{Arrivals, Explainer, refused};
use napier_linux::given;
use napier_linux::netdev::{Netdev, ifindex};
use napier_linux::process::Roots;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::Usage;
use crate::page::plural;

/// Between two looks at what the kernel recorded.
const LOOK: Duration = Duration::from_millis(20);
/// Requests without which nothing can be said.
const REQUESTS_MIN: usize = 100;
/// Connections that are simulated for one queue.
const CONNECTIONS_MAX: usize = 60_000;
/// Bytes of a file of packets: with 128 bytes of each some eight millions.
const FILE_MAX: u64 = 1 << 30;
/// In which slices of time bursts are looked for.
const SLICE: Span = Span::from_ms(1);

/// What was seen, and what is assumed beside.
#[derive(Serialize)]
pub(crate) struct Seen {
    /// What was watched.
    pub(crate) source: String,
    seconds: f64,
    requests: usize,
    rate_rps: f64,
    /// Connections that asked for something.
    connections: usize,
    pub(crate) queues: u16,
    /// Variance of the requests in a millisecond over their mean; 1: by chance.
    burstiness: f64,
    /// Requests to a wake-up of the program.
    requests_per_wakeup: Option<f64>,
    /// CPU time of the program itself for a request.
    pub(crate) user_us: Option<f64>,
    assumed: Vec<String>,
    #[serde(skip)]
    pub(crate) recorded: Arc<RecordedArrivals>,
    /// What requests took, where a log says it.
    #[serde(skip)]
    logged: Option<Service>,
}

impl Seen {
    fn new(source: String, recorded: RecordedArrivals, queues: u16) -> anyhow::Result<Self> {
        let requests = recorded.requests();
        if requests < REQUESTS_MIN {
            bail!(
                "{source}: {} are too few for advice; watch for longer, or while it is busy",
                plural(requests, "request")
            );
        }
        if recorded.connections() > CONNECTIONS_MAX * usize::from(queues) {
            bail!("{source}: {} are more than are simulated", plural(recorded.connections(), "connection"));
        }
        let assumed = vec![
            "requests come again as they came, a connection's next one only when the one before is answered".to_owned(),
            format!("{} share the queues evenly", plural(recorded.connections(), "connection")),
        ];
        Ok(Self {
            source,
            seconds: recorded.length().ns as f64 / 1e9,
            requests,
            rate_rps: recorded.rate_rps(),
            connections: recorded.connections(),
            queues,
            burstiness: recorded.dispersion(SLICE),
            requests_per_wakeup: None,
            user_us: None,
            assumed,
            recorded: Arc::new(recorded),
            logged: None,
        })
    }

    /// Requests in a second over all queues.
    pub(crate) fn rate(&self) -> u64 {
        (self.rate_rps.round() as u64).max(1)
    }

    /// Connections over all queues.
    pub(crate) fn connections(&self) -> u16 {
        u16::try_from(self.connections.max(self.queues.into())).unwrap_or(u16::MAX)
    }

    /// What each request takes the program beside what a machine has for it, if that was seen; what is assumed of it is noted.
    pub(crate) fn service(&mut self, machine: &MachineFile) -> Option<Service> {
        if let Some(service) = self.logged.clone() {
            self.assume(format!(
                "requests take the program {:.2} us in the mean, spread as in the log, beside what the machine file has for each",
                service.mean_us()
            ));
            return Some(service);
        }
        let Some(user_us) = self.user_us else {
            self.assume("a request takes the program no more than the machine file says: give --service".to_owned());
            return None;
        };
        let has_us = machine.request().ns as f64 / 1000.0;
        let beside_us = user_us - has_us;
        // A hundredth of a microsecond is less than is known.
        let service = format!("{beside_us:.2}us").parse().ok().filter(|_| beside_us >= 0.01);
        self.assume(match service {
            Some(_) => format!(
                "each request takes the program the same time: {beside_us:.2} us beside the {has_us:.2} us that the machine file has for it"
            ),
            None => format!("a request takes the program {has_us:.2} us, as the machine file has it"),
        });
        service
    }

    /// What is assumed, more of it.
    fn assume(&mut self, what: String) {
        self.assumed.push(what);
    }

    /// Two paragraphs for a person.
    pub(crate) fn text(&self) -> String {
        let Self { source, seconds, rate_rps, connections, queues, burstiness, .. } = self;
        let mut seen = format!(
            "{source}, {seconds:.1} s: {rate_rps:.0} requests/s of {} over {}, in milliseconds {}",
            plural(*connections, "connection"),
            plural(*queues, "queue"),
            match burstiness {
                much if *much > 2.0 => format!("{much:.1} times as uneven as by chance"),
                little if *little < 0.5 => format!("{little:.1} times as uneven as by chance, so nearly by a clock"),
                _ => "about as by chance".to_owned(),
            }
        );
        if let Some(requests) = self.requests_per_wakeup {
            seen += &format!(", {requests:.1} to a wake-up");
        }
        if let Some(us) = self.user_us {
            seen += &format!(", {us:.2} us of the program's own CPU time each");
        }
        let mut page = crate::page::Page::default();
        page.words("seen     ", &seen);
        page.words("assumed  ", &self.assumed.join("; "));
        page.blank();
        page.finish()
    }
}

/// Watches a program.
pub(crate) fn live(pid: u32, device: Option<&str>, span: Duration, interrupted: &AtomicBool) -> anyhow::Result<Seen> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_err(|_| Usage(anyhow!("there is no process {pid}: `pgrep -x NAME` says which there are")))?;
    let queues = device.map(queues_of).transpose()?.flatten();
    let not_traced = |error| anyhow!("{}", refused(&error));
    let devices: Vec<String> = device.map(str::to_owned).into_iter().collect();
    let mut explainer = Explainer::new(pid, &devices).map_err(not_traced)?;
    let (mut arrivals, mut meter) = (Arrivals::default(), CpuMeter::of(Roots::Process(pid)));
    explainer.begin().map_err(not_traced)?;
    let (begun_ns, begun, before) = (now_ns(), Instant::now(), meter.look());
    let mut until_ns = begun_ns;
    eprintln!("napier: watching {} for {:.0} s", name.trim_end(), span.as_secs_f64());
    while begun.elapsed() < span && !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK.min(span.saturating_sub(begun.elapsed())));
        let program = explainer.threads().program.clone();
        until_ns = now_ns();
        explainer.look(until_ns, &mut |event| arrivals.add(event, &program)).map_err(not_traced)?;
        if std::fs::metadata(format!("/proc/{pid}")).is_err() {
            bail!("{} has ended", name.trim_end());
        }
    }
    let (seconds, after) = (begun.elapsed(), meter.look());
    let lost = explainer.end(seconds).lost_events;
    let (length, numbers) = (Span::from_ns(until_ns - begun_ns), &mut HashMap::new());
    let mut number = |socket: u64| {
        let next = numbers.len() as u32;
        *numbers.entry(socket).or_insert(next)
    };
    let requests = arrivals.requests().iter();
    let requests = requests.map(|one| (Span::from_ns(one.at_ns.saturating_sub(begun_ns)), number(one.socket)));
    let source = format!("{} (pid {pid})", name.trim_end());
    let recorded = RecordedArrivals::new(length, requests.collect::<Vec<_>>()).with_context(|| {
        format!("{source} read nothing from sockets of IPv4 or IPv6 in {:.1} s", seconds.as_secs_f64())
    })?;
    // A thread of the server for each queue is what is simulated.
    let threads = u16::try_from(arrivals.readers()).unwrap_or(u16::MAX);
    let queues = queues.unwrap_or(threads).min(threads).max(1);
    let mut seen = Seen::new(source, recorded, queues)?;
    seen.requests_per_wakeup = (arrivals.wakes() > 0).then(|| seen.requests as f64 / arrivals.wakes() as f64);
    let user_ns = before.and_then(|spent| spent.user_ns).zip(after.and_then(|spent| spent.user_ns));
    seen.user_us = user_ns.map(|(before, after)| after.saturating_sub(before) as f64 / 1000.0 / seen.requests as f64);
    seen.assume("a request came when its socket was told of it, so what the mode in force now holds back, and brings together, is in that".to_owned());
    seen.assume(match device {
        Some(device) => {
            format!("there are as many queues as {device} has, but no more than threads of the program read, {threads}")
        }
        None => format!("there are as many queues as threads of the program read, {threads}"),
    });
    if lost > 0 {
        seen.assume(format!("{} came faster than they were read: requests are missing", plural(lost, "event")));
    }
    if arrivals.is_cut() {
        seen.assume("there were more requests than are kept: of the rest nothing is known".to_owned());
    }
    Ok(seen)
}

/// Receive queues of an interface; `None` where the kernel does not list them (before Linux 6.8).
fn queues_of(device: &str) -> anyhow::Result<Option<u16>> {
    let index =
        ifindex(device).map_err(|error| Usage(anyhow!("--dev {device}: {error}; `ip link` lists interfaces")))?;
    let Ok(mut netdev) = Netdev::open::<QueryError>() else { return Ok(None) };
    let Ok(all) = netdev.queue_dump(Some(index.into())) else { return Ok(None) };
    let receive = all.iter().filter(|queue| queue.info.kind == QueueKind::Rx).count();
    Ok(u16::try_from(receive).ok().filter(|queues| *queues > 0))
}

/// Reads a file of packets.
pub(crate) fn captured(path: &Path, port: Option<u16>, queues: u16) -> anyhow::Result<Seen> {
    let usage = |why: String| Usage(anyhow!("--pcap {}: {why}", path.display()));
    let bytes = given::read(path, FILE_MAX).map_err(|error| usage(error.to_string()))?;
    let found = pcap::requests(&mut &bytes[..], port).map_err(|error| usage(error.to_string()))?;
    let source = format!("{}, port {}", path.display(), found.port);
    let recorded = RecordedArrivals::new(found.length, found.requests).expect("there are requests");
    let mut seen = Seen::new(source, recorded, queues)?;
    seen.assume(match found.has_answers {
        true => "what comes on a connection before an answer is one request".to_owned(),
        false => "each packet with data is a request, for no answers are in the file".to_owned(),
    });
    if found.is_cut {
        seen.assume(
            "the file ends in the middle, or has more packets than are kept: of the rest nothing is known".to_owned(),
        );
    }
    Ok(seen)
}

/// Reads a log of requests.
pub(crate) fn logged(path: &Path, queues: u16) -> anyhow::Result<Seen> {
    let usage = |why: String| Usage(anyhow!("--arrivals {}: {why}", path.display()));
    let text = given::read_text(path, FILE_MAX).map_err(|error| usage(error.to_string()))?;
    let found = log::requests(&text).map_err(|error| usage(error.to_string()))?;
    let recorded = RecordedArrivals::new(found.length, found.requests).expect("there are requests");
    let seen = Seen::new(path.display().to_string(), recorded, queues)?;
    Ok(Seen { logged: found.service, ..seen })
}

/// As the kernel stamps its events.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

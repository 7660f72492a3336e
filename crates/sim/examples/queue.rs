//! A queue with one server, random arrivals and a fixed time of service (M/D/1), timed: `lab/ns3-queue.sh` runs it beside the same queue
//! in ns-3.
//!
//! ```sh
//! cargo run --release -p napier-sim --example queue -- machine|agenda SOURCES UTILISATION_PCT SECONDS SEED
//! ```
//!
//! A source sends again a random time after its last request was due, and not before that was answered.
//!
//! - `machine`: on the simulated machine. The program's work for a request is the service; everything else costs nothing, but is done
//!   all the same: a frame, an interrupt, polls by the rules, a socket, an event context, an acknowledgement, each with its checks.
//! - `agenda`: on an agenda as `machine/world.rs` has it, which is not public, without a machine: arrivals and departures alone, as in ns-3.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use napier_core::time::Span;
use napier_rng::load::Load;
use napier_sim::machine::figures::{self, Core, Experiment, Length, Setting};
use napier_sim::machine::{Clients, Work, WorkCosts};
use rand::RngExt as _;

/// Time of one service.
const SERVICE: Span = Span::from_us(10);

struct Asked {
    sources: u16,
    rate_rps: u64,
    seconds: u64,
    seed: u64,
}

struct Came {
    events: u64,
    answers: u64,
    mean_us: f64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = args.iter().skip(1).map(|arg| arg.parse().expect("a number")).collect();
    let &[sources, utilisation_pct, seconds, seed] = &numbers[..] else {
        eprintln!("usage: queue machine|agenda SOURCES UTILISATION_PCT SECONDS SEED");
        std::process::exit(2);
    };
    let sources = u16::try_from(sources).expect("at most 65,535 sources");
    let asked = Asked { sources, rate_rps: 1_000_000_000 / SERVICE.ns * utilisation_pct / 100, seconds, seed };
    let begun = cpu_s();
    let came = if args[0] == "machine" { on_machine(&asked) } else { on_agenda(&asked) };
    let cpu = cpu_s() - begun;
    println!("events {} answers {} mean_us {:.3} cpu_s {cpu:.4}", came.events, came.answers, came.mean_us);
}

/// CPU time of this thread. Source: Documentation/scheduler/sched-stats.rst.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let ns = text.split_whitespace().next().expect("a number");
    ns.parse::<f64>().expect("a number") / 1e9
}

fn on_machine(asked: &Asked) -> Came {
    let mut costs = WorkCosts::NONE;
    costs.set(Work::Request, SERVICE);
    let core = Core::of(costs, 1);
    let clients = Clients {
        connections: asked.sources,
        load: Load::Rps(asked.rate_rps),
        to_server: Span::ZERO,
        to_client: Span::ZERO,
        to_client_noise: Span::ZERO,
        step_per_100k: 0,
        step: (Span::ZERO, Span::ZERO),
        request_bytes: 64,
        acknowledges: true,
        rto_min: None,
    };
    // The queue begins empty, which takes a moment to be forgotten.
    let warm_up = Span::from_ms(asked.seconds * 100);
    let measured = Span::from_ms(asked.seconds * 900);
    let length = Length { warm_up, measured };
    let figures = figures::run(&Experiment { setting: Setting::Server(core, clients), length, seed: asked.seed });
    assert_eq!(figures.broken, None, "the rules hold");
    let answers = figures.latency_ns.len() as u64;
    let mean_us = mean_us(figures.latency_ns.iter().sum(), answers);
    // Events are those of the whole run, of which the measured time is nine parts of ten.
    Came { events: figures.steps, answers: answers * 10 / 9, mean_us }
}

fn mean_us(sum_ns: u64, answers: u64) -> f64 {
    sum_ns as f64 / answers as f64 / 1000.0
}

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive { source: u16 },
    Depart,
}

/// Events in order of time, those of one instant in the order of their pushing.
#[derive(Default)]
struct Agenda {
    now_ns: u64,
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pushed: u64,
}

impl Agenda {
    fn push(&mut self, at_ns: u64, event: Event) {
        self.pushed += 1;
        self.heap.push(Reverse((at_ns, self.pushed, event)));
    }

    fn pop(&mut self, until_ns: u64) -> Option<Event> {
        if self.heap.peek()?.0.0 > until_ns {
            return None;
        }
        let Reverse((at_ns, _, event)) = self.heap.pop()?;
        assert!(at_ns >= self.now_ns, "time does not go back");
        self.now_ns = at_ns;
        Some(event)
    }
}

#[derive(Copy, Clone, Default)]
struct Source {
    due_ns: u64,
    sent_ns: u64,
}

fn on_agenda(asked: &Asked) -> Came {
    let mut rng = napier_rng::stream(asked.seed, "sources");
    let mean_ns = 1e9 * f64::from(asked.sources) / asked.rate_rps as f64;
    let mut gap_ns = move || (-rng.random_range(f64::EPSILON..1.0).ln() * mean_ns) as u64;
    let (mut agenda, mut waiting) = (Agenda::default(), VecDeque::new());
    let mut sources = vec![Source::default(); asked.sources.into()];
    for source in 0..asked.sources {
        let at = &mut sources[usize::from(source)];
        at.due_ns = gap_ns();
        agenda.push(at.due_ns, Event::Arrive { source });
    }
    let (mut events, mut answers, mut sum_ns) = (0, 0, 0);
    while let Some(event) = agenda.pop(asked.seconds * 1_000_000_000) {
        let now_ns = agenda.now_ns;
        events += 1;
        match event {
            Event::Arrive { source } => {
                sources[usize::from(source)].sent_ns = now_ns;
                waiting.push_back(source);
                if waiting.len() == 1 {
                    agenda.push(now_ns + SERVICE.ns, Event::Depart);
                }
            }
            Event::Depart => {
                let source = waiting.pop_front().expect("one is served");
                let from = &mut sources[usize::from(source)];
                answers += 1;
                sum_ns += now_ns - from.sent_ns;
                from.due_ns += gap_ns();
                agenda.push(from.due_ns.max(now_ns), Event::Arrive { source });
                if !waiting.is_empty() {
                    agenda.push(now_ns + SERVICE.ns, Event::Depart);
                }
            }
        }
    }
    Came { events, answers, mean_us: mean_us(sum_ns, answers) }
}

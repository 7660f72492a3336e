//! The picture of a timeline: SVG that reads on light and dark pages, and without colour.

use std::fmt::Write as _;

use napier_core::context::PollContext;
use napier_core::control::plan::Write as Setting;
use napier_core::control::{NapiChange, ThreadedSetting};
use napier_core::time::{Instant, Span};

use super::lanes::{Armed, Doing, Stretch};
use super::{AFTER, ARRIVALS_US, BEGIN, Numbers, SERVICE, Timeline, WINDOW};
use napier_lab::machines::instance_settings;
use napier_lab::modes::Mode;

const WIDTH: f64 = 940.0;
const LEFT: f64 = 152.0;
const PX_PER_US: f64 = 3.36;
const HEAD: f64 = 66.0;
const LANE: f64 = 50.0;
const FOOT: f64 = 88.0;

/// Fill and stroke by what they mean; shape and pattern say the same without colour.
const STYLE: &str = "\
    svg { --page: #ffffff; --edge: #cbd2d9; --ink: #1f2933; --soft: #52606d; --line: #e4e7eb; --work: #2f6f9f; --onwork: #ffffff; \
    --asked: #f7c46c; --askedge: #8a5300; --busy: #fdebd0; --handler: #9b1c1c; --quiet: #dfe4ea; --masked: #eceff2 }\n\
    @media (prefers-color-scheme: dark) { svg { --page: #1b2127; --edge: #3e4c59; --ink: #e4e7eb; --soft: #a9b4c0; --line: #2b343d; \
    --work: #7db8e0; --onwork: #10161b; --asked: #c98a2b; --askedge: #f3cf90; --busy: #43351f; --handler: #ff8a80; --quiet: #3b4652; \
    --masked: #2a323a } }\n\
    .page { fill: var(--page); stroke: var(--edge) } .ink { fill: var(--ink) } .soft { fill: var(--soft) } .grid { stroke: var(--line) }\n\
    .works { fill: var(--work); stroke: var(--ink); stroke-width: .8 } .onwork { fill: var(--onwork) }\n\
    .asked { fill: var(--asked); stroke: var(--askedge); stroke-width: .8 } .handler { fill: var(--handler) }\n\
    .busy { fill: url(#hatch); stroke: var(--askedge); stroke-width: .8 } .call { fill: var(--quiet); stroke: var(--soft); stroke-width: .6 }\n\
    .masked { fill: url(#dots); stroke: var(--soft); stroke-width: .8 } .rule { stroke: var(--soft); stroke-width: 1.4; fill: none }\n\
    .timer { fill: none; stroke: var(--ink); stroke-width: 1.2 } .suspends { stroke-width: 4 } .fired { fill: var(--ink) } .way { stroke: var(--work); stroke-width: 1; \
    opacity: .45; stroke-dasharray: 3 2 } .find { stroke: var(--ink); stroke-width: 1.3 }";

/// The picture of a mode's run.
#[must_use]
pub fn svg(timeline: &Timeline) -> String {
    let poller = timeline.poller();
    let lanes = if timeline.has_poller() { 6 } else { 5 };
    let height = HEAD + LANE * f64::from(lanes) + FOOT;
    let mut p = Picture { text: String::new() };
    p.begin(timeline, height);
    p.grid(HEAD + LANE * f64::from(lanes));
    p.ways(timeline);
    p.wire();
    p.interrupt_line(timeline);
    p.timers(timeline);
    p.label(3, "CPU 0: interrupts", "and softirqs");
    p.blocks(3, &timeline.levels());
    p.finds(3, &timeline.finds(|context| matches!(context, PollContext::Softirq | PollContext::Ksoftirqd)));
    p.label(4, "CPU 0: program", "4 us for a packet");
    debug_assert!(SERVICE == Span::from_us(4), "the label says so");
    p.blocks(4, &timeline.program());
    p.finds(4, &timeline.finds(|context| context == PollContext::User));
    if timeline.has_poller() {
        let name = if timeline.mode == Mode::Group { "of the group" } else { "of the instance" };
        p.label(5, "CPU 1: thread", name);
        p.blocks(5, &poller);
        let of = |context| matches!(context, PollContext::Kthread | PollContext::KthreadBusy | PollContext::Group);
        p.finds(5, &timeline.finds(of));
    }
    p.foot(timeline, HEAD + LANE * f64::from(lanes));
    p.text.push_str("</svg>\n");
    p.text
}

impl Timeline {
    fn has_poller(&self) -> bool {
        self.mode.is_threaded() || self.mode == Mode::Group
    }
}

/// What a mode sets, in words; only what is not the default.
#[must_use]
pub fn settings(mode: Mode) -> String {
    let us = |span: Span| {
        if span.ns.is_multiple_of(1_000_000) {
            format!("{} ms", span.ns / 1_000_000)
        } else {
            format!("{} us", span.ns / 1000)
        }
    };
    let said = |write: &Setting| match *write {
        Setting::Instance(NapiChange::DeferHardIrqs(0) | NapiChange::Threaded(ThreadedSetting::Disabled)) => None,
        Setting::Instance(NapiChange::GroFlushTimeout(Span::ZERO) | NapiChange::IrqSuspendTimeout(Span::ZERO)) => None,
        Setting::Instance(NapiChange::GroFlushTimeout(span)) => Some(format!("gro-flush-timeout {}", us(span))),
        Setting::Instance(NapiChange::IrqSuspendTimeout(span)) => Some(format!("irq-suspend-timeout {}", us(span))),
        Setting::Context(params) => Some(format!(
            "epoll: busy_poll_usecs {}, prefer_busy_poll {}",
            params.busy_poll_usecs,
            u8::from(params.prefer_busy_poll)
        )),
        Setting::Wait(Some(span)) => Some(format!("a wait lasts {} at most", us(span))),
        write => Some(write.to_string()),
    };
    let all: Vec<String> = mode.plan().writes().filter_map(said).collect();
    match (all.is_empty(), mode) {
        (_, Mode::Group) => "the queue is a member of a group of CPUs, which has CPU 1".to_owned(),
        (true, _) => "nothing is set".to_owned(),
        (false, _) => all.join(", "),
    }
}

struct Picture {
    text: String,
}

/// Where an instant is.
fn x(at: Instant) -> f64 {
    LEFT + (at.ns - BEGIN.ns) as f64 / 1000.0 * PX_PER_US
}

/// The middle of a lane.
fn middle(lane: u32) -> f64 {
    HEAD + LANE * (f64::from(lane) + 0.5)
}

fn arrival(us: u64) -> Instant {
    BEGIN + Span::from_us(us)
}

impl Picture {
    fn put(&mut self, line: std::fmt::Arguments<'_>) {
        self.text.write_fmt(line).expect("a string takes everything");
        self.text.push('\n');
    }

    fn begin(&mut self, timeline: &Timeline, height: f64) {
        let (mode, set) = (timeline.mode, settings(timeline.mode));
        self.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\" font-size=\"12\">"
        ));
        self.put(format_args!("<title>Mode {mode}: how eight packets reach a program</title>"));
        self.put(format_args!("<desc>{set}. {}</desc>", in_words(&timeline.numbers())));
        self.put(format_args!("<style>{STYLE}</style>"));
        self.put(format_args!(
            "<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
             <rect width=\"5\" height=\"5\" fill=\"var(--busy)\"/><rect width=\"1.6\" height=\"5\" fill=\"var(--askedge)\"/></pattern>\
             <pattern id=\"dots\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
             <rect width=\"5\" height=\"5\" fill=\"var(--masked)\"/><circle cx=\"2.5\" cy=\"2.5\" r=\".9\" fill=\"var(--soft)\"/></pattern></defs>"
        ));
        self.put(format_args!(
            "<rect class=\"page\" x=\".5\" y=\".5\" width=\"{:.1}\" height=\"{:.1}\" rx=\"10\"/>",
            WIDTH - 1.0,
            height - 1.0
        ));
        self.put(format_args!(
            "<text class=\"ink\" x=\"16\" y=\"28\" font-size=\"17\" font-weight=\"bold\">{mode}</text>"
        ));
        self.put(format_args!("<text class=\"soft\" x=\"16\" y=\"48\">{set}</text>"));
    }

    fn grid(&mut self, bottom: f64) {
        for us in (0..=WINDOW.ns / 1000).step_by(20) {
            let at = x(arrival(us));
            self.put(format_args!("<path class=\"grid\" d=\"M{at:.1} {HEAD} V{bottom}\"/>"));
            let unit = if us == 0 { " us" } else { "" };
            self.put(format_args!(
                "<text class=\"soft\" x=\"{at:.1}\" y=\"{:.1}\" font-size=\"10\" text-anchor=\"middle\">{us}{unit}</text>",
                bottom + 14.0
            ));
        }
    }

    fn label(&mut self, lane: u32, name: &str, more: &str) {
        let y = middle(lane);
        self.put(format_args!("<text class=\"ink\" x=\"16\" y=\"{:.1}\" font-weight=\"bold\">{name}</text>", y - 1.0));
        self.put(format_args!("<text class=\"soft\" x=\"16\" y=\"{:.1}\" font-size=\"10.5\">{more}</text>", y + 13.0));
    }

    /// From the wire to the program.
    fn ways(&mut self, timeline: &Timeline) {
        let starts = timeline.story.works.iter().map(|(begun, _)| *begun).filter(|begun| *begun >= BEGIN);
        for (us, begun) in ARRIVALS_US.iter().zip(starts).filter(|(_, begun)| *begun < BEGIN + WINDOW) {
            self.put(format_args!(
                "<path class=\"way\" d=\"M{:.1} {:.1} L{:.1} {:.1}\"/>",
                x(arrival(*us)),
                middle(0) + 9.0,
                x(begun),
                middle(4) - 10.0
            ));
        }
    }

    fn wire(&mut self) {
        self.label(0, "packets", "from the wire");
        let y = middle(0);
        for (number, us) in (1..).zip(ARRIVALS_US) {
            let at = x(arrival(us));
            self.put(format_args!("<path class=\"ink\" d=\"M{:.1} {:.1} h9 l-4.5 9 z\"/>", at - 4.5, y));
            self.put(format_args!(
                "<text class=\"ink\" x=\"{at:.1}\" y=\"{:.1}\" font-size=\"10\" text-anchor=\"middle\">{number}</text>",
                y - 4.0
            ));
        }
    }

    /// High and thin while the device may interrupt, low and dotted while it is masked; a bolt where it did.
    fn interrupt_line(&mut self, timeline: &Timeline) {
        self.label(1, "interrupt", "of the device");
        let (high, low) = (middle(1) - 12.0, middle(1) + 14.0);
        let mut path = format!("M{:.1} ", x(BEGIN));
        let masked = timeline.masked();
        let starts_masked = masked.first().is_some_and(|first| first.from == BEGIN);
        write!(path, "{:.1}", if starts_masked { low } else { high }).expect("a string takes everything");
        let mut free_from = BEGIN;
        for stretch in &masked {
            let (from, to) = (x(stretch.from), x(stretch.to));
            self.enabled(Stretch::new(free_from, stretch.from), high);
            free_from = stretch.to;
            self.put(format_args!(
                "<rect class=\"masked\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"11\"/>",
                low - 11.0,
                to - from
            ));
            if to - from > 60.0 {
                self.put(format_args!(
                    "<text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" text-anchor=\"middle\">masked</text>",
                    (from + to) / 2.0,
                    low - 15.0
                ));
            }
            write!(path, " H{from:.1} V{low:.1} H{to:.1}").expect("a string takes everything");
            if stretch.to < BEGIN + WINDOW {
                write!(path, " V{high:.1}").expect("a string takes everything");
            }
        }
        self.enabled(Stretch::new(free_from, BEGIN + WINDOW), high);
        write!(path, " H{:.1}", x(BEGIN + WINDOW)).expect("a string takes everything");
        self.put(format_args!("<path class=\"rule\" d=\"{path}\"/>"));
        for at in timeline.interrupts() {
            self.put(format_args!(
                "<path class=\"handler\" d=\"M{:.1} {:.1} l-5 10 h4 l-2 9 7 -12 h-4 l3 -7 z\"/>",
                x(at) + 1.0,
                high - 4.0
            ));
        }
    }

    fn enabled(&mut self, free: Stretch, high: f64) {
        let (from, to) = (x(free.from), x(free.to));
        if to - from > 64.0 {
            self.put(format_args!(
                "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" text-anchor=\"middle\">enabled</text>",
                (from + to) / 2.0,
                high + 13.0
            ));
        }
    }

    fn timers(&mut self, timeline: &Timeline) {
        self.label(2, "timer", "of the instance");
        let y = middle(2);
        let suspension = instance_settings(&timeline.mode.plan()).0.irq_suspend_timeout;
        for Armed { stretch, after, fired } in timeline.timers() {
            let (from, to) = (x(stretch.from), x(stretch.to));
            self.put(format_args!(
                "<path class=\"timer\" d=\"M{from:.1} {:.1} v12 M{from:.1} {y:.1} H{to:.1}\"/>",
                y - 6.0
            ));
            if after == suspension {
                self.put(format_args!("<path class=\"timer suspends\" d=\"M{from:.1} {y:.1} H{to:.1}\"/>"));
            }
            if fired {
                self.put(format_args!("<path class=\"fired\" d=\"M{to:.1} {:.1} l4.5 6 -4.5 6 -4.5 -6 z\"/>", y - 6.0));
            }
            let text = if after.ns.is_multiple_of(1_000_000) {
                format!("{} ms", after.ns / 1_000_000)
            } else {
                format!("{} us", after.ns / 1000)
            };
            if to - from > 44.0 {
                self.put(format_args!(
                    "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" text-anchor=\"middle\">{text}</text>",
                    (from + to) / 2.0,
                    y - 5.0
                ));
            }
        }
    }

    fn blocks(&mut self, lane: u32, blocks: &[(Stretch, Doing)]) {
        let floor = middle(lane) + 15.0;
        self.put(format_args!(
            "<path class=\"grid\" stroke-width=\"1.5\" d=\"M{:.1} {floor:.1} H{:.1}\"/>",
            x(BEGIN),
            x(BEGIN + WINDOW)
        ));
        for (stretch, doing) in blocks {
            let (from, to) = (x(stretch.from), x(stretch.to));
            let (class, high) = match doing {
                Doing::Handler => ("handler", 30.0),
                Doing::Asked => ("asked", 20.0),
                Doing::Busy => ("busy", 20.0),
                Doing::Call => ("call", 9.0),
                Doing::Works(_) => ("works", 25.0),
            };
            self.put(format_args!(
                "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{high:.1}\"/>",
                floor - high,
                to - from
            ));
            if let Doing::Works(number) = doing
                && to - from > 8.0
            {
                self.put(format_args!(
                    "<text class=\"onwork\" x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" text-anchor=\"middle\">{number}</text>",
                    (from + to) / 2.0,
                    floor - 9.0
                ));
            }
        }
    }

    /// Polls that found packets, and how many.
    fn finds(&mut self, lane: u32, finds: &[(Instant, u32)]) {
        let floor = middle(lane) + 15.0;
        for (at, work) in finds {
            let at = x(*at);
            self.put(format_args!("<path class=\"find\" d=\"M{at:.1} {floor:.1} v-27\"/>"));
            self.put(format_args!(
                "<text class=\"ink\" x=\"{at:.1}\" y=\"{:.1}\" font-size=\"9.5\" text-anchor=\"middle\">{work}</text>",
                floor - 29.0
            ));
        }
    }

    fn foot(&mut self, timeline: &Timeline, bottom: f64) {
        let y = bottom + 36.0;
        let mut at = 16.0;
        let samples = [
            ("handler", 30.0, "interrupt handler"),
            ("asked", 20.0, "polls when asked"),
            ("busy", 20.0, "polls by itself"),
            ("works", 25.0, "works for packet"),
            ("call", 9.0, "system call"),
        ];
        for (class, high, text) in samples {
            let high = high * 0.5;
            self.put(format_args!(
                "<rect class=\"{class}\" x=\"{at:.1}\" y=\"{:.1}\" width=\"14\" height=\"{high:.1}\"/>",
                y - high
            ));
            self.put(format_args!(
                "<text class=\"soft\" x=\"{:.1}\" y=\"{y:.1}\" font-size=\"10.5\">{text}</text>",
                at + 19.0
            ));
            at += 36.0 + text.len() as f64 * 5.8;
        }
        self.put(format_args!(
            "<text class=\"soft\" x=\"{at:.1}\" y=\"{y:.1}\" font-size=\"10.5\"><tspan class=\"ink\" font-weight=\"bold\">| 2</tspan> \
             a poll that found 2<tspan class=\"ink\" dx=\"12\">&#9670;</tspan> timer expired</text>"
        ));
        self.put(format_args!(
            "<text class=\"ink\" x=\"16\" y=\"{:.1}\">{}</text>",
            y + 21.0,
            in_words(&timeline.numbers())
        ));
        self.put(format_args!("<text class=\"soft\" x=\"16\" y=\"{:.1}\">{}</text>", y + 38.0, afterwards(timeline)));
    }
}

fn in_words(n: &Numbers) -> String {
    let many = |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    let us = |ns: u64| ns as f64 / 1000.0;
    let waits = match (n.waits_ns.iter().min(), n.waits_ns.iter().max()) {
        (Some(least), Some(most)) => format!("a packet is done {:.1} to {:.1} us after it came", us(*least), us(*most)),
        _ => "no packet is done".to_owned(),
    };
    let second = if n.busy_pct[1] > 0 { format!(", CPU 1 {} %", n.busy_pct[1]) } else { String::new() };
    format!(
        "{}, {} expired, {} ({} empty); {waits}; CPU 0 is busy {} %{second}.",
        many(n.interrupts, "interrupt"),
        many(n.timers, "timer"),
        many(n.polls, "poll"),
        n.empty_polls,
        n.busy_pct[0],
    )
}

/// What the picture does not show any more.
fn afterwards(timeline: &Timeline) -> String {
    match timeline.afterwards() {
        None => "After the picture nothing happens until the next packet.".to_owned(),
        Some((Some(at), polls)) => {
            let us = (at.ns - BEGIN.ns) / 1000;
            format!("If no packet comes: {polls} more empty polls, and at {us} us the interrupt is enabled again.")
        }
        Some((None, polls)) => {
            let ms = AFTER.ns / 1_000_000;
            format!(
                "If no packet comes: {polls} more empty polls in {ms} ms, and the interrupt stays masked all that time."
            )
        }
    }
}

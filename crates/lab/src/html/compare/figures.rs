//! The figures of a comparison.

use maud::{Markup, html};

use super::{load_words, loads, rate, span};
use crate::html::plot::bars::{Bar, bars};
use crate::html::plot::frontier::{Dot, frontier};
use crate::html::plot::lines::{Curve, Point, lines};
use crate::html::plot::ranges::{RangeMark, RangeRow, ranges};
use crate::html::plot::series::key;
use crate::html::plot::{Axis, HALF, PANEL, Said, Scale, SeriesStyle, Size, WIDE};
use crate::html::shell::figure;
use crate::loads::Load;
use crate::report::verdict::Block;
use crate::report::{Report, Row, answer};
use crate::stats::Figures;
use crate::subject::{Backend, Subject};

/// A figure of a run.
type Figure = fn(&Figures) -> f64;

/// Percentile, µs, and the lowest and highest run.
type Percentile = (f64, f64, Option<(f64, f64)>);

/// Percentiles that every version has.
const FEW: [(f64, Figure); 5] = [
    (50.0, |f| f.latency_us.p50),
    (90.0, |f| f.latency_us.p90),
    (95.0, |f| f.latency_us.p95),
    (99.0, |f| f.latency_us.p99),
    (99.9, |f| f.latency_us.p999),
];

/// Requests of a predicted run, at least about.
const PREDICTED_REQUESTS: f64 = 20_000.0;

/// Whether latency over load is a curve at all.
pub(super) fn has_several_loads(report: &Report) -> bool {
    let open = |row: &&Row| row.load != Load::Max && row.figures().is_some();
    let first = report.rows.iter().find(open).map(|row| row.load);
    report.rows.iter().filter(open).any(|row| Some(row.load) != first)
}

/// Whether rows of several backends stand side by side.
fn several(report: &Report) -> bool {
    report.rows.iter().any(|row| row.subject.backend != report.rows[0].subject.backend)
}

/// How all modes of a report look.
fn looks(report: &Report) -> impl Fn(Subject) -> SeriesStyle {
    let mut subjects: Vec<Subject> = Vec::new();
    for row in &report.rows {
        if !subjects.contains(&row.subject) {
            subjects.push(row.subject);
        }
    }
    let looks = SeriesStyle::of_modes(&subjects, several(report));
    move |subject| {
        let at = subjects.iter().position(|other| *other == subject).expect("subjects of the same rows");
        looks[at]
    }
}

/// Marks of the backends, where there are several.
pub(super) fn backend_key(report: &Report) -> Markup {
    let entries = marks(report, |style| style);
    html! { @if entries.len() > 1 { (key(&entries)) } }
}

/// Each backend that is there, with its mark.
fn marks(report: &Report, look: impl Fn(SeriesStyle) -> SeriesStyle) -> Vec<(SeriesStyle, String)> {
    let has = |backend: &Backend| report.rows.iter().any(|row| row.subject.backend == *backend);
    let name = |backend: Backend| match backend {
        Backend::Engine | Backend::Kernel => backend.to_string(),
        Backend::Sim => "simulation (predicted)".to_owned(),
    };
    let present = Backend::ALL.into_iter().filter(has);
    present.map(|backend| (look(SeriesStyle::of_backend(backend)), name(backend))).collect()
}

/// CPU time against the 99th percentile at one load: the one in the middle of those at which something is to be taken.
pub(super) fn lead(report: &Report) -> Markup {
    let load = answer::middle(report);
    let rows = loads(report).into_iter().find(|(other, _)| Some(*other) == load).map(|(_, rows)| rows);
    html! { @if let (Some(load), Some(rows)) = (load, rows) { div.first { (frontier_of(load, &rows, report, &looks(report), WIDE)) } } }
}

/// CPU time against the 99th percentile, a figure for each load.
pub(super) fn frontiers(report: &Report) -> Markup {
    let look = looks(report);
    html! {
        p.note {
            "Each mode at what it costs and what it gives: lower left is better. Filled marks are on the frontier, where it is decided, and the line joins them; "
            "thin lines are 95 % intervals."
        }
        // The colour is the mode's.
        @if several(report) { (key(&marks(report, |style| SeriesStyle { colour: 0, dash: "", ..style }))) }
        div.grid {
            @for (load, rows) in loads(report) {
                div {
                    @if load != Load::Max { (frontier_of(load, &rows, report, &look, HALF)) }
                    @else { (closed_loop(&rows, report, &look)) }
                }
            }
        }
    }
}

fn frontier_of(
    load: Load,
    rows: &[&Row],
    report: &Report,
    look: &impl Fn(Subject) -> SeriesStyle,
    sizes: [Size; 2],
) -> Markup {
    let shown: Vec<&Row> = rows.iter().copied().filter(|row| row.figures().is_some() && row.sustains()).collect();
    let at = |subject: Subject| shown.iter().position(|row| row.subject == subject);
    let blocks = Block::all_of(report, load);
    let front =
        |block: &Block<'_>| block.frontier().unwrap_or_default().iter().filter_map(|one| at(one.subject)).collect();
    let fronts: Vec<Vec<usize>> = blocks.iter().map(front).collect();
    let dots: Vec<Dot> = shown
        .iter()
        .enumerate()
        .filter_map(|(i, row)| dot(row, fronts.iter().any(|front| front.contains(&i)), look))
        .collect();
    let title = format!("99th percentile latency over CPU time at {}", load_words(load));
    let caption = html! { b { (capital(&load_words(load))) } };
    if dots.is_empty() {
        let words = if blocks.is_empty() { "Nothing was measured at this load." } else { "All modes fell behind." };
        return html! { h3 { (capital(&load_words(load))) } p { (words) } };
    }
    let text = dots.iter().map(|dot| dot.title.clone()).collect::<Vec<_>>().join("; ");
    let extra = if several(report) { 120.0 } else { 0.0 };
    figure(caption, sizes, |size| {
        let x = Axis {
            scale: Scale::from_zero(dots.iter().map(|dot| dot.x_range.1), 100.0, |pct| format!("{pct:.0}")),
            name: "CPU time, % of the server's CPUs".to_owned(),
        };
        let ys = dots.iter().flat_map(|dot| [dot.y, dot.y_range.0, dot.y_range.1]);
        // A run that went wrong does not press all others together: it is cut off.
        let most = dots.iter().map(|dot| dot.y).fold(0.0, f64::max) * 4.0;
        let scale = Scale::log(ys.filter(move |y| *y <= most).collect::<Vec<_>>().into_iter(), span);
        let y = Axis { scale, name: "99th percentile latency, log scale".to_owned() };
        let height = size.height + extra;
        frontier(Size { height, ..size }, &Said { title: &title, text: &text }, x, y, &dots, &fronts)
    })
}

/// The rate of each mode, for in a closed loop that is what is asked.
fn closed_loop(rows: &[&Row], report: &Report, look: &impl Fn(Subject) -> SeriesStyle) -> Markup {
    let row = |row: &&Row| {
        let figures = row.figures()?;
        let name = row.subject.name(several(report));
        let (median, range) =
            (figures.median.achieved_rps, (figures.spread.min.achieved_rps, figures.spread.max.achieved_rps));
        let title = format!("{name}: {} requests/s ({} to {})", rate(median), rate(range.0), rate(range.1));
        let mark = RangeMark { look: look(row.subject), median, range, title };
        Some(RangeRow { name, marks: vec![mark] })
    };
    let all: Vec<RangeRow> = rows.iter().filter_map(row).collect();
    let rates: Vec<f64> = all.iter().flat_map(|row| &row.marks).map(|mark| mark.range.1).collect();
    let text = all.iter().flat_map(|row| &row.marks).map(|mark| mark.title.as_str()).collect::<Vec<_>>().join("; ");
    figure(html! { b { "Closed loop: requests answered per second" } }, HALF, |size| {
        let axis = Axis {
            scale: Scale::from_zero(rates.iter().copied(), 1.0, rate),
            name: "requests answered per second".to_owned(),
        };
        ranges(size.width, &Said { title: "Requests answered per second in closed loop", text: &text }, axis, &all)
    })
}

fn dot(row: &Row, is_front: bool, look: &impl Fn(Subject) -> SeriesStyle) -> Option<Dot> {
    let figures = row.figures()?;
    let (median, spread) = (&figures.median, &figures.spread);
    let (p99, cpu) = (median.latency_us.p99, median.cpu.total_pct);
    let p99s = (spread.min.latency_us.p99, spread.max.latency_us.p99);
    Some(Dot {
        name: row.subject.name(false),
        look: look(row.subject),
        x: cpu,
        y: p99,
        x_range: (spread.min.cpu.total_pct, spread.max.cpu.total_pct),
        y_range: p99s,
        is_front,
        title: format!(
            "{}: p99 {} ({} to {}) at {cpu:.0} % CPU{}",
            row.subject.name(true),
            span(p99),
            span(p99s.0),
            span(p99s.1),
            if is_front { ", on the frontier" } else { "" }
        ),
    })
}

/// Latency by percentile at each load: all modes in one figure, or with several backends a panel for each mode.
pub(super) fn percentiles(report: &Report) -> Markup {
    let look = looks(report);
    html! {
        p.note {
            "How long a request takes, by percentile; each nine is equally wide, and a curve ends where one run has no more requests to tell. "
            "A mode that does not sustain the load has the latency of its queue."
        }
        @if several(report) {
            (backend_key(report))
            @for (load, rows) in loads(report) {
                h3 { (capital(&load_words(load))) }
                div.panels { @for rows in by_mode(&with_figures(&rows)) { (panel(load, &rows, report)) } }
            }
        } @else {
            div.grid {
                @for (load, rows) in loads(report) {
                    @let curves = with_figures(&rows).iter().map(|row| curve(row, row.subject.name(false), look(row.subject), report)).collect::<Vec<_>>();
                    @if !curves.is_empty() {
                        @let title = format!("Latency by percentile at {}", load_words(load));
                        (figure(html! { b { (capital(&load_words(load))) } }, HALF, |size| nines(size, &title, &curves)))
                    }
                }
            }
        }
    }
}

fn with_figures<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    rows.iter().copied().filter(|row| row.figures().is_some()).collect()
}

/// Rows of one mode after the other.
fn by_mode<'a>(rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let mut modes: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        let same = |of_mode: &&mut Vec<&Row>| of_mode[0].subject.is_row_of(&row.subject);
        match modes.iter_mut().find(same) {
            Some(of_mode) => of_mode.push(row),
            None => modes.push(vec![row]),
        }
    }
    modes
}

fn panel(load: Load, rows: &[&Row], report: &Report) -> Markup {
    let curve = |row: &&Row| {
        let backend = row.subject.backend;
        curve(row, backend.to_string(), SeriesStyle::of_backend(backend), report)
    };
    let curves: Vec<Curve> = rows.iter().map(curve).collect();
    let mode = rows[0].subject.name(false);
    let title = format!("Latency by percentile of {mode} at {}", load_words(load));
    html! { figure { figcaption { b { (mode) } } (nines(PANEL, &title, &curves)) } }
}

/// The curve of a row, as far as a run has requests.
pub(super) fn curve(row: &Row, name: String, look: SeriesStyle, report: &Report) -> Curve {
    let figures = row.figures().expect("only rows with figures are drawn");
    let requests = match (row.subject.backend, report.workload.seconds) {
        (Backend::Sim, _) | (_, None) => PREDICTED_REQUESTS,
        (Backend::Engine | Backend::Kernel, Some(seconds)) => figures.median.achieved_rps * seconds,
    };
    let to_pct = 100.0 * (1.0 - 1.0 / requests.max(10.0));
    let points: Vec<Percentile> = match &figures.median.latency_cdf {
        Some(cdf) => {
            let bounds = figures.spread.min.latency_cdf.zip(figures.spread.max.latency_cdf);
            let bound = |i: usize| bounds.map(|(min, max)| (min.us(i), max.us(i)));
            cdf.points().enumerate().map(|(i, (pct, us))| (pct, us, bound(i))).collect()
        }
        None => FEW.iter().map(|(pct, figure)| (*pct, figure(&figures.median), None)).collect(),
    };
    // The shortest of all says little, and would take half of the scale.
    let points = points.into_iter().filter(|(pct, us, _)| (10.0..=to_pct).contains(pct) && *us > 0.0);
    let point = |(pct, us, range)| Point { x: pct, y: us, range, is_off: false, title: String::new() };
    Curve { name, look, points: points.map(point).collect(), has_marks: false }
}

/// Curves over percentiles.
pub(super) fn nines(size: Size, title: &str, curves: &[Curve]) -> Markup {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let to_pct = all().map(|point| point.x).fold(99.0, f64::max);
    let x = Axis { scale: Scale::Nines { to_pct }, name: "percentile of requests, %".to_owned() };
    let ys: Vec<f64> = all().map(|point| point.y).collect();
    let y = Axis { scale: Scale::log(ys.into_iter(), span), name: "latency, log scale".to_owned() };
    let at = |curve: &Curve, pct: f64| {
        curve.points.iter().find(|point| (point.x - pct).abs() < 1e-9).map(|point| span(point.y))
    };
    let said = |curve: &Curve| {
        let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|pct| at(curve, pct).unwrap_or_else(|| "-".to_owned()));
        format!("{}: 50 % {p50}, 99 % {p99}, 99.9 % {p999}", curve.name)
    };
    let text = curves.iter().map(said).collect::<Vec<_>>().join("; ");
    // Bands of many curves would cover each other.
    let few: Vec<Curve>;
    let drawn = if curves.len() > 3 {
        few = curves.iter().map(Curve::without_ranges).collect();
        &few
    } else {
        curves
    };
    lines(size, &Said { title, text: &text }, x, y, drawn)
}

/// The 99th percentile over load, a figure for each backend.
pub(super) fn over_load(report: &Report) -> Markup {
    let look = looks(report);
    let backends = several(report);
    html! {
        p.note { "A cross at the upper edge: the mode does not sustain that load, and its latency is the length of its queue." }
        div.grid {
            @for backend in Backend::ALL {
                @let curves = load_curves(report, backend, &look);
                @if !curves.is_empty() {
                    @let caption = match backend {
                        _ if !backends => "All modes".to_owned(),
                        Backend::Sim => "Simulation (predicted)".to_owned(),
                        Backend::Engine | Backend::Kernel => capital(&backend.to_string()),
                    };
                    (figure(html! { b { (caption) } }, HALF, |size| loads_figure(size, &caption, &curves)))
                }
            }
        }
    }
}

fn load_curves(report: &Report, backend: Backend, look: &impl Fn(Subject) -> SeriesStyle) -> Vec<Curve> {
    let mut curves: Vec<(Subject, Curve)> = Vec::new();
    for row in report.rows.iter().filter(|row| row.subject.backend == backend) {
        let (Load::Rps(rps), Some(figures)) = (row.load, row.figures()) else { continue };
        let name = row.subject.name(false);
        let p99 = figures.median.latency_us.p99;
        let range = Some((figures.spread.min.latency_us.p99, figures.spread.max.latency_us.p99));
        let title = format!(
            "{name} at {}: p99 {}{}",
            row.load,
            span(p99),
            if row.sustains() { "" } else { ", fell behind the load" }
        );
        let point = Point { x: rps as f64, y: p99, range, is_off: !row.sustains(), title };
        match curves.iter_mut().find(|(subject, _)| *subject == row.subject) {
            Some((_, curve)) => curve.points.push(point),
            None => {
                let curve = Curve { name, look: look(row.subject), points: vec![point], has_marks: true };
                curves.push((row.subject, curve));
            }
        }
    }
    let mut curves: Vec<Curve> = curves.into_iter().map(|(_, curve)| curve.without_ranges()).collect();
    curves.iter_mut().for_each(|curve| curve.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    curves
}

fn loads_figure(size: Size, caption: &str, curves: &[Curve]) -> Markup {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let x = Axis {
        scale: Scale::from_zero(all().map(|point| point.x), 1.0, rate),
        name: "offered load, requests/s".to_owned(),
    };
    let ys: Vec<f64> = all().filter(|point| !point.is_off).map(|point| point.y).collect();
    let y = Axis { scale: Scale::log(ys.into_iter(), span), name: "99th percentile latency, log scale".to_owned() };
    let text = all().map(|point| point.title.as_str()).collect::<Vec<_>>().join("; ");
    lines(size, &Said { title: &format!("{caption}: 99th percentile latency over load"), text: &text }, x, y, curves)
}

/// CPU time by mode, useful and in vain, a figure for each load.
pub(super) fn cpu_split(report: &Report) -> Markup {
    let backends = several(report);
    html! {
        p.note {
            "CPU time of the server in % of its CPUs. Solid: of use. Hatched: spin, time in polls that found nothing. Empty: the kernel does not "
            "count polls in vain, so its time is not split."
        }
        div.grid {
            @for (load, rows) in loads(report) {
                @let all: Vec<Bar> = rows.iter().filter_map(|row| bar(row, backends)).collect();
                @if !all.is_empty() {
                    @let title = format!("CPU time at {}", load_words(load));
                    @let parts = |bar: &Bar| bar.parts.map_or_else(String::new, |(useful, spin)| format!(" ({useful:.0} % useful, {spin:.0} % spin)"));
                    @let text = all.iter().map(|bar| format!("{} {:.0} %{}", bar.name, bar.total, parts(bar))).collect::<Vec<_>>().join("; ");
                    (figure(html! { b { (capital(&load_words(load))) } }, HALF, |size| bars(size.width, &Said { title: &title, text: &text }, &all)))
                }
            }
        }
    }
}

fn bar(row: &Row, backends: bool) -> Option<Bar> {
    let cpu = row.figures()?.median.cpu;
    Some(Bar { name: row.subject.name(backends), total: cpu.total_pct, parts: cpu.useful_pct.zip(cpu.spin_pct) })
}

/// With a large letter at its beginning.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

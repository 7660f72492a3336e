//! Loads, figures and what was asked, in words.

use napier_verdict::Metric;

use crate::loads::Load;
use crate::report::verdict::{Block, ModeEntry, Stands, and};
use crate::report::{Report, columns};
use crate::subject::Backend;
use crate::wrap::counted;

/// What was asked, in a line.
pub(super) fn asked(report: &Report) -> String {
    let (workload, host) = (&report.workload, &report.host);
    let served = workload.program.as_ref().map_or_else(|| workload.name.clone(), |program| format!("`{program}`"));
    let flows = counted(workload.flows, "flow");
    let service = workload.service.as_ref().map_or_else(String::new, |service| format!(", service {service}"));
    let queues = if workload.queues > 1 { format!(", {} queues", workload.queues) } else { String::new() };
    if workload.device == Backend::Sim.to_string() {
        let on = report.prediction.as_ref().map_or("a machine", |prediction| &prediction.machine);
        return format!("{served}, {flows}{queues}{service}: PREDICTED on {on}, not measured.");
    }
    let minutes = report.took_minutes.map_or_else(String::new, |minutes| format!(", {minutes:.1} min"));
    format!(
        "{served} on the {} over {}, {}, {flows}{queues}{service}; {}, {}, Linux {}{minutes}.",
        workload.backend,
        workload.way(),
        workload.proto,
        short(&host.cpu_model),
        counted(host.cpus, "CPU"),
        host.kernel,
    )
}

/// The name of a CPU without what each has.
fn short(model: &str) -> String {
    let each = |word: &&str| !["CPU", "Processor"].contains(word) && !word.ends_with("-Core");
    model.replace("(R)", "").replace("(TM)", "").split_whitespace().filter(each).collect::<Vec<_>>().join(" ")
}

/// `20K/s and 60K/s`.
pub(super) fn list(loads: &[Load]) -> String {
    and(&loads.iter().map(per_s).collect::<Vec<_>>())
}

pub(crate) fn per_s(load: &Load) -> String {
    match load {
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        Load::Rps(rps) => format!("{}/s", rate(*rps as f64)),
        Load::Max => "closed loop".to_owned(),
    }
}

/// Where loads next to each other stand among all.
pub(super) fn at_loads(loads: &[Load], all: &[Load]) -> String {
    let ([first, ..], [last, ..]) = (loads, &loads.iter().rev().copied().collect::<Vec<_>>()[..]) else {
        return String::new();
    };
    let is_up = all.windows(2).all(|pair| matches!(pair, [Load::Rps(a), Load::Rps(b)] if a < b));
    match (all.first() == Some(first), all.last() == Some(last)) {
        (true, true) if all.len() > 1 => "at all loads".to_owned(),
        _ if loads.len() == 1 => format!("at {}", per_s(first)),
        (true, _) if is_up => format!("up to {}", per_s(last)),
        (_, true) if is_up => format!("from {} on", per_s(first)),
        _ if is_up => format!("from {} to {}", per_s(first), per_s(last)),
        _ => format!("at {}", list(loads)),
    }
}

/// A rate: `800`, `37.5K`, `1.25M`.
pub(crate) fn rate(rps: f64) -> String {
    match rps {
        rps if rps < 1e3 => format!("{rps:.0}"),
        rps if rps < 999_950.0 => format!("{:.1}K", rps / 1e3).replace(".0K", "K"),
        rps => format!("{:.2}M", rps / 1e6).replace(".00M", "M"),
    }
}

/// A latency in us.
pub(crate) fn us(us: f64) -> String {
    columns::us(us, us)
}

/// A mode at a load, and base.
pub(super) type BesideBase<'a> = (&'a Block<'a>, ModeEntry<'a>, Option<ModeEntry<'a>>);

/// p99 and CPU of a mode over some loads, each against base's there, `whose` they are said to be; `None` without any.
pub(super) fn figures(at: &[BesideBase<'_>], whose: &str) -> Option<String> {
    let p99 = range(at.iter().map(|(_, one, _)| one.value(Metric::P99)), us)?;
    let cpu = range(at.iter().map(|(_, one, _)| one.value(Metric::Cpu)), |pct| format!("{pct:.0}"))?;
    Some(format!("p99 {p99} us{}, CPU {cpu} %{}", beside(at, Metric::P99, whose), beside(at, Metric::Cpu, whose)))
}

/// How it stands to base in a figure, in brackets.
fn beside(at: &[BesideBase<'_>], metric: Metric, whose: &str) -> String {
    let with_base = || {
        at.iter().filter_map(|(block, one, base)| {
            let base = base.filter(|base| base.subject != one.subject)?;
            Some((*block, *one, base))
        })
    };
    let stands: Vec<Stands> = with_base().map(|(block, one, base)| block.stands(&one, &base, metric)).collect();
    let ratios = with_base().filter_map(|(block, one, base)| Some(block.ratio(&one, &base, metric)?.value));
    let ratios = range(ratios, |ratio| format!("{ratio:.2}")).map(|ratios| ratios + "x");
    let all = |which: Stands| stands.iter().all(|stands| *stands == which);
    match (stands.as_slice(), ratios) {
        ([], _) => String::new(),
        (_, _) if all(Stands::Same) => " (as base)".to_owned(),
        (_, Some(ratios)) if stands.contains(&Stands::Open) => format!(" ({ratios}{whose}, undecided)"),
        (_, Some(ratios)) => format!(" ({ratios}{whose})"),
        (_, None) => String::new(),
    }
}

/// `64-118`.
fn range(values: impl Iterator<Item = f64>, shown: impl Fn(f64) -> String) -> Option<String> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| (low.min(one), high.max(one)));
    let (low, high) = (Some(low).filter(|low| low.is_finite()).map(&shown)?, shown(high));
    Some(if low == high { low } else { format!("{low}-{high}") })
}

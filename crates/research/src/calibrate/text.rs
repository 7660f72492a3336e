//! A fitted machine as a file, and what was fitted as a page.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Calibrated, FITTED, Figure, Observed, Seen, Settlement};
use napier_lab::loads::Load;
use napier_lab::machines::{MachineFile, Parameter};
use napier_lab::wrap::wrapped;

/// Widest line of the page.
const COLUMNS: usize = 110;

/// Tables of a machine file.
const TABLES: [&str; 4] = ["cost", "speed", "nic", "client"];

/// The machine file: the figures of `start`, with those that were fitted or measured in their place.
pub(super) fn machine_file(
    machine: &MachineFile,
    start: &MachineFile,
    rows: &[Observed],
    settled: &[Settlement],
    hardly: &[String],
) -> String {
    let modes: BTreeSet<String> = rows.iter().map(|row| row.mode.to_string()).collect();
    let loads: Vec<String> = rows.iter().map(|row| row.load.column()).collect::<BTreeSet<_>>().into_iter().collect();
    let modes: Vec<String> = modes.iter().map(|mode| format!("{mode:?}")).collect();
    let mut file = format!(
        "title = {:?}\nclock-mhz = {}\nhz = {}\n# The closed loop and loads that were fitted to: {}.\n",
        machine.title,
        machine.clock_mhz,
        machine.hz,
        loads.join(", ")
    );
    for table in TABLES {
        let _ = write!(file, "\n[{table}]\n");
        let key = |name: &str| Some(name.strip_prefix(table)?.strip_prefix('.')?.to_owned());
        for one in settled {
            if let Some(key) = key(&one.name) {
                let Settlement { value_ns, why, .. } = one;
                let _ = writeln!(file, "{key} = {{ ns = {value_ns}, origin = \"measured\", why = {why:?} }}");
            }
        }
        let is_settled = |name: &str| settled.iter().any(|one| one.name == name);
        for parameter in start.parameters.iter().filter(|parameter| !is_settled(&parameter.name)) {
            if let Some(key) = key(&parameter.name) {
                file += &line(&key, parameter, machine, &modes, hardly);
            }
        }
        // A figure that the start does not name was 0 there, and is fitted all the same.
        let is_new = |name: &str| !is_settled(name) && start.parameters.iter().all(|parameter| parameter.name != name);
        for (figure, ..) in FITTED.iter().filter(|(figure, ..)| is_new(&figure.name())) {
            if let Some(key) = key(&figure.name()) {
                file += &fitted(&key, *figure, machine, &modes, "not in the machine that the fit began with", hardly);
            }
        }
    }
    file
}

fn line(key: &str, parameter: &Parameter, machine: &MachineFile, modes: &[String], hardly: &[String]) -> String {
    let why = &parameter.why;
    match FITTED.iter().find(|(figure, ..)| figure.name() == parameter.name) {
        Some((figure, ..)) => fitted(key, *figure, machine, modes, why, hardly),
        // Wherever it came from, it is not of this machine.
        None => {
            format!("{key} = {{ {} = {}, origin = \"estimated\", why = {why:?} }}\n", parameter.unit, parameter.value)
        }
    }
}

fn fitted(key: &str, figure: Figure, machine: &MachineFile, modes: &[String], why: &str, hardly: &[String]) -> String {
    let (ns, rows) = (figure.get(machine), modes.join(", "));
    let hardly = if hardly.contains(&figure.name()) { "hardly-determined = true, " } else { "" };
    format!("{key} = {{ ns = {ns}, origin = \"fitted\", rows = [{rows}], {hardly}why = {why:?} }}\n")
}

/// What was fitted, how well it is determined, how near the rows come, and whether it is to be believed.
#[must_use]
pub fn text(calibrated: &Calibrated) -> String {
    let mut page = figures_and_rows(calibrated);
    if let Some(why) = calibrated.machine.known.distrust() {
        page += "\n";
        page += &wrapped("", &format!("NOT TO BE BELIEVED: {why}."), COLUMNS);
    }
    page
}

fn figures_and_rows(calibrated: &Calibrated) -> String {
    let mut page = format!("{}\n\n", calibrated.machine.title);
    let _ = writeln!(page, "{:<24} {:>10}   {:>12} {:>14}", "fitted", "ns", "error if half", "if twice");
    for one in &calibrated.determined {
        let hardly = one.is_hardly(calibrated.error_pct);
        let _ = writeln!(
            page,
            "{:<24} {:>10}   {:>11.0} % {:>12.0} %{}",
            one.name,
            one.value_ns,
            one.error_if_half_pct,
            one.error_if_double_pct,
            if hardly { "  hardly determined" } else { "" }
        );
    }
    if !calibrated.settled.is_empty() {
        let _ = writeln!(page, "\n{:<24} {:>10}   by", "measured, not fitted", "ns");
    }
    for one in &calibrated.settled {
        let _ = writeln!(page, "{:<24} {:>10}   {}", one.name, one.value_ns, in_column(&one.why));
    }
    let _ = writeln!(page, "\nrows that it was fitted to: error {:.0} % (root mean square)", calibrated.error_pct);
    rows(&mut page, &calibrated.fitted);
    if calibrated.held_back.is_empty() {
        page += "\nno load was held back, so nothing says what a prediction is worth\n";
        return page;
    }
    let held_pct = calibrated.machine.known.held_back_pct;
    let error = held_pct.map_or_else(String::new, |pct| format!(": error {pct:.0} % (root mean square)"));
    let _ = writeln!(page, "\nloads that had no part in it{error}");
    rows(&mut page, &calibrated.held_back);
    for (name, of) in [
        ("p50", (|row: &Observed| Some(row.p50_us)) as fn(&Observed) -> Option<f64>),
        ("p99", |row| row.tail_counts.then_some(row.p99_us)),
        ("CPU", |row| Some(row.cpu_pct)),
    ] {
        let mut errors: Vec<f64> = calibrated
            .held_back
            .iter()
            .filter(|seen| seen.measured.is_sustained() && seen.measured.load != Load::Max)
            .filter_map(|seen| Some((of(&seen.predicted)? / of(&seen.measured)? - 1.0).abs() * 100.0))
            .collect();
        errors.sort_unstable_by(f64::total_cmp);
        if let (Some(median), Some(worst)) = (errors.get(errors.len() / 2), errors.last()) {
            let _ = writeln!(page, "{name}: median error {median:.0} %, largest {worst:.0} %");
        }
    }
    page
}

/// Words in lines, behind the columns of a name and a number.
fn in_column(words: &str) -> String {
    const INDENT: usize = 38;
    let (mut text, mut column) = (String::new(), 0);
    for word in words.split(' ') {
        if column > 0 && INDENT + column + 1 + word.len() > COLUMNS {
            let _ = write!(text, "\n{:INDENT$}", "");
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text
}

fn rows(page: &mut String, rows: &[Seen]) {
    let _ = writeln!(
        page,
        "{:>18} {:>9} {:>19} {:>17} {:>17} {:>13}",
        "testcase", "load", "qps", "50%lat", "99%lat", "cpu"
    );
    for Seen { measured, predicted } in rows {
        let pair = |measured: f64, predicted: f64, digits: usize| format!("{measured:.digits$} {predicted:.digits$}");
        let _ = writeln!(
            page,
            "{:>18} {:>9} {:>19} {:>17} {:>17} {:>13}{}",
            measured.mode,
            measured.load.column(),
            pair(measured.achieved_rps, predicted.achieved_rps, 0),
            pair(measured.p50_us, predicted.p50_us, 1),
            pair(measured.p99_us, predicted.p99_us, 1),
            pair(measured.cpu_pct, predicted.cpu_pct, 0),
            match (measured.is_sustained(), measured.tail_counts) {
                (false, _) => "  overloaded",
                (true, false) => "  p99 is the machine's",
                (true, true) => "",
            }
        );
    }
}

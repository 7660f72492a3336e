//! How the experiments with many connections are told what to do, and printed.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use napier_lab::bench::{MESSAGE_BYTES_MAX, Spread};
use napier_lab::cpus::CpuLayout;
use napier_lab::modes::{Mode, ServerStyle};
use napier_lab::subject::{Backend, Subject, subjects};

use crate::Usage;

/// Where modes are applied.
pub(super) fn backends() -> impl TypedValueParser<Value = Backend> {
    let names = [
        ("engine", "The engine of this process, over a link in shared memory; needs no privilege"),
        ("kernel", "This machine's kernel, over a veth pair between two namespaces made for the run; needs root"),
    ];
    PossibleValuesParser::new(names.map(|(name, help)| PossibleValue::new(name).help(help)))
        .map(|name| if name == "engine" { Backend::Engine } else { Backend::Kernel })
}

/// Each mode with each backend.
pub(super) fn read_subjects(modes: &str, backends: &[Backend]) -> anyhow::Result<Vec<Subject>> {
    let modes = Mode::parse_list(modes).map_err(|error| Usage(error.into()))?;
    if let Some(mode) = modes.iter().find(|mode| ServerStyle::of(&mode.plan()) == ServerStyle::BlockingReceive) {
        let why = anyhow::anyhow!(
            "`{mode}` is for sockets that block in a receive, and a server of many connections has none"
        );
        return Err(Usage(why).into());
    }
    if backends.len() > 1 && backends[1..].contains(&backends[0]) {
        return Err(Usage(anyhow::anyhow!("--backend names {} twice; each is one row per mode", backends[0])).into());
    }
    Ok(subjects(&modes, backends, &[], &[]))
}

/// A size in bytes, such as 1, 5000, 4K or 1M.
pub(super) fn parse_bytes(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1 << 10),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1), |number| (number, 1 << 20)),
    };
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = if digits { number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit)) } else { None };
    bytes.filter(|bytes| (1..=MESSAGE_BYTES_MAX).contains(bytes)).ok_or_else(|| {
        format!("`{text}` is no size; give bytes such as 1, 5000, 4K or 1M, at most {}M", MESSAGE_BYTES_MAX >> 20)
    })
}

/// `5000B`, `4K`, `1M`.
pub(super) fn bytes(bytes: u32) -> String {
    match bytes {
        mebis if mebis % (1 << 20) == 0 => format!("{}M", mebis >> 20),
        kibis if kibis % (1 << 10) == 0 => format!("{}K", kibis >> 10),
        _ => format!("{bytes}B"),
    }
}

/// A count a second in three digits or four: `2.75M`, `572.6K`.
pub(super) fn rate(per_s: f64) -> String {
    match per_s {
        small if small < 1e3 => format!("{per_s:.0}"),
        thousands if thousands < 999_950.0 => format!("{:.1}K", per_s / 1e3),
        _ => format!("{:.2}M", per_s / 1e6),
    }
}

/// A time as the published tables write it: `337us`, `1.04ms`.
pub(super) fn time(ns: f64) -> String {
    let us = ns / 1e3;
    match us {
        short if short < 99.95 => format!("{us:.1}us"),
        short if short < 999.5 => format!("{us:.0}us"),
        middling if middling < 99_995.0 => format!("{:.2}ms", us / 1e3),
        long if long < 999_500.0 => format!("{:.0}ms", us / 1e3),
        _ => format!("{:.2}s", us / 1e6),
    }
}

/// One figure of a row over its runs, and how it is written.
pub(super) struct Column {
    pub(super) width: usize,
    pub(super) values: Option<Spread>,
    pub(super) write: fn(f64) -> String,
}

/// Prints medians behind `label`, and the least and the most of each column below if there were several runs.
pub(super) fn print_row(label: &str, columns: &[Column], runs: u32) {
    let indent = label.len();
    let line = |label: &str, of: fn(&Spread) -> f64| {
        let cell = |column: &Column| {
            let text = column.values.as_ref().map_or_else(|| "-".to_owned(), |spread| (column.write)(of(spread)));
            format!("{text:>width$}", width = column.width)
        };
        let cells: String = columns.iter().map(cell).collect();
        println!("{label:<indent$}{cells}");
    };
    line(label, |spread| spread.median);
    if runs > 1 {
        line("  least", |spread| spread.min);
        line("  most", |spread| spread.max);
    }
}

/// What is published has one value each.
pub(super) fn once(value: f64) -> Spread {
    Spread { median: value, min: value, max: value }
}

/// Columns of a terminal that text may take.
const WIDTH: usize = 80;

/// Words behind `label`, in as many lines as they need; further ones are indented.
pub(super) fn print_words(label: &str, words: &str) {
    lines_of(label, words).iter().for_each(|line| println!("{line}"));
}

fn lines_of(label: &str, words: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = label.to_owned();
    for word in words.split_whitespace() {
        let gap = if line.trim().is_empty() { 0 } else { 1 };
        if line.chars().count() + gap + word.chars().count() > WIDTH && !line.trim().is_empty() {
            lines.push(std::mem::replace(&mut line, " ".repeat(if label.is_empty() { 0 } else { 4 })));
        } else if gap > 0 {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// What is true of all rows, below the table.
pub(super) fn print_notes(backends: impl IntoIterator<Item = Backend>, cpus: Option<&CpuLayout>) {
    let cpus = cpus.map_or_else(String::new, |cpus| format!("CPUs: {cpus}. "));
    print_words(
        "",
        &format!(
            "{cpus}The mode is that of the server's end; the client's end takes interrupts. NAPI threads and workers of \
             the pool run on the CPUs of the server."
        ),
    );
    if backends.into_iter().any(|backend| backend == Backend::Kernel) {
        print_words(
            "",
            "kernel: over a veth pair. In modes without a thread a veth receives for the server in softirq on the CPU \
             that sends, here the client's: work that the interrupt of a NIC would put on the server's CPU.",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, size) in
            [("1", 1), ("5000", 5000), ("4K", 4096), ("64k", 65_536), ("1M", 1 << 20), ("16M", 16 << 20)]
        {
            assert_eq!(parse_bytes(text), Ok(size));
        }
        for text in ["", "0", "17M", "K", "-1", "1.5K", "4096M", "99999999999", "1MB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert_eq!([1, 5000, 4096, 1 << 20].map(bytes), ["1B", "5000B", "4K", "1M"]);
    }

    #[test]
    fn figures_are_written_as_published() {
        assert_eq!([2.75e6, 572_600.0, 11_000.0, 412.0].map(rate), ["2.75M", "572.6K", "11.0K", "412"]);
        assert_eq!(
            [337e3, 1.04e6, 79e6, 306e6, 12_345.0, 2.5e9].map(time),
            ["337us", "1.04ms", "79.00ms", "306ms", "12.3us", "2.50s"]
        );
    }

    #[test]
    fn words_are_broken_where_the_terminal_ends() {
        let words = "nine char ".repeat(20);
        let lines = lines_of("a label", &words);
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:?}");
        assert!(lines[0].starts_with("a label nine") && lines[1].starts_with("    ") && !lines[1].starts_with("     "));
        let long = "x".repeat(100);
        assert_eq!(lines_of("", &format!("{long} y")), [long, "y".to_owned()]);
    }
}

use super::*;
use crate::report::MachineUse;
use crate::report::samples::{beside_the_kernel, cover_letter, predicted, prediction, quiet, refused, row, sustained};

/// All but what is above the first block.
fn render(report: &Report, bold: bool) -> String {
    let mut table = RowTable::new(bold, WIDTH_MAX);
    let mut rows = report.clone();
    rows.rows.clear();
    table.more(&rows);
    table.end(report).trim_start_matches('\n').to_owned()
}

#[test]
fn no_line_is_too_wide_and_plain_text_has_no_codes() {
    let text = render(&cover_letter(), false);
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH_MAX), "{text}");
    assert!(!text.contains('\x1b'));
    assert!(text.ends_with('\n') && text.lines().all(|line| line == line.trim_end()), "{text}");
}

#[test]
fn columns_stand_below_their_heads() {
    let text = render(&cover_letter(), false);
    let ends = |line: &str| {
        let bytes = line.as_bytes();
        (0..bytes.len())
            .filter(|&i| bytes[i] != b' ' && bytes.get(i + 1).is_none_or(|b| *b == b' '))
            .collect::<Vec<_>>()
    };
    let block: Vec<&str> = text.lines().take(6).collect();
    for figures in &block[1..] {
        assert_eq!(ends(figures), ends(block[0]), "{figures}");
    }
}

#[test]
fn best_of_each_column_is_bold_and_only_the_codes_differ() {
    let report = cover_letter();
    let (plain, bold) = (render(&report, false), render(&report, true));
    let marked = bold.replace(&format!(" {BOLD}"), "*").replace(PLAIN, "").replace("Bold:", "*:");
    assert_eq!(marked, plain, "where there are no codes, a star is in the space before");
    assert!(plain.contains(" *132 ") && plain.contains("*: the best of its column within the load, where"), "{plain}");
    assert!(bold.contains("\x1b[1m132\x1b[0m"), "lowest p99 at 200K");
    assert!(bold.contains("\x1b[1m18\x1b[0m"), "lowest CPU at 200K");
    assert!(!bold.contains("\x1b[1m1248006\x1b[0m"), "the highest rate at MAX, but its runs overlap with another's");
    assert!(!bold.contains("\x1b[1m200014\x1b[0m"), "rates that are asked for have no best");
    assert!(!bold.contains("\x1b[1m213\x1b[0m"), "the lowest p99 at 1000K is not decided, as the sentence says");
}

#[test]
fn nothing_is_marked_where_nothing_is_decided_and_nothing_that_says_how_a_mode_works() {
    let mut report = cover_letter();
    report.machine.iter_mut().for_each(|machine| machine.others_pct = 30.0);
    assert!(!render(&report, true).contains(BOLD), "others had the machine");
    let idle = |mode: &str, p99: f64| {
        let mut row = row(mode, Load::Rps(1000), 1e3, p99, 20.0, 0.0);
        if let Outcome::Measured(measured) = &mut row.outcome {
            for figures in [&mut measured.median, &mut measured.spread.min, &mut measured.spread.max] {
                figures.interrupts_per_s = Some(if mode == "base" { 9.0 } else { 0.0 });
            }
        }
        row
    };
    let report = Report { rows: vec![idle("base", 9.0), idle("fullbusy", 9.0)], machine: Vec::new(), ..cover_letter() };
    assert!(!render(&report, true).contains(BOLD), "fewer interrupts are no merit");
}

#[test]
fn one_row_has_no_best() {
    let mut report = cover_letter();
    report.rows = vec![row("base", Load::Max, 1e6, 100.0, 50.0, 0.0), refused("fullbusy", Load::Max, "no")];
    assert!(!render(&report, true).contains('\x1b'));
}

#[test]
fn refused_rows_say_why_and_unknown_figures_are_a_dash() {
    let mut report = cover_letter();
    if let Outcome::Measured(measured) = &mut report.rows[0].outcome {
        measured.median.cycles_per_request = None;
    }
    let text = render(&report, false);
    assert!(text.contains("threaded-busy-poll   200K  refused: needs 5 CPUs for 2 queues"), "{text}");
    assert!(text.lines().nth(1).unwrap().contains("  - "), "{text}");
}

#[test]
fn text_from_outside_cannot_command_the_terminal() {
    let mut report = cover_letter();
    report.host.cpu_model = "evil\x1b[2Jcpu\r\n".into();
    report.rows.push(refused("busy-read", Load::Max, "because\x07"));
    assert!(render(&report, false).chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn an_empty_report_is_only_a_legend() {
    let mut report = cover_letter();
    report.rows.clear();
    assert!(render(&report, true).trim_start().starts_with("Latency in us"));
}

#[test]
fn a_column_of_latencies_has_one_precision() {
    let text = render(&cover_letter(), false);
    let p99 = |line: usize| text.lines().nth(line).unwrap().split_whitespace().nth(6).unwrap().replace('*', "");
    assert_eq!([p99(0), p99(1), p99(4)], ["99%lat", "415", "132"], "all of 100 us or more: whole");
    let mut report = cover_letter();
    report.rows.push(row("busy-read", Load::Rps(200_000), 2e5, 41.26, 100.0, 0.01));
    let text = render(&report, false);
    assert!(text.lines().nth(1).unwrap().contains(" 415.0 ") && text.contains(" 41.3 "), "{text}");
}

#[test]
fn the_runs_behind_a_median_are_shown() {
    let text = render(&cover_letter(), false);
    assert!(text.contains("  99%lat, lowest and highest run: base 411-419, defer20 151-155, "), "{text}");
}

#[test]
fn rows_of_the_kernel_stand_beside_the_engines_with_the_cpu_of_both_sides() {
    let text = render(&beside_the_kernel(), false);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains(" spin cpu0+1 proc cl-si "), "{text}");
    let first = |line: usize| lines[line].split_whitespace().next().unwrap();
    assert_eq!(
        [first(1), first(2), first(3), first(4)],
        ["engine/base", "kernel/base", "engine/workqueue", "kernel/workqueue"]
    );
    assert!(lines[2].contains(" -    150  140    25 ") && lines[4].ends_with("refused: not here"), "{text}");
    assert!(text.contains("In the engine: Frontier of p99 and CPU: base"), "{text}");
    assert!(text.contains("In the kernel: Only base was measured"), "{text}");
    assert!(text.contains("p99 (less is better): base 1.50x [1.23-1.83]; THE ENGINE IS BEHIND in base."), "{text}");
    assert!(!render(&cover_letter(), false).contains("cpu0+1"), "where nobody has it, it is not there");
}

#[test]
fn rows_come_as_loads_finish_and_nothing_twice() {
    let report = cover_letter();
    let whole = RowTable::new(false, WIDTH_MAX).end(&report);
    let mut table = RowTable::new(false, WIDTH_MAX);
    let mut text = String::new();
    for rows in [0, 6, 9, 12] {
        let part = Report { rows: report.rows[..rows].to_vec(), ..report.clone() };
        // A column that is only in later rows is not in the samples.
        text += &table.more(&part);
    }
    let again = table.more(&report);
    assert_eq!(again, "");
    text += &table.end(&report);
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeeze(&text), squeeze(&whole));
}

#[test]
fn no_row_is_wider_than_the_page() {
    for width in [80, 100, 120, 160] {
        for mut report in [cover_letter(), beside_the_kernel()] {
            report.sustained = sustained();
            let text = RowTable::new(false, width).end(&report);
            let heads: Vec<&str> = text.lines().filter(|line| line.contains("testcase")).collect();
            assert!(heads.iter().all(|head| head.contains("99%lat") && head.contains("cpu")), "{text}");
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > width).collect();
            assert!(wide.is_empty(), "{width}: {wide:?}");
            assert_eq!(text.contains("Not shown at"), width < 150, "{width}: {text}");
        }
    }
}

#[test]
fn what_is_in_force_and_what_a_request_costs_stands_above() {
    let text = RowTable::new(false, WIDTH_MAX).end(&cover_letter());
    let (above, _) = text.split_once("testcase").unwrap();
    assert!(above.contains("costs the server 0.60 us") && !above.contains("documents"), "{above}");
    assert!(above.contains("In force: softirq threads: SCHED_FIFO 50."), "{above}");
    assert!(
        text.contains("This machine: an empty loop paused") && text.contains("% is of the CPU, x is a ratio"),
        "{text}"
    );
}

#[test]
fn a_closed_loop_is_called_one() {
    let text = render(&cover_letter(), false);
    assert!(text.contains("Closed loop, 64 in flight (MAX)") && text.contains(" closed  1054805 "), "{text}");
}

#[test]
fn what_each_mode_sustains_is_a_block_of_its_own() {
    let text = render(&Report { sustained: sustained(), ..cover_letter() }, false);
    assert!(text.contains("base    480000   310.0    98    505000  96 % answered\n"), "{text}");
    assert!(text.contains("fullbusy   1500000    40.0   100   1570000  p99 7.1 ms\n"), "{text}");
    assert!(text.contains("napibusy         0       -     -      1000  3 % answered\n"), "{text}");
    assert!(text.contains("  fullbusy sustains most: 1500000 requests/s"), "{text}");
    let quick = render(&Report { sustained: sustained()[..1].to_vec(), ..cover_letter() }, false);
    assert!(!quick.contains("most that each mode") && quick.contains("The others were not searched"), "{quick}");
}

#[test]
fn loads_that_were_searched_again_are_printed_again() {
    let mut table = RowTable::new(false, WIDTH_MAX);
    let report = cover_letter();
    table.more(&report);
    let again = Report { searched_again: Some("base answered 90 % of its 100 %".to_owned()), ..report };
    let text = table.more(&again);
    assert!(text.contains("The loads were wrong (base answered 90 % of its 100 %)"), "{text}");
    assert_eq!(text.matches("testcase").count(), 3);
    assert_eq!(table.more(&again), "");
}

#[test]
fn no_winner_where_others_took_the_cpus() {
    let mut report = cover_letter();
    report.machine[0] = crate::report::MachineUse { others_pct: 30.0, ..quiet(Load::Rps(200_000)) };
    let text = render(&report, false);
    assert!(text.contains("the machine was taken away (others took 30 % of the CPUs)"), "{text}");
}

#[test]
fn what_is_predicted_is_named_so_and_is_never_the_best_of_what_was_measured() {
    let load = Load::Rps(1000);
    let mut report = beside_the_kernel();
    report.rows = vec![
        row("base", load, 1e3, 30.0, 50.0, 0.1),
        predicted("base", load, 1e3, 7.0, 10.0),
        row("fullbusy", load, 1e3, 20.0, 100.0, 0.1),
        predicted("fullbusy", load, 1e3, 6.0, 100.0),
    ];
    // Half of the lowest p99 that was measured is above this pause, and half of the lowest predicted one below.
    report.machine = vec![MachineUse { pause_p99_us: 5.0, ..quiet(load) }];
    report.prediction = Some(prediction());
    report.workload.backend = "engine and sim".to_owned();
    let text = render(&report, true);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "In the engine: Frontier of p99 and CPU: base 30.0 us at 50 %, fullbusy 20.0 us at 100 %",
        "Predicted: Frontier of p99 and CPU: base 7.0 us at 10 %, fullbusy 6.0 us at 100 %",
        "sim: PREDICTED, not measured: 3 runs in virtual time of a server and its clients on mine.toml (fitted to a comparison). Of the 24 \
         figures of that machine 10 were fitted.",
        "kv on the engine: 64 flows",
    ] {
        assert!(words.contains(said), "{text}");
    }
    assert!(!text.contains("taken away"), "{text}");
    assert!(text.contains("\x1b[1m20.0\x1b[0m") && !text.contains("\x1b[1m6.0\x1b[0m"), "{text}");
    // Alone they are held against each other.
    report.rows.retain(|row| row.measured().is_none());
    let text = render(&report, true);
    assert!(text.contains("sim/base") && text.contains("\x1b[1m10\x1b[0m"), "{text}");
    report.rows.truncate(1);
    assert!(render(&report, false).contains("Predicted: Only base was predicted"), "{text}");
}

#[test]
fn columns_that_were_asked_for_are_there_at_any_width() {
    let report = cover_letter();
    let heads = |which: Which| {
        let text = RowTable::new(false, 80).with(which).end(&report);
        let head = text.lines().find(|line| line.contains("testcase")).unwrap().to_owned();
        head.split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let chosen = Which::Chosen(crate::report::columns::parse_columns("ev/wait,cpu").unwrap());
    assert_eq!(heads(chosen), ["ev/wait", "cpu"]);
    let all = COLUMNS.iter().filter(|column| !column.optional).map(|column| column.head).collect::<Vec<_>>();
    assert_eq!(heads(Which::All), all);
    assert!(heads(Which::Fitting).len() < all.len());
}

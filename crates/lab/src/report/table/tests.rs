use super::*;
use crate::report::Lost;
use crate::report::samples::{
    beside_the_kernel, cover_letter, decide, predicted, prediction, refused, row, sustained, taken,
};

const LOW: Load = Load::Rps(200_000);

fn render(report: &Report) -> String {
    table(report, &Which::Fitting, WIDTH)
}

/// Without breaks of lines.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_answer_is_in_the_first_lines_and_then_the_table() {
    let report = Report { sustained: sustained(), ..cover_letter() };
    let expected = "\
kv on the engine over link, udp, 64 flows, 2 queues; AMD EPYC 7662, 64 CPUs, Linux 6.12.0, 3.6 min.
Take defer20 at 200K/s: p99 153 us (0.37x base's), CPU 26 % (as base).
    cheaper: defer200, p99 304 us (0.73x), CPU 18 % (0.69x); faster: fullbusy, p99 132 us (0.32x),
    CPU 100 % (3.85x).
Take suspend20 at 1M/s: p99 226 us, CPU 89 %; base falls behind.
Keeps up to: fullbusy 1.50M/s, base 480K/s.
Undecided, and might be the better choice: fullbusy at 1M/s; --minutes 6 would decide, as it looks.
Next  napier advise --rate 1000k                                   your own rate, by simulation
      sudo napier compare --backend kernel -- memcached -u nobody  your own program

200K/s offered: 40 rounds of 50 ms
mode                answered  p50 us    p99 us  p99.9 us  CPU %  spin %  verdict (x: of base)
base                    200K     145   415 ±1%   581 ±1%     26       6
defer20                 200K    53.5   153 ±1%   214 ±1%     26       6  p99 0.37x, CPU as base
defer200                200K     106   304 ±1%   426 ±1%     18       4  least CPU 0.69x, p99 0.73x
fullbusy                200K    46.2   132 ±0%   185 ±0%    100      25  lowest p99 0.32x, CPU 3.85x
suspend20               200K    52.9   151 ±1%   211 ±1%     30       8  p99 0.36x, CPU 1.15x
threaded-busy-poll  refused: needs 5 CPUs for 2 queues (a thread per queue polls for ever), and this
                    process may use 2; run it with --queues 1 on a machine with 3 CPUs or leave the
                    mode out
";
    let text = render(&report);
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn no_line_is_wider_than_the_page_and_nothing_commands_the_terminal() {
    for width in [80, 100, 160] {
        for mut report in [cover_letter(), beside_the_kernel(), taken(cover_letter(), LOW)] {
            report.sustained = sustained();
            report.host.cpu_model = "evil\x1b[2Jcpu\r\n".into();
            report.rows.push(refused("busy-read", Load::Max, "because\x07"));
            let text = table(&report, &Which::Fitting, width);
            assert!(text.lines().all(|line| line.chars().count() <= width && line == line.trim_end()), "{text}");
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()) && text.ends_with('\n'), "{text}");
            assert!(!text.contains('*'), "{text}");
        }
    }
}

#[test]
fn notes_are_at_the_end_and_few_and_all_of_them_are_there_when_asked_for() {
    let text = render(&cover_letter());
    let (_, notes) = text.rsplit_once("\n\n").unwrap();
    assert!(notes.starts_with("Latency in us from when a request was due.") && notes.lines().count() <= 4, "{notes}");
    let all = table(&cover_letter(), &Which::All, WIDTH);
    for said in
        ["costs the server 0.60 us", "In force: softirq threads: SCHED_FIFO 50.", "an empty loop paused", "seed 1"]
    {
        assert!(words(&all).contains(said) && !words(&text).contains(said), "{said}: {all}");
    }
}

#[test]
fn columns_that_were_asked_for_are_there_at_any_width() {
    let heads = |which: Which| {
        let text = table(&cover_letter(), &which, 80);
        let head = text.lines().find(|line| line.starts_with("mode ")).unwrap().to_owned();
        head.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let chosen = Which::Chosen(crate::report::columns::parse_columns("ev/wait,cpu").unwrap());
    assert_eq!(heads(chosen), ["mode", "ev/wait", "cpu"]);
    let all = COLUMNS.iter().filter(|column| !column.optional).map(|column| column.head);
    assert_eq!(heads(Which::All)[1..=all.clone().count()], all.collect::<Vec<_>>());
    assert_eq!(heads(Which::Fitting)[..3], ["mode", "answered", "p99"], "the median goes first");
}

#[test]
fn a_column_of_latencies_has_one_precision_where_all_are_shown() {
    let mut report = cover_letter();
    let p99 = |report: &Report| {
        let chosen = Which::Chosen(crate::report::columns::parse_columns("99%lat").unwrap());
        let text = table(report, &chosen, WIDTH);
        text.lines().find(|line| line.starts_with("base")).unwrap().split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(p99(&report), "415");
    report.rows.push(row("busy-read", LOW, 2e5, 41.26, 100.0, 0.01));
    assert_eq!(p99(&report), "415.0");
}

#[test]
fn without_figures_a_row_says_why() {
    let mut report = cover_letter();
    let lost = Lost { runs: 3, of: 3, not_run: 0, why: "3 had no answer in time".to_owned() };
    (report.rows[0].outcome, report.rows[0].lost) = (Outcome::Nothing, Some(lost));
    (report.rows[1].outcome, report.rows[1].left_out) = (Outcome::Nothing, 40);
    report.rows[2].lost = Some(Lost { runs: 1, of: 40, not_run: 0, why: "1 failed".to_owned() });
    let text = render(&report);
    assert!(text.contains("base                no figures: of 3 runs 3 had no answer in time\n"), "{text}");
    assert!(text.contains("defer20             no figures: all 40 slices were left out\n"), "{text}");
    assert!(words(&text).contains("Not in the figures of defer200 at 200K: 1 of 40 runs: 1 failed."), "{text}");
}

#[test]
fn an_older_comparison_has_its_medians_and_no_verdict() {
    let text = render(&Report { decided: Vec::new(), took_minutes: None, ..cover_letter() });
    assert!(text.contains("\nNo mode is called better at all loads: this has no rounds"), "{text}");
    assert!(text.contains("200K/s offered; no rounds, so no verdict\n"), "{text}");
    assert!(text.contains("defer20                 200K    53.5     153       214     26       6\n"), "{text}");
    assert!(!text.contains('±'), "{text}");
}

#[test]
fn a_machine_that_was_taken_away_leaves_figures_and_no_verdict() {
    let text = render(&taken(cover_letter(), LOW));
    let said = "No answer at 200K/s: the machine was taken away in 110 of 200 slices (others had the CPUs 110).";
    assert!(text.contains(said), "{text}");
    assert!(words(&text).contains("110 of 200 slices left out; the machine was taken away, so no verdict"), "{text}");
    assert!(text.contains("Take suspend20 at 1M/s"), "other loads have their answer: {text}");
}

#[test]
fn rows_of_the_kernel_stand_beside_the_engines() {
    let text = render(&beside_the_kernel());
    assert!(text.contains("Engine beside kernel, p99: BEHIND in base (200K 1.50x).\n"), "{text}");
    assert!(text.contains("In the kernel: Only base has figures at 200K/s: p99 20.0 us, CPU 60 %;"), "{text}");
    assert!(text.contains("kernel/workqueue  refused: not here\n"), "{text}");
    let all = table(&beside_the_kernel(), &Which::All, WIDTH_MAX);
    assert!(words(&all).contains("Per reply: kernel/base 0.500 softirq polls") && all.contains(" cpu0+1 "), "{all}");
}

#[test]
fn what_is_predicted_is_named_so() {
    let load = Load::Rps(1000);
    let rows = vec![
        row("base", load, 1e3, 30.0, 50.0, 0.01),
        predicted("base", load, 1e3, 7.0, 10.0),
        row("fullbusy", load, 1e3, 20.0, 100.0, 0.01),
        predicted("fullbusy", load, 1e3, 3.0, 11.0),
    ];
    let report = decide(Report { rows, prediction: Some(prediction()), ..cover_letter() });
    let text = words(&render(&report));
    assert!(text.contains("In the engine: Leave base at 1000/s".replace("1000", "1K").as_str()), "{text}");
    assert!(
        text.contains(
            "Predicted: Take fullbusy at 1K/s: p99 3.0 us (0.43x base's), CPU 11 % (1.10x base's, undecided)"
        ),
        "{text}"
    );
    assert!(text.contains("sim: PREDICTED, not measured: 3 runs in virtual time"), "{text}");
}

#[test]
fn what_each_mode_keeps_up_to_is_a_table_of_its_own() {
    let mut report = Report { sustained: sustained(), ..cover_letter() };
    (report.sustained[0].low_rps, report.sustained[0].high_rps) = (Some(470_000), Some(490_000));
    let text = render(&report);
    assert!(
        text.contains("base             480K      470K-490K        480K       505K     310     98  96 % answered\n"),
        "{text}"
    );
    assert!(text.contains("Keeps up to: fullbusy 1.50M/s, base 480K/s (470K to 490K).\n"), "{text}");
    report.sustained.truncate(1);
    let text = render(&report);
    assert!(!text.contains("Keeps up to:") && text.contains("Of the others it was not asked"), "{text}");
}

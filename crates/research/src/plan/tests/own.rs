//! Modes whose settings a plan has, and devices of sizes that no file has.

use super::*;

fn plan_with(modes: &str) -> Result<Plan, String> {
    let text = format!(
        "title = \"ours\"\nmachine = \"epyc-7662-cx5\"\nqueues = 1\nconnections = 100\nmodes = [{modes}]\nloads = [60000]\n\
         warm-up = \"10ms\"\nmeasured = \"50ms\"\nseeds = 1\n"
    );
    Plan::parse(&text, "ours.toml").map_err(|error| error.to_string())
}

#[test]
fn a_mode_is_what_it_sets() {
    let plan = plan_with(
        "\"base\", \"defer20\", \"suspend20\", \
         { name = \"defer\", mode = \"base\", defer-hard-irqs = 100, gro-flush-timeout = \"20us\" }, \
         { name = \"suspend\", mode = \"defer20\", irq-suspend-timeout = \"20ms\", busy-poll = 0, busy-poll-budget = 64, \
           prefer-busy-poll = true }, \
         { name = \"held\", mode = \"base\", rx-usecs = 100, rx-frames = 64 }, \
         { name = \"apart\", mode = \"base\", interrupt-apart = true }, \
         { name = \"short\", mode = \"defer200\", ring = 2 }",
    );
    let plan = plan.expect("a plan");
    let cells = run_all(&plan, 2);
    let all = |mode: &str| cell(&cells, mode, "60K").predicted.clone().expect("the rules hold");
    assert_eq!(all("defer"), all("defer20"));
    assert_eq!(all("suspend"), all("suspend20"));
    let figure = |mode, name| figure(&cells, mode, "60K", name);
    // By a timer and not by the rules of the card, and at most as often as the timer is.
    assert!(figure("held", "interrupts_per_s_per_core") < 10_100.0);
    assert!(figure("held", "interrupts_per_s_per_core") < figure("base", "interrupts_per_s_per_core"));
    // Work on another CPU goes on beside the program's.
    assert!(figure("apart", "cpu_irq_pct") > 0.0 && all("apart") != all("base"));
    assert!(figure("short", "lost_per_s_per_core") > 0.0);
}

#[test]
fn what_a_mode_cannot_have_is_refused() {
    for (mode, said) in [
        ("{ name = \"a\", mode = \"base\", rx-frames = 8 }", "give rx-usecs too"),
        ("{ name = \"a\", mode = \"base\", separate = true }", "separate"),
        ("{ name = \"a\", mode = \"base\", busy-poll-budget = 65 }", "busy-poll-budget"),
        ("{ name = \"a\", mode = \"base\", ring = 0 }", "ring"),
        ("{ mode = \"base\" }", "name"),
    ] {
        let error = plan_with(mode).expect_err(mode);
        assert!(error.contains(said) && error.contains("ours.toml"), "{mode}: {error}");
    }
}

#[test]
fn a_part_of_what_a_device_takes_goes_with_the_bytes() {
    let times =
        [[60, 100, 400, 2800, 6600, 8000], [300, 1100, 2400, 3800, 7600, 9000]].map(|of| of.map(|us| us * 1000));
    let storage = napier_lab::machines::Storage { times, program_ns: 0 };
    assert_eq!([512, 4 << 10, 1 << 20].map(|bytes| storage.times_of(bytes)), [times[0], times[0], times[1]]);
    let half = storage.times_of(2 << 10 | 2 << 18);
    assert_eq!(half[1], 600_000, "the middle between 4 KiB and 1 MiB");
    // Twice as far on; and what is more often is never longer than what is seldom.
    let far = storage.times_of((2 << 20) - (4 << 10));
    assert!(far[1] == 2_100_000 && far.is_sorted(), "{far:?}");
}

/// Receive overload: the more is offered the less is answered where the softirq has the program's CPU; a CPU for each is not affected so.
#[test]
fn what_no_one_waits_for_is_lost_where_a_server_falls_behind() {
    let text = "title = \"ours\"\nmachine = \"epyc-7662-cx5\"\nqueues = 1\nconnections = 64\ndatagrams = true\n\
                modes = [\"base\", { name = \"apart\", mode = \"base\", interrupt-apart = true }]\nloads = [60000, 1000000]\n\
                warm-up = \"20ms\"\nmeasured = \"60ms\"\nseeds = 1\n";
    let plan = Plan::parse(text, "ours.toml").expect("a plan");
    let cells = run_all(&plan, 2);
    let of = |mode: &str, load: &str| figure(&cells, mode, load, "delivered_pct");
    for mode in ["base", "apart"] {
        // Some are on the way at either end.
        assert!((98.0..=102.0).contains(&of(mode, "60K")), "{mode}: {}", of(mode, "60K"));
        assert!(figure(&cells, mode, "1000K", "lost_per_s_per_core") > 100_000.0, "{mode}");
    }
    let (together, apart) = (of("base", "1000K"), of("apart", "1000K"));
    assert!(together < apart / 2.0, "{together} and {apart} %");
    let error = Plan::parse(&text.replace("1000000", "\"max\""), "ours.toml").map(|_| ()).expect_err("a closed loop");
    assert!(error.to_string().contains("no one waits"), "{error}");
}

/// A log in place of chance, as it is and twice as fast.
#[test]
fn requests_of_a_log_come_in_a_plan() {
    let file = std::env::temp_dir().join(format!("napier-arrivals-{}.csv", std::process::id()));
    let lines: String = (0..4_000).map(|nth| format!("{},c{},2\n", nth * 25, nth % 50)).collect();
    std::fs::write(&file, lines).expect("written");
    let text = |loads: &str| {
        format!(
            "title = \"ours\"\nmachine = \"epyc-7662-cx5\"\nqueues = 2\narrivals = {file:?}\nmodes = [\"base\"]\n{loads}\
             warm-up = \"10ms\"\nmeasured = \"100ms\"\nseeds = 2\n"
        )
    };
    let of = |loads: &str| {
        let plan = Plan::parse(&text(loads), "ours.toml").expect("a plan");
        let load = plan.loads[0].to_string();
        let cells = run_all(&plan, 1);
        (figure(&cells, "base", &load, "qps"), figure(&cells, "base", &load, "cpu_user_pct"))
    };
    let (once, twice) = (of(""), of("loads = [80000]\n"));
    let both = Plan::parse(&text("connections = 50\n"), "ours.toml").map(|_| ()).expect_err("the log has them");
    std::fs::remove_file(&file).expect("it is there");
    assert!((once.0 / 40_000.0 - 1.0).abs() < 0.02 && (twice.0 / 80_000.0 - 1.0).abs() < 0.02, "{once:?} {twice:?}");
    // 20,000 a second of each queue take 3.5 us each: what the machine has and what the log says beside.
    assert!((7.0..8.0).contains(&once.1), "{once:?}"); // some of it after interrupts
    assert!(both.to_string().contains("connections are those of the log"), "{both}");
}

/// Gaps as a log of HdrHistogram or anything else has their distribution: by a clock, and in bursts that a queue feels.
#[test]
fn requests_with_gaps_of_a_distribution_come_in_a_plan() {
    let parse = |gaps: &str, more: &str| {
        let text = format!(
            "title = \"ours\"\nmachine = \"epyc-7662-cx5\"\nqueues = 2\ngaps = \"{gaps}\"\nmodes = [\"fullbusy\"]\n{more}\
             warm-up = \"10ms\"\nmeasured = \"100ms\"\nseeds = 2\n"
        );
        Plan::parse(&text, "ours.toml").map_err(|error| error.to_string())
    };
    let of = |gaps: &str, more: &str| {
        let plan = parse(gaps, &format!("connections = 200\n{more}")).expect("a plan");
        let load = plan.loads[0].to_string();
        let cells = run_all(&plan, 1);
        (figure(&cells, "fullbusy", &load, "qps"), figure(&cells, "fullbusy", &load, "avg_us"))
    };
    let file = std::env::temp_dir().join(format!("napier-gaps-{}.txt", std::process::id()));
    std::fs::write(&file, "1us 19\n481us 1\n").expect("written");
    let in_bursts = of(&format!("hist:{}", file.display()), "");
    let (clock, twice) = (of("25us", ""), of("25us", "loads = [80000]\n"));
    std::fs::remove_file(&file).expect("it is there");
    // 400 bursts of lengths by chance are 7 % more or less; by a clock it is chance alone which queue a request comes to, of 4000 a percent.
    for (qps, rate, off) in [(in_bursts.0, 40_000.0, 0.25), (clock.0, 40_000.0, 0.06), (twice.0, 80_000.0, 0.06)] {
        assert!((qps / rate - 1.0).abs() < off, "{qps} of {rate}");
    }
    // Ten requests of a queue within 20 us wait for each other, some 6 us each.
    assert!(in_bursts.1 > clock.1 + 10.0, "{in_bursts:?} {clock:?}");
    for (gaps, more, said) in [
        ("soon", "connections = 200\n", "ours.toml:4"),
        ("25us", "", "missing key \"connections\""),
        ("25us", "connections = 1\n", "at least one for each queue"),
        ("25us", "connections = 200\narrivals = \"x\"\n", "give them there or here"),
        ("25us", "connections = 200\nloads = [\"max\"]\n", "come at rates"),
        ("25us", "connections = 200\ndatagrams = true\n", "gaps"),
    ] {
        let error = parse(gaps, more).map(|_| ()).expect_err(said);
        assert!(error.contains(said), "{gaps} {more}: {error}");
    }
}

/// An overload is marked, and a load that the server keeps up with is not, however the run goes on.
#[test]
fn a_backlog_that_grows_marks_its_row_and_shows_in_the_series() {
    let text = plan_with("\"base\", \"fullbusy\"").expect("a plan").text.replace("[60000]", "[60000, 250000]");
    let plan = Plan::parse(&text.replace("connections = 100", "connections = 2000"), "ours.toml").expect("a plan");
    let cells: Vec<_> = plan.cells().collect();
    let RanPlan { cells, series, histograms } = run_in_full(&plan, &cells, 2, &AtomicBool::new(false), &|_, _| ());
    assert_eq!(cells, run_all(&plan, 1), "the series changes nothing");
    // A log of HdrHistogram has the latencies of each cell, and can be read as times of service are.
    for tag in ["Tag=base@60K,", "Tag=fullbusy@250K,"] {
        assert_eq!(histograms.matches(tag).count(), 1, "{histograms}");
    }
    let file = std::env::temp_dir().join(format!("napier-histograms-{}.hlog", std::process::id()));
    std::fs::write(&file, &histograms).expect("written");
    let first: napier_kv::service::Service = format!("hist:{}", file.display()).parse().expect("a log");
    std::fs::remove_file(&file).expect("it is there");
    assert!((first.mean_us() / figure(&cells, "base", "60K", "avg_us") - 1.0).abs() < 0.01, "{}", first.mean_us());
    let (table, _) = written(&plan, &cells);
    let marked = |begin: &str| table.lines().any(|line| line.starts_with(begin));
    assert!(marked("?!    base   250K") && marked("?!fullbusy   250K"), "{table}");
    assert!(marked("?     base    60K") && marked("? fullbusy    60K"), "{table}");
    assert!(marked("! behind the mark"), "{table}");
    let column = |begin: &str, nth: usize| -> Vec<f64> {
        let of = series.lines().filter(|line| line.starts_with(begin));
        of.map(|line| line.split(',').nth(nth).expect("a column").parse().expect("a number")).collect()
    };
    let names: Vec<&str> = series.lines().next().expect("a head").split(',').collect();
    assert_eq!((names[4], names[7], names.len()), ("answered_per_s", "behind", 9));
    let (over, under) = (column("base,250K,1,", 7), column("base,60K,1,", 7));
    assert!(over.len() == 50 && under.len() == 50, "{series}");
    assert!(over[49] > over[0] + 2000.0 && over[49] > 10.0 * under[49], "{over:?} {under:?}");
    // Slices are parts of the whole: their rates' mean is the row's.
    let rates = column("base,60K,1,", 4);
    let mean = rates.iter().sum::<f64>() / 50.0;
    assert!((mean / figure(&cells, "base", "60K", "qps") - 1.0).abs() < 1e-3, "{mean}");
}

/// A rule that Linux does not have, by its name: with much to do it waits longer than `defer10`, and polls less often.
#[test]
fn a_mode_may_have_a_rule_of_its_own() {
    let tuned = |name: &str| format!("\"defer10\", {{ name = \"tuned\", mode = \"defer10\", tuner = \"{name}\" }}");
    let text = plan_with(&tuned("adapt")).expect("a plan").text.replace("[60000]", "[250000]");
    let plan = Plan::parse(&text.replace("connections = 100", "connections = 2000"), "ours.toml").expect("a plan");
    let cells = run_all(&plan, 2);
    let polls = |mode| figure(&cells, mode, "250K", "polls_per_s_per_core");
    assert!(polls("tuned") < polls("defer10") * 0.5, "{} {}", polls("tuned"), polls("defer10"));
    let error = plan_with(&tuned("adopt")).expect_err("no such rule");
    assert!(error.contains("adapt") && error.contains("ours.toml"), "{error}");
}

/// Requests of a file of packets, those of one port; and what a request takes, given beside.
#[test]
fn requests_of_captured_packets_come_in_a_plan() {
    let file = std::env::temp_dir().join(format!("napier-arrivals-{}.pcap", std::process::id()));
    std::fs::write(&file, pcap(4_000)).expect("written");
    let parse = |more: &str| {
        let text = format!(
            "title = \"ours\"\nmachine = \"epyc-7662-cx5\"\nqueues = 1\narrivals = {file:?}\nmodes = [\"base\"]\n{more}\
             warm-up = \"10ms\"\nmeasured = \"100ms\"\nseeds = 1\n"
        );
        Plan::parse(&text, "ours.toml").map_err(|error| error.to_string())
    };
    let busy = |more: &str| {
        let plan = parse(more).expect("a plan");
        let load = plan.loads[0].to_string();
        let cells = run_all(&plan, 1);
        (figure(&cells, "base", &load, "qps"), figure(&cells, "base", &load, "cpu_user_pct"))
    };
    let (plain, served) = (busy("port = 11211\n"), busy("service = \"5us\"\n"));
    let none = parse("port = 80\n").expect_err("nothing came there");
    std::fs::remove_file(&file).expect("it is there");
    assert!(
        (plain.0 / 20_000.0 - 1.0).abs() < 0.02 && (served.0 / 20_000.0 - 1.0).abs() < 0.02,
        "{plain:?} {served:?}"
    );
    // 20,000 times 5 us are a tenth of the time.
    assert!((9.0..11.0).contains(&(served.1 - plain.1)), "{plain:?} {served:?}");
    assert!(none.contains("port 80"), "{none}");
    let alone = plan_with("\"base\"").expect("a plan").text + "port = 80\n";
    let alone = Plan::parse(&alone, "ours.toml").map(|_| ()).expect_err("a port of nothing");
    assert!(alone.to_string().contains("file of packets"), "{alone}");
}

/// So many UDP datagrams to port 11211 on Ethernet, of 50 clients, one each 50 us.
fn pcap(datagrams: u32) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for nth in 0..datagrams {
        let us = nth * 50;
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, (nth % 50) as u8, 10, 0, 1, 1]);
        frame.extend([9000_u16, 11211, 16, 0].map(u16::to_be_bytes).concat());
        frame.extend([0; 8]);
        let length = frame.len() as u32;
        file.extend([us / 1_000_000, us % 1_000_000, length, length].map(u32::to_le_bytes).concat());
        file.extend(frame);
    }
    file
}

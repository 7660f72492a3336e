use std::sync::atomic::{AtomicU32, Ordering};

use napier_core::time::Instant;
use napier_scenario::{CpuIx, Event, NapiIx, PollContext};

use super::*;

/// An executor that answers what it was told.
struct Told {
    clock: Clock,
    answer: Box<dyn FnMut() -> Result<Observed, Refused>>,
}

impl Executor for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn run(&mut self, _: &Scenario) -> Result<Observed, Refused> {
        (self.answer)()
    }
}

fn told(clock: Clock, answer: impl FnMut() -> Result<Observed, Refused> + 'static) -> Told {
    Told { clock, answer: Box::new(answer) }
}

fn nothing() -> Observed {
    Observed { events: Vec::new(), counters: Vec::new(), broken: None, disturbed: None }
}

fn poll() -> Observed {
    let event = Event::Poll { napi: NapiIx(0), context: PollContext::Softirq, cpu: CpuIx(0), work: 0, budget: 64 };
    Observed { events: vec![Seen { at: Instant::ZERO, event }], ..nothing() }
}

/// A fresh folder with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("napier-conform-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    for (file, text) in files {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder can be made");
        std::fs::write(path, text).expect("a file can be written");
    }
    folder
}

const ONE_POLL: &str = "title = \"t\"\nrules = [\"1\"]\n[expect]\nevents = [{ poll = \"eth0/0\" }]\n";

fn outcome(text: &str, mut executor: Told) -> (FileOutcome, String) {
    static NTH: AtomicU32 = AtomicU32::new(0);
    let nth = NTH.fetch_add(1, Ordering::Relaxed);
    let folder = folder(&format!("outcome-{nth}"), &[("x.toml", text)]);
    let result = run_file(&folder.join("x.toml"), &mut executor);
    std::fs::remove_dir_all(&folder).expect("it was made");
    let shown = line(&result).replace(&folder.display().to_string(), "DIR");
    (result.outcome, shown)
}

#[test]
fn outcomes() {
    let shown = |text: &str, executor| outcome(text, executor).1;
    assert_eq!(shown(ONE_POLL, told(Clock::Virtual, || Ok(poll()))), "pass     DIR/x.toml\n");
    let text = shown(ONE_POLL, told(Clock::Virtual, || Ok(nothing())));
    assert!(text.starts_with("fail     DIR/x.toml\n    line 4: `poll eth0/0` did not happen\n"), "{text}");
    assert!(text.contains("EXPECTED") && text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let broken = || Ok(Observed { broken: Some("two owners".to_owned()), ..poll() });
    assert_eq!(
        shown(ONE_POLL, told(Clock::Virtual, broken)),
        "fail     DIR/x.toml\n    an invariant does not hold: two owners\n"
    );
    let disturbed = || Ok(Observed { disturbed: Some("the machine was busy".to_owned()), ..nothing() });
    let text = shown(ONE_POLL, told(Clock::Virtual, disturbed));
    assert!(text.contains("\n    line 4: `poll eth0/0` did not happen; the machine was busy\n"), "{text}");
    let disturbed = || Ok(Observed { disturbed: Some("the machine was busy".to_owned()), ..poll() });
    assert_eq!(shown(ONE_POLL, told(Clock::Virtual, disturbed)), "pass     DIR/x.toml\n");
    let refused = || Err(Refused { why: "no second CPU".to_owned(), is_late: false });
    assert_eq!(
        shown(ONE_POLL, told(Clock::Virtual, refused)),
        "refused  DIR/x.toml: not runnable here: no second CPU\n"
    );
    let text = shown("titel = 1", told(Clock::Virtual, || Ok(poll())));
    assert!(text.starts_with("fail     DIR/x.toml\n    DIR/x.toml:1: unknown key"), "{text}");
    let text = shown(ONE_POLL, told(Clock::Virtual, || panic!("an assert of the executor, as this test wants it")));
    assert!(text.contains("the executor told panicked: an assert of the executor"), "{text}");
}

#[test]
fn what_is_not_for_real_time_is_refused_there() {
    let text = format!("{ONE_POLL}[engine]\nrun = false\nwhy = \"counts steps\"\n");
    assert_eq!(outcome(&text, told(Clock::Virtual, || Ok(poll()))).0, FileOutcome::Pass);
    let never = told(Clock::Real, || panic!("it must not be run"));
    assert_eq!(
        outcome(&text, never).0,
        FileOutcome::Refused(Refused { why: "counts steps".to_owned(), is_late: false })
    );
}

#[test]
fn a_missing_file_is_a_failure() {
    let result = run_file(Path::new("/nonexistent/x.toml"), &mut told(Clock::Virtual, || Ok(poll())));
    assert!(matches!(result.outcome, FileOutcome::Fail { reason, .. } if reason.starts_with("/nonexistent/x.toml: ")));
}

#[test]
fn files_are_found_in_order() {
    let files = [("b/2.toml", ""), ("b/10.toml", ""), ("a/z.toml", ""), ("rules.toml", ""), ("a/note.md", "")];
    let folder = folder("find", &files);
    let found = find(std::slice::from_ref(&folder)).expect("there are files");
    let names: Vec<_> = found.iter().map(|path| path.strip_prefix(&folder).expect("below").to_owned()).collect();
    assert_eq!(names, ["a/z.toml", "b/10.toml", "b/2.toml"].map(PathBuf::from));
    assert!(matches!(find(&[folder.join("none")]), Err(FilesError::Unreadable { .. })));
    std::fs::create_dir(folder.join("c")).expect("a folder can be made");
    assert!(matches!(find(&[folder.join("c")]), Err(FilesError::Empty { .. })));
    std::fs::remove_dir_all(&folder).expect("it was made");
}

#[test]
fn totals_and_json() {
    let folder = folder("json", &[("a.toml", ONE_POLL), ("b.toml", "x"), ("c.toml", ONE_POLL)]);
    let mut answers = vec![Err(Refused { why: "w".to_owned(), is_late: false }), Ok(nothing())];
    let mut executor = told(Clock::Virtual, move || answers.pop().expect("two files are run"));
    let files = find(std::slice::from_ref(&folder)).expect("there are files");
    let results: Vec<_> = files.iter().map(|file| run_file(file, &mut executor)).collect();
    std::fs::remove_dir_all(&folder).expect("it was made");
    let totals = Totals::of(&results);
    assert_eq!(totals.line("told"), "3 files, executor told: 0 passed, 2 failed, 1 refused\n");
    let object: JsonConformance = serde_json::from_str(&json(&results, "abc".to_owned())).expect("it is JSON");
    assert_eq!(
        object.totals,
        JsonTotals { files: 3, pass: 0, fail: 2, refused: 1, not_looked_at: 0, without_times: 0 }
    );
    let words: Vec<_> = object.results.iter().map(|result| result.result.as_str()).collect();
    assert_eq!(words, ["fail", "fail", "refused"]);
    assert_eq!(object.results[0].expected, Some(vec!["poll eth0/0".to_owned()]));
    assert_eq!(object.results[0].seen, Some(Vec::new()));
    assert_eq!(object.results[1].expected, None);
    assert_eq!(object.results[2].reason.as_deref(), Some("w"));
}

const RULES: &str = "[[rule]]\nid = \"1\"\ntext = \"a | b\"\nsource = \"dev.c x\"\n\
                     [[rule]]\nid = \"2\"\ntext = \"c\"\nsource = \"y\"\n\
                     [[rule]]\nid = \"3\"\ntext = \"d\"\nsource = \"z\"\nchecked = \"always\"\n";

#[test]
fn the_coverage_page() {
    let folder = folder("coverage", &[("rules.toml", RULES), ("a/1-one.toml", ONE_POLL)]);
    let page = coverage(&folder).expect("it is all right");
    let name = folder.file_name().expect("it has a name").to_string_lossy().into_owned();
    assert!(page.contains("3 rules: 1 with a scenario, 1 checked in every run, 1 without."), "{page}");
    assert!(page.contains(&format!("| 1 | a \\| b | dev.c x | [a/1-one](../{name}/a/1-one.toml \"t\") |\n")), "{page}");
    assert!(page.contains("| 2 | c | y | none |\n"), "{page}");
    assert!(page.contains("| 3 | d | z | every, after each step |\n"), "{page}");
    assert!(page.ends_with("## Rules without a scenario\n\n- 2: c\n"), "{page}");
    std::fs::remove_dir_all(&folder).expect("it was made");
}

#[test]
fn coverage_refuses_what_it_does_not_know() {
    let unknown = ONE_POLL.replace("\"1\"", "\"7.7\"");
    let bare = ONE_POLL.replace("rules = [\"1\"]\n", "");
    let twice = format!("{RULES}[[rule]]\nid = \"1\"\ntext = \"\"\nsource = \"\"\n");
    for (rules, scenario, message) in [
        (RULES, unknown.as_str(), "x.toml: rule \"7.7\" is not in rules.toml"),
        (RULES, bare.as_str(), "x.toml: names no rule"),
        (RULES, "x", "x.toml:1: not TOML"),
        (twice.as_str(), ONE_POLL, "the rule \"1\" is there twice"),
        ("[[rule]]\nidd = 1", ONE_POLL, "rules.toml: TOML parse error at line 2"),
    ] {
        let folder = folder("refuses", &[("rules.toml", rules), ("x.toml", scenario)]);
        let error = coverage(&folder).expect_err(message).to_string();
        assert!(error.contains(message), "{error}");
        std::fs::remove_dir_all(&folder).expect("it was made");
    }
}

#[test]
fn executors_by_name() {
    for name in EXECUTORS {
        assert_eq!(executor(name).expect("it is in the list").name(), *name);
    }
    let Err(error) = executor("x") else { panic!("there is none") };
    assert!(error.to_string().starts_with("unknown executor \"x\"; this build has sim"));
}

/// An executor on a live kernel with three paces.
struct Slower {
    answers: Vec<Result<Observed, Refused>>,
    stretch: u32,
}

impl Executor for Slower {
    fn name(&self) -> &'static str {
        "slower"
    }

    fn clock(&self) -> Clock {
        Clock::Kernel { times: false }
    }

    fn take_pace(&mut self, _: &Scenario, nth: usize) -> bool {
        self.stretch = [1, 3, 9].get(nth).copied().unwrap_or(self.stretch);
        nth < 3
    }

    fn stretch(&self) -> u32 {
        self.stretch
    }

    fn run(&mut self, _: &Scenario) -> Result<Observed, Refused> {
        self.answers.remove(0)
    }
}

#[test]
fn a_run_that_was_late_or_differs_is_made_again_more_slowly() {
    let late = || Err(Refused { why: "too busy".to_owned(), is_late: true });
    let never = || Err(Refused { why: "no second CPU".to_owned(), is_late: false });
    let text = format!("{ONE_POLL}[kernel]\nrun = true\n");
    let folder = folder("slower", &[("x.toml", &text)]);
    let result = |answers: Vec<Result<Observed, Refused>>| {
        let mut executor = Slower { answers, stretch: 1 };
        let result = run_file(&folder.join("x.toml"), &mut executor);
        let shown = line(&result).replace(&folder.display().to_string(), "DIR");
        (shown.lines().next().unwrap_or_default().to_owned(), result.carried_out.map(|carried_out| carried_out.stretch))
    };
    assert_eq!(result(vec![Ok(poll())]), ("pass     DIR/x.toml".to_owned(), Some(1)));
    let slow = ("pass     DIR/x.toml (9 times as slowly)".to_owned(), Some(9));
    assert_eq!(result(vec![late(), Ok(nothing()), Ok(poll())]), slow);
    // What differs is a failure, whatever came of the others.
    let failed = result(vec![Ok(nothing()), late(), late()]);
    assert!(failed.0.starts_with("fail     DIR/x.toml"), "{failed:?}");
    let refused = ("refused  DIR/x.toml: not runnable here: too busy".to_owned(), None);
    assert_eq!(result(vec![late(), late(), late()]), refused);
    assert_eq!(result(vec![never()]).1, None, "what cannot be had is not asked for again");
    std::fs::remove_dir_all(&folder).expect("it was made");
}

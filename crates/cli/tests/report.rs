//! `napier report` and the pages of comparisons, as a user has them: what is asked for is there, what is wrong is said before anything
//! is lost, and a browser opens the page without asking for anything else.

mod common;

use std::fs;
use std::process::{Command, Output};

use common::{Folder, napier, said, text};
use napier_testkit::skip;
use serde_json::Value;

fn has(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A small comparison: nothing of it depends on the machine.
const PREDICTED: [&str; 9] =
    ["compare", "--backend", "sim", "--runs", "2", "--load", "20k,max", "--modes", "base,fullbusy,workqueue"];

/// Saves a comparison as JSON.
fn compared(folder: &Folder, name: &str, more: &[&str]) -> String {
    let output = napier(&[&PREDICTED, more, &["--json"][..]].concat());
    assert!(output.status.success(), "{}", said(&output));
    fs::write(folder.file(name), &output.stdout).expect("a file of one's own can be written");
    folder.file(name)
}

fn assert_refused(output: &Output, status: i32, why: &str) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.starts_with("napier: ") && said.contains(why) && said.lines().count() == 1, "{said}");
    assert!(output.stdout.is_empty(), "{}", text(output));
}

#[test]
fn a_comparison_goes_to_a_page_to_csv_and_to_markdown_in_one_run() {
    let folder = Folder::new("all");
    let (html, csv) = (folder.file("a.html"), format!("--csv={}", folder.file("a.csv")));
    let output = napier(&[&PREDICTED, &["--html", &html, &csv, "--markdown"][..]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let markdown = text(&output);
    assert!(
        markdown.starts_with("Predicted: ") && markdown.contains("### 20K/s offered\n\n| mode | answered |"),
        "{markdown}"
    );
    let csv = has(&folder, "a.csv");
    assert_eq!(csv.lines().count(), 7, "{csv}");
    let page = has(&folder, "a.html");
    assert!(page.contains("<!DOCTYPE html>") && page.contains("<p class=\"answer\">Predicted: "), "{page}");
    assert_eq!(fs::read_dir(folder.file("")).unwrap().count(), 2, "nothing else is left behind");
}

#[test]
fn a_saved_comparison_is_shown_as_it_was() {
    let folder = Folder::new("again");
    let saved = compared(&folder, "a.json", &[]);
    let first = napier(&[&PREDICTED[..], &["--width", "80"]].concat());
    let again = napier(&["report", &saved, "--width", "80"]);
    assert_eq!(text(&again), text(&first), "{}", said(&again));
    assert_eq!(text(&napier(&["report", &saved, "--json"])), has(&folder, "a.json"));
    let columns = text(&napier(&["report", &saved, "--columns", "cpu,99%lat"]));
    assert!(columns.lines().any(|line| line.split_whitespace().eq(["mode", "cpu", "99%lat"])), "{columns}");
    let page = folder.file("a.html");
    let output = napier(&["report", &saved, "--html", &page]);
    assert!(output.status.success(), "{}", said(&output));
    let beside = text(&napier(&["report", &saved]));
    assert_eq!(text(&output), beside, "the page is written as well, and not instead");
    assert!(has(&folder, "a.html").contains("predicted by simulation"));
}

#[test]
fn two_comparisons_say_what_differs() {
    let folder = Folder::new("two");
    let (a, b) = (compared(&folder, "a.json", &[]), compared(&folder, "b.json", &["--service", "20us"]));
    let page = text(&napier(&["report", &a, &b, "--width", "80"]));
    assert!(page.starts_with("b beside a: ") && page.contains("service: null | 20us"), "{page}");
    assert!(page.contains("x higher") && page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let same = text(&napier(&["report", &a, &a, "--width", "160"]));
    assert!(same.contains("p99 differs nowhere by more than the runs do (of 2)"), "{same}");
    let output = napier(&["report", &a, &b, "--html", &folder.file("ab.html")]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(text(&output).starts_with("b beside a: "), "the text is there as well: {}", text(&output));
    assert!(has(&folder, "ab.html").contains("Percentiles side by side"));
    for option in [&["--wide"][..], &["--columns", "cpu"]] {
        let refused = napier(&[&["report", &a, &b], option].concat());
        assert_refused(&refused, 2, &format!("{} is for one comparison", option[0]));
    }
}

#[test]
fn what_differs_goes_to_json_csv_markdown_and_a_page_in_one_run() {
    let folder = Folder::new("forms");
    let (a, b) = (compared(&folder, "a.json", &[]), compared(&folder, "b.json", &["--service", "20us"]));
    let (html, csv) = (folder.file("ab.html"), format!("--csv={}", folder.file("ab.csv")));
    let markdown = format!("--markdown={}", folder.file("ab.md"));
    let output = napier(&["report", &a, &b, "--json", &csv, &markdown, "--html", &html]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    let names: Vec<&str> =
        value["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
    let p99 = &value["rows"][0]["metrics"]["latency_us.p99"][1];
    assert_eq!((&p99["differs"], &p99["verdict"]), (&true.into(), &"higher".into()), "{p99}");
    let (csv, markdown, summary) =
        (has(&folder, "ab.csv"), has(&folder, "ab.md"), value["summaries"][0].as_str().unwrap());
    let line = format!("base,device,1,20000,latency_us.p99,b,sim,2,true,{},", p99["median"]);
    assert!(csv.starts_with("mode,receive,copy,load_rps,metric,file,") && csv.contains(&line), "{line}\n{csv}");
    assert!(markdown.starts_with(&format!("### b beside a\n\n{summary}\n")), "{summary}\n{markdown}");
    assert!(has(&folder, "ab.html").contains("Percentiles side by side"));
    for (option, begins) in [("--csv", "mode,receive,"), ("--markdown", "### b beside a")] {
        assert!(text(&napier(&["report", &a, &b, option])).starts_with(begins), "{option}");
    }
    assert_refused(&napier(&["report", &a, &b, "--csv", "--json"]), 2, "cannot all go to standard output");
    fs::write(folder.file("ab.json"), &output.stdout).expect("a file of one's own can be written");
    assert_refused(&napier(&["report", &folder.file("ab.json")]), 2, "is the JSON of `napier report`");
}

#[test]
fn every_column_is_explained() {
    for command in ["compare", "report"] {
        let said = text(&napier(&[command, "--explain", "--width", "80"]));
        assert!(
            said.contains("99%lat     latency_us.p99") && said.lines().all(|line| line.chars().count() <= 80),
            "{said}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_anything_runs() {
    let folder = Folder::new("unwritable");
    let nowhere = folder.file("no/such/folder/a.html");
    let began = std::time::Instant::now();
    // This would take an hour.
    let long = ["compare", "--seconds", "3600", "--load", "1k", "--modes", "base"];
    for option in [format!("--html={nowhere}"), format!("--csv={nowhere}"), format!("--markdown={nowhere}")] {
        let name = option.split('=').next().expect("an option has a name").to_owned();
        assert_refused(
            &napier(&[&long[..], &[&option]].concat()),
            2,
            &format!("No such file or directory (os error 2); give {name} a file"),
        );
    }
    assert_refused(&napier(&[&long[..], &["--html", &folder.file("")]].concat()), 2, "is a directory");
    for command in [&["advise", "--rate", "20k"][..], &["sim", "plan", "irq-suspension"], &["bench", "udp-rr"]] {
        assert_refused(&napier(&[command, &["--html", &nowhere]].concat()), 2, "cannot write");
    }
    assert!(began.elapsed().as_secs() < 600, "nothing ran");
    for wrong in [&["--columns", "speed"][..], &["--columns", "cpu", "--wide"], &["--json", "--csv"]] {
        let output = napier(&[&long[..], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", said(&output));
    }
}

#[test]
fn a_page_that_is_there_stays_if_there_is_no_better_one() {
    let folder = Folder::new("stays");
    let page = folder.file("a.html");
    fs::write(&page, "the page of yesterday").unwrap();
    let broken = folder.file("broken.json");
    fs::write(&broken, "{\"host\": {").unwrap();
    assert_refused(&napier(&["report", &broken, "--html", &page]), 2, "it was cut short");
    assert_eq!(has(&folder, "a.html"), "the page of yesterday");
}

#[test]
fn what_is_no_comparison_is_refused_with_the_reason() {
    let folder = Folder::new("refused");
    let saved = compared(&folder, "a.json", &[]);
    let whole = has(&folder, "a.json");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_str(&whole).unwrap();
        change(&mut value);
        value.to_string()
    };
    for (bad, why) in [
        (String::new(), "is empty"),
        (whole[..whole.len() / 2].to_owned(), "cut short"),
        (with(&|value| value["rows"][0]["latency_us"]["p99"] = Value::Null), "invalid type: null"),
    ] {
        let path = folder.file("bad.json");
        fs::write(&path, bad).unwrap();
        assert_refused(&napier(&["report", &path]), 2, why);
        assert_refused(&napier(&["report", &saved, &path]), 2, why);
    }
    let many = folder.file("many.json");
    fs::write(&many, with(&|value| value["rows"] = Value::Array(vec![value["rows"][0].clone(); 5001]))).unwrap();
    assert_refused(&napier(&["report", &many]), 2, "5001 rows");
    assert_refused(&napier(&["report", &folder.file("none.json")]), 2, "cannot read");
    assert_refused(&napier(&["report"]), 2, "required");
}

/// A browser, if there is one.
fn chromium() -> Option<&'static str> {
    let has = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(has)
}

/// Opens a page; the document as the browser has it, and what it wrote to its console or asked the network for.
fn opened(browser: &str, page: &str, folder: &Folder) -> (String, Vec<String>) {
    let profile = folder.file("profile");
    let netlog = folder.file("net.json");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync", "--disable-quic"])
        .args(["--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0"])
        .args([&format!("--user-data-dir={profile}"), &format!("--log-net-log={netlog}"), "--dump-dom"])
        .arg(format!("file://{page}"))
        .output()
        .expect("the browser is there");
    assert!(output.status.success(), "{}", said(&output));
    let console = String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .map(str::to_owned)
        .collect();
    (text(&output), console)
}

#[test]
fn a_browser_opens_the_page_and_asks_for_nothing_else() {
    let Some(browser) = chromium() else {
        skip!("a_browser_opens_the_page_and_asks_for_nothing_else", "there is no Chromium");
        return;
    };
    let folder = Folder::new("browser");
    let saved = compared(&folder, "a.json", &[]);
    let page = folder.file("a.html");
    assert!(napier(&["report", &saved, "--html", &page]).status.success());
    let (document, console) = opened(browser, &page, &folder);
    assert_eq!(console, Vec::<String>::new(), "the console is empty");
    for never in ["http://", "https://", "<script", " src="] {
        assert!(!document.contains(never), "{never}");
    }
    let value: Value = serde_json::from_str(&has(&folder, "a.json")).unwrap();
    let p99 = value["rows"][0]["latency_us"]["p99"].as_f64().expect("it was predicted");
    assert!(document.contains(&format!("{p99:.1}")) || document.contains(&format!("{p99:.0}")), "{p99}");
    // What asked the network would be there by its address; the browser's own start-up asks for none with these options.
    let netlog = has(&folder, "net.json");
    let asked: Vec<&str> = netlog.split('"').filter(|text| text.starts_with("http") && text.contains("://")).collect();
    let asked: Vec<&&str> = asked.iter().filter(|url| !url.contains("chromium") && !url.contains("google")).collect();
    assert!(asked.is_empty(), "{asked:?}");
}

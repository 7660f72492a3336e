use std::fs;
use std::io::Write as _;

use napier_testkit::Folder;

use super::super::Look;
use super::*;

fn which(path: &str) -> Which {
    Which::parse(path)
}

fn number(which: &Which, line: &str) -> Option<f64> {
    which.number(line).map(|found| found.value)
}

#[test]
fn the_number_of_a_line_is_found() {
    let folder = Folder::new("judge-file");
    let path = folder.file("log");
    fs::write(&path, "").expect("written");
    let plain = which(&path);
    for (line, value) in [
        ("GET /x 200 0.0042\n", Some(0.0042)),
        ("GET /x 200 1.5ms", Some(0.0015)),
        ("{\"status\":200,\"latency\":0.5}", Some(0.5)),
        ("2026-11-26 12:00:01 took=1e-3 s", Some(1e-3)),
        ("[12us]", Some(12e-6)),
        ("inf nan infinity", None),
        ("no number", None),
        ("", None),
    ] {
        let found = number(&plain, line);
        assert!(found == value || found.zip(value).is_some_and(|(a, b)| (a - b).abs() < 1e-12), "{line}: {found:?}");
    }
    let of_column = which(&format!("{path}:2"));
    assert_eq!((number(&of_column, "a 7 9"), number(&of_column, "7")), (Some(7.0), None));
    let in_ms = which(&format!("{path}:2:ms"));
    assert_eq!((in_ms.column, in_ms.unit, number(&in_ms, "a 7 9")), (Some(2), Some(Bare::Milliseconds), Some(0.007)));
    let no_file = which("/no/such:file");
    assert_eq!(no_file.path, Path::new("/no/such:file"));
    let odd = folder.file("odd:2");
    fs::write(&odd, "").expect("written");
    assert_eq!(which(&odd).column, None, "it is its name");
}

/// Lines that came since the last time.
fn lines(tail: &mut Tail) -> Vec<String> {
    let mut found = Vec::new();
    tail.read(&mut |line| {
        found.push(line.trim_end().to_owned());
        Ok(())
    })
    .expect("read");
    found
}

fn append(path: &str, text: &[u8]) {
    fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(text))
        .expect("written");
}

#[test]
fn lines_are_followed_through_what_is_done_to_logs() {
    let folder = Folder::new("judge-file");
    let path = folder.file("log");
    fs::write(&path, "old\npart").expect("written");
    let mut tail = Tail::open(Path::new(&path)).expect("a file");
    assert_eq!(lines(&mut tail), [""; 0]);
    append(&path, b" of one\nwhole\nbegun");
    assert_eq!(lines(&mut tail), ["whole"], "what was begun before is not whole");
    append(&path, b" and ended\n\xff\n");
    assert_eq!(lines(&mut tail), ["begun and ended", "\u{fffd}"]);
    // Cut, as `copytruncate` does.
    fs::write(&path, "a\n").expect("written");
    assert_eq!(lines(&mut tail), ["a"]);
    // Moved, written to once more, and made anew.
    let old = folder.file("log.1");
    fs::rename(&path, &old).expect("moved");
    append(&old, b"late\n");
    assert_eq!(lines(&mut tail), ["late"]);
    append(&old, b"later\n");
    append(&path, b"new\n");
    assert_eq!(lines(&mut tail), ["later", "new"]);
    fs::remove_file(&path).expect("removed");
    assert_eq!(lines(&mut tail), [""; 0]);
}

#[test]
fn what_is_too_much_is_passed_over() {
    let folder = Folder::new("judge-file");
    let path = folder.file("log");
    append(&path, b"");
    let mut tail = Tail::open(Path::new(&path)).expect("a file");
    append(&path, &vec![b'x'; LINE_MAX + 10]);
    assert_eq!(lines(&mut tail).len(), 0);
    assert!(tail.rest.is_empty(), "it is not kept");
    append(&path, b"\nnext\n");
    assert_eq!(lines(&mut tail), ["next"]);
    append(&path, &b"1234567\n".repeat(READ_MAX / 8 + 1000));
    append(&path, b"last\n");
    let found = lines(&mut tail);
    assert!(found.len() <= READ_MAX / 8 && found.last().is_some_and(|line| line == "last"), "{}", found.len());
    assert!(found[..found.len() - 1].iter().all(|line| line == "1234567"), "none is cut");
}

#[test]
fn what_does_not_grow_is_refused() {
    let folder = Folder::new("judge-file");
    let fifo = folder.file("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &*fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    for path in ["/dev/zero", "/dev/full", "/", &fifo] {
        let why = Tail::open(Path::new(path)).expect_err(path);
        assert!(why.contains("is no file that grows"), "{why}");
    }
    // A file that becomes a pipe.
    let path = folder.file("log");
    append(&path, b"1\n");
    let mut tail = Tail::open(Path::new(&path)).expect("a file");
    fs::rename(&fifo, &path).expect("moved");
    assert!(tail.read(&mut |_| Ok(())).expect_err("a pipe").contains("is no file that grows"));
}

#[test]
fn a_judge_of_it_has_quantiles_of_what_was_added() {
    let folder = Folder::new("judge-file");
    let path = folder.file("log");
    append(&path, b"took 90ms\n");
    let mut judge = file("file:x", &path, Better::Less).expect("a file");
    let names: Vec<(&str, Unit)> = judge.figures().iter().map(|one| (&*one.name, one.unit)).collect();
    assert_eq!(names, [("p99", Unit::Seconds), ("p50", Unit::Seconds), ("lines", Unit::PerSecond)]);
    judge.begin().expect("it begins");
    let mut last = None;
    napier_testkit::eventually("it is seen", || {
        append(&path, b"took 1ms\ntook 2ms\ntook 3ms\nno number\n");
        if let Look::Seen(reading) = judge.look().expect("it goes on") {
            last = Some(reading.values);
        }
        last.is_some()
    });
    let values = last.expect("seen");
    let near = |value: Option<f64>, wanted: f64| value.is_some_and(|value| (value / wanted - 1.0).abs() < 0.01);
    assert!(near(values[0], 0.003) && near(values[1], 0.002), "{values:?}");
}

#[test]
fn a_log_of_histograms_is_read() {
    use hdrhistogram::serialization::V2DeflateSerializer;
    use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).expect("a histogram");
    histogram.record_n(1_000, 98).expect("recorded");
    histogram.record_n(50_000, 2).expect("recorded");
    let (mut text, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut log = IntervalLogWriterBuilder::new().begin_log_with(&mut text, &mut serializer).expect("begun");
    log.write_histogram(&histogram, Duration::ZERO, Duration::from_secs(1), None).expect("written");
    let (mut values, in_us) = (Values::default(), which("/no/such/file:us"));
    for line in String::from_utf8(text).expect("text").lines().filter(|line| line.contains("HISTF")) {
        values.add(line, &in_us).expect("a line of a log");
    }
    let found = values.values(Duration::from_secs(1));
    let near = |value: Option<f64>, wanted: f64| value.is_some_and(|value| (value / wanted - 1.0).abs() < 0.01);
    assert!(near(found[0], 0.05) && near(found[1], 0.001) && found[2] == Some(1.0), "{found:?}");
    for line in ["0.1,1.0,2.0,HISTFAAA", "HISTF", "0.0,1.0,2.0,HISTFAAAB!"] {
        assert!(values.add(line, &in_us).is_err(), "{line}");
    }
}

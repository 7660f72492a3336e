//! A recording whose file takes no more: the server goes on, says so at once and in the end, and loses no figure.

mod common;

use std::process::{Command, Stdio};

use common::{Folder, NAPIER, Running};
use napier_testkit::eventually;

#[test]
fn a_recording_that_ends_early_is_told_at_once_and_in_the_end() {
    let folder = Folder::new("recording");
    // A pipe whose reader goes away is a file that takes no more.
    let pipe = folder.file("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let dev = format!("memif:@napier-recording-{}", std::process::id());
    let (out, errors) = (folder.file("out"), folder.file("errors"));
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::File::open(pipe).expect("the server opens the other end")
    });
    let process = Command::new(NAPIER)
        .args(["serve", "kv", "--dev", &dev, "--ip", "10.79.0.1/24", "--pcapng", &pipe])
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&out).expect("a file"))
        .stderr(std::fs::File::create(&errors).expect("a file"))
        .spawn();
    let mut server = Running(process.expect("napier starts"));
    let text = |path: &str| std::fs::read_to_string(path).expect("a file");
    eventually("it is ready", || text(&out).contains("ready: "));
    drop(reader.join().expect("the reader has it"));
    common::load("10.79.0.1", "udp", "ascii", &["--dev", &dev, "--ip", "10.79.0.2/24"]);
    let said = || text(&errors);
    eventually("it is said", || said().contains("nothing more is recorded"));
    common::load("10.79.0.1", "tcp", "ascii", &["--dev", &dev, "--ip", "10.79.0.2/24"]);
    common::signal(server.0.id(), "INT");
    assert_eq!(server.0.wait().expect("it ends").code(), Some(1), "{}", said());
    let summary = text(&out);
    assert!(summary.contains("requests     ") && summary.contains("frames are missing"), "{summary}");
    assert_eq!(said().lines().count(), 2, "{}", said());
    assert!(said().lines().all(|line| line.contains(&format!("recording into {pipe}"))), "{}", said());
}

//! The page on fidelity is what the command writes now, whatever the machine.

use std::process::Command;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fidelity.md");

/// `NAPIER_PROGRAM` names the program, for one that is built for release takes a third of the time.
#[test]
#[ignore = "most of a minute of CPU: .ci/run does it with the release program"]
fn the_page_is_current() {
    let napier = std::env::var("NAPIER_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_napier").to_owned());
    // A path is from the folder of the repository.
    let napier = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(napier);
    let output = Command::new(napier).args(["sim", "fidelity"]).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = String::from_utf8(output.stdout).expect("text");
    let page = std::fs::read_to_string(PAGE).unwrap_or_default();
    let differs = written.lines().zip(page.lines()).find(|(is, was)| is != was);
    assert!(
        written == page,
        "docs/fidelity.md is not what `napier sim fidelity` writes: write it anew. First difference: {differs:?}"
    );
}

//! The page on fidelity is what the command writes now, whatever the machine.

use std::process::Command;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fidelity.md");

#[test]
fn the_page_is_current() {
    let output = Command::new(env!("CARGO_BIN_EXE_napier")).args(["sim", "fidelity"]).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = String::from_utf8(output.stdout).expect("text");
    let page = std::fs::read_to_string(PAGE).unwrap_or_default();
    let differs = written.lines().zip(page.lines()).find(|(is, was)| is != was);
    assert!(
        written == page,
        "docs/fidelity.md is not what `napier sim fidelity` writes: write it anew. First difference: {differs:?}"
    );
}

//! The page on fidelity is what the command writes now, whatever the machine, and what other pages quote of predictions is what is printed now.

use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fidelity.md");

/// What a page quotes of what a command prints.
enum Quoted {
    /// Between the next quotation marks.
    Words,
    /// The next block, each line by itself; `...` stands for what was left out.
    Block,
}

/// Pages, the command as it stands there, what else is asked for here, and what of it is quoted.
const QUOTED: [(&str, &str, &[&str], Quoted); 4] = [
    ("README.md", "napier advise --rate 50k --service 4us --p99 250us", &["--quick"], Quoted::Words),
    ("docs/advise.md", "napier advise --rate 50k`", &["--quick"], Quoted::Words),
    (
        "docs/howto/choose-a-mode.md",
        "napier advise --rate 50k --service 4us --p99 250 --max-cpu 80",
        &["--quick"],
        Quoted::Block,
    ),
    ("docs/howto/predict.md", "napier compare --backend sim --load 50k --modes base,suspend20", &[], Quoted::Block),
];

/// `NAPIER_PROGRAM` names the program, for one that is built for release takes a third of the time.
fn printed(args: &[&str]) -> std::process::Output {
    let napier = std::env::var("NAPIER_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_napier").to_owned());
    // A path is from the folder of the repository.
    let napier = std::path::Path::new(ROOT).join(napier);
    Command::new(napier).args(args).output().expect("it starts")
}

fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What `page` quotes behind a command.
fn quoted(page: &str, command: &str, what: &Quoted) -> Vec<String> {
    let behind = &page[page.find(command).unwrap_or_else(|| panic!("no `{command}`")) + command.len()..];
    match what {
        Quoted::Words => vec![folded(behind.split('"').nth(1).expect("it is quoted"))],
        Quoted::Block => {
            let block = behind.split("```text").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
            block.lines().map(folded).filter(|line| !line.is_empty() && line != "...").collect()
        }
    }
}

#[test]
#[ignore = "seconds of CPU: .ci/run does it with the release program"]
fn what_pages_quote_is_printed() {
    let mut stale = Vec::new();
    for (page, command, more, what) in &QUOTED {
        let text = std::fs::read_to_string(format!("{ROOT}/{page}")).expect("a page of the repository");
        let args = command.trim_end_matches('`').split(' ').skip(1).chain(more.iter().copied());
        let output = printed(&args.collect::<Vec<_>>());
        let said = folded(&String::from_utf8(output.stdout).expect("text"));
        let lines = quoted(&text, command, what);
        assert!(!lines.is_empty(), "{page} quotes nothing of `{command}`");
        let gone = lines.into_iter().filter(|line| !said.contains(line.as_str()));
        stale.extend(gone.map(|line| format!("{page}: `{command}` does not print: {line}")));
    }
    assert!(stale.is_empty(), "{}", stale.join("\n"));
}

#[test]
fn what_is_quoted_is_what_stands_behind_the_command() {
    let page = "`cmd a` says \"one\n two\", and \"three\"\n```sh\ncmd b\n```\n```text\n  x   y\n...\n\nz\n```\n";
    assert_eq!(quoted(page, "cmd a", &Quoted::Words), ["one two"]);
    assert_eq!(quoted(page, "cmd b", &Quoted::Block), ["x y", "z"]);
}

#[test]
#[ignore = "most of a minute of CPU: .ci/run does it with the release program"]
fn the_page_is_current() {
    let output = printed(&["sim", "fidelity"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = String::from_utf8(output.stdout).expect("text");
    let page = std::fs::read_to_string(PAGE).unwrap_or_default();
    let differs = written.lines().zip(page.lines()).find(|(is, was)| is != was);
    assert!(
        written == page,
        "docs/fidelity.md is not what `napier sim fidelity` writes: write it anew. First difference: {differs:?}"
    );
}

//! The commands in README and docs are commands: each is understood as it is written there.

use std::process::{Command, Stdio};

mod blocks;
#[path = "examples/lines.rs"]
mod lines;
#[path = "examples/machine.rs"]
mod machine;

use blocks::{Block, Fate, blocks_of, pages, root};

/// Words of a line of a shell, without its comment; operators are words of their own. What another command or a variable says, or
/// stands for a process, is some number.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    let line = match (line.find("$("), line.rfind(')')) {
        (Some(from), Some(to)) if from < to => format!("{}1{}", &line[..from], &line[to + 1..]),
        _ => line.to_owned(),
    };
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.push(c),
            None if c == '\'' || c == '"' => (quote, begun) = (Some(c), true),
            None if c.is_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            None if c == '#' && !begun => break,
            None => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    for word in &mut words {
        if word == "PID" || word.starts_with('$') {
            "1".clone_into(word);
        }
    }
    words
}

/// The arguments of each call of `napier` on a line.
fn calls(line: &str) -> Vec<Vec<String>> {
    let words = words(line);
    let simple = words.split(|word| ["&&", "|", "&", ";"].contains(&word.as_str()));
    simple
        .filter_map(|command| {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            let rest = match &command[..] {
                ["sudo", "napier", rest @ ..] | ["napier", rest @ ..] => rest,
                ["cargo", "run", "--release", "--", rest @ ..] => rest,
                _ => return None,
            };
            let end = rest.iter().position(|word| word.starts_with('>')).unwrap_or(rest.len());
            Some(rest[..end].iter().map(|word| (*word).to_owned()).collect())
        })
        .collect()
}

/// The calls in the blocks of shell commands and in the code of the running text.
fn calls_of_page(page: &str) -> Vec<Vec<String>> {
    let (mut found, mut fence) = (Vec::new(), None);
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(language == "sh"),
            (Some(_), Some(_)) => fence = None,
            (None, Some(true)) => found.extend(calls(line)),
            (None, Some(false)) => {}
            (None, None) => found.extend(line.split('`').skip(1).step_by(2).flat_map(calls)),
        }
    }
    found
}

#[test]
fn every_command_of_the_pages_is_understood() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (page, text) in pages() {
        for call in calls_of_page(&text) {
            // Names of groups of commands, and of families: `napier bench xdp-*`, `napier help COMMAND`.
            let is_open =
                |word: &String| word.contains(['*', '…', '|']) || ["COMMAND", "...", "I/N"].contains(&word.as_str());
            if call.is_empty() || call.iter().any(is_open) {
                continue;
            }
            count += 1;
            // With --help nothing is begun, but what stands before it has to be right.
            let mut command = Command::new(env!("CARGO_BIN_EXE_napier"));
            // What stands behind `--` is another program's.
            let (own, _) = call.split_at(call.iter().position(|word| word == "--").unwrap_or(call.len()));
            let output = command.args(own).arg("--help").stdin(Stdio::null()).output().expect("napier starts");
            let said = String::from_utf8_lossy(&output.stderr);
            // The running text names an option without its value.
            let names_option =
                own.last().is_some_and(|last| last.starts_with("--")) && said.contains("a value is required");
            if !output.status.success() && !names_option {
                wrong.push(format!("{page}: napier {}: {said}", call.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 30, "{count} commands were found");
}

#[test]
fn a_command_that_is_none_would_be_found() {
    let page = "a `napier bogus` and\n```sh\nsudo napier compare --modus 'a b' | jq .  # really\n```\n";
    assert_eq!(calls_of_page(page), [vec!["bogus"], vec!["compare", "--modus", "a b"]]);
    for wrong in
        [&["bogus", "--help"][..], &["compare", "--modus", "a b", "--help"], &["compare", "--runs", "x", "--help"]]
    {
        let status = Command::new(env!("CARGO_BIN_EXE_napier")).args(wrong).output().expect("napier starts").status;
        assert_eq!(status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn every_block_of_commands_is_run_or_says_why_not() {
    let all = pages().into_iter().flat_map(|(page, text)| blocks_of(&page, &text)).collect::<Vec<_>>();
    let unmarked = all.iter().filter(|block| block.fate == Fate::Unmarked);
    let unmarked: Vec<String> = unmarked.map(|block| format!("{}:{}", block.page, block.line)).collect();
    assert!(
        unmarked.is_empty(),
        "put `<!-- run -->`, or `<!-- not run: REASON -->`, on the line above these blocks: {}",
        unmarked.join(", ")
    );
    assert!(all.iter().any(|block| block.fate == Fate::Run), "none is run");
}

#[test]
fn the_blocks_that_are_marked_run_as_they_are_written() {
    let folder = std::env::temp_dir().join(format!("napier-examples-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("bin")).expect("a folder");
    for name in ["conformance", "plans", "scenarios"] {
        std::os::unix::fs::symlink(root().join(name), folder.join(name)).expect("a link");
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_napier"), folder.join("bin/napier")).expect("a link");
    let mut failed = Vec::new();
    let all = pages().into_iter().flat_map(|(page, text)| blocks_of(&page, &text));
    for Block { page, line, text, .. } in all.filter(|block| block.fate == Fate::Run) {
        let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("timeout");
        shell.args(["--kill-after=5", "120", "bash", "-euo", "pipefail", "-c", &text]).current_dir(&folder);
        shell
            .env("PATH", path)
            .env("NAPIER_STATE_DIRECTORY", folder.join("state"))
            .env("XDG_RUNTIME_DIR", folder.join("run"));
        let output = shell.stdin(Stdio::null()).output().expect("bash starts");
        if !output.status.success() {
            failed.push(format!("{page}:{line}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// `NAPIER_PROGRAM` names the program, for one that is built for release is quicker; `NAPIER_ONLY` a word of the
/// commands or the page that are wanted.
#[test]
#[ignore = "minutes: .ci/run does it with the release program"]
fn every_command_runs_as_the_user_and_on_the_machine_that_it_is_for() {
    const TEST: &str = "every_command_runs_as_the_user_and_on_the_machine_that_it_is_for";
    if !rustix::process::geteuid().is_root() {
        return napier_testkit::skip!(TEST, "needs root: it makes namespaces and interfaces");
    }
    let napier = std::env::var("NAPIER_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_napier").to_owned());
    let only = std::env::var("NAPIER_ONLY").unwrap_or_default();
    let is_there =
        |program: &str| Command::new("which").arg(program).stdout(Stdio::null()).status().is_ok_and(|is| is.success());
    let mut machine = machine::Machine::new(&root().join(napier));
    machine.furnish();
    let (mut ran, mut not, mut wrong, mut last) = (0, 0, Vec::new(), String::new());
    let mut measured = std::collections::HashSet::new();
    for line in lines::lines().into_iter().filter(|line| line.text.contains(&only) || line.at.contains(&only)) {
        let (page, _) = line.at.split_once(':').expect("a page and a line");
        if last != page {
            machine.put_back();
            page.clone_into(&mut last);
        }
        if let lines::How::Not(why) = line.how {
            println!("{}: {}: not run: {why}", line.at, line.text);
            not += 1;
            continue;
        }
        let wanted = ["memcached", "redis-server", "redis-benchmark", "memcping", "promtool", "jq"];
        let words: Vec<&str> = line.text.split([' ', '\n', '(']).collect();
        if let Some(lacks) = wanted.iter().find(|word| words.contains(word) && !is_there(word)) {
            napier_testkit::skip!(TEST, "{}: {lacks} is not installed", line.at);
            continue;
        }
        // These change nothing on the machine, so once is enough.
        let measures =
            ["napier bench ", "napier compare", "napier sim "].iter().any(|begins| line.text.starts_with(begins));
        if measures && !measured.insert(line.text.clone()) {
            println!("{}: {}: ran before", line.at, line.text);
            continue;
        }
        let begun = std::time::Instant::now();
        ran += 1;
        let came = machine.wrong(&line);
        let how = came.as_ref().map(|what| format!("\n    WRONG: {what}")).unwrap_or_default();
        println!("{:6.1} s {}: {}{how}", begun.elapsed().as_secs_f64(), line.at, line.text);
        wrong.extend(came.map(|what| format!("{}: {}: {what}", line.at, line.text)));
    }
    println!("{ran} commands were run, {not} were not, for reasons that the list has");
    assert!(wrong.is_empty(), "{} of {ran}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_example_in_rust_is_that_of_the_library_which_is_compiled_and_run() {
    let root = root();
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (page, library) = (read("docs/engine.md"), read("crates/runtime/src/lib.rs"));
    let example = page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let head: String = library
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .fold(String::new(), |text, line| text + line.strip_prefix(' ').unwrap_or(line) + "\n");
    assert!(head.contains(example), "the example of docs/engine.md is not that of crates/runtime/src/lib.rs");
}

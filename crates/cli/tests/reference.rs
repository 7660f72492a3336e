//! What is made from the definition of the command line: manual pages, completions, `docs/commands.md`.
//!
//! ```sh
//! NAPIER_REFERENCE=write cargo test -p napier --test reference
//! ```

mod common;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use common::{Folder, NAPIER, has, run, text};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");

/// Commands and those below them, as the reference names them.
fn commands(reference: &str) -> Vec<String> {
    let lines = reference.lines().filter_map(|line| line.strip_prefix("## napier"));
    lines.map(|path| path.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn reference() -> String {
    text(&run(NAPIER, &["man", "--markdown"]))
}

#[test]
fn the_page_of_commands_is_current() {
    let written = reference();
    if std::env::var_os("NAPIER_REFERENCE").is_some_and(|how| how == "write") {
        std::fs::write(PAGE, &written).expect("written");
    }
    let page = std::fs::read_to_string(PAGE).unwrap_or_default();
    let differs = written.lines().zip(page.lines()).find(|(is, was)| is != was);
    assert!(
        written == page,
        "docs/commands.md is not what `napier man --markdown` writes: write it anew. First difference: {differs:?}"
    );
}

#[test]
fn every_command_has_a_manual_page_and_no_page_is_without_a_command() {
    let folder = Folder::new("every_command_has_a_manual_page_and_no_page_is_without_a_command");
    run(NAPIER, &["man", &folder.file("man")]);
    let files = std::fs::read_dir(folder.file("man")).expect("the folder was made");
    let found: BTreeSet<String> =
        files.map(|file| file.expect("a file").file_name().into_string().expect("a name")).collect();
    let commands = commands(&reference());
    let wanted: BTreeSet<String> =
        commands.iter().map(|path| format!("napier {path}").trim_end().replace(' ', "-") + ".1").collect();
    assert_eq!(found, wanted);
    // Each is the command's: help of the same words works, and the page has its options.
    for path in commands {
        let words: Vec<&str> = path.split_whitespace().chain(["--help"]).collect();
        let help = text(&run(NAPIER, &words));
        let page = std::fs::read_to_string(
            folder.file("man") + "/" + &format!("napier {path}").trim_end().replace(' ', "-") + ".1",
        );
        let page = page.expect("it was found").replace("\\-", "-");
        let options =
            help.lines().filter_map(|line| line.trim_start().strip_prefix("--")?.split([' ', '[', '=']).next());
        for option in options {
            assert!(page.contains(&format!("--{option}")), "napier {path}: no --{option} in its page");
        }
    }
}

#[test]
fn manual_pages_are_read_without_a_warning() {
    let test = "manual_pages_are_read_without_a_warning";
    if !has(test, "mandoc") && !has(test, "man") {
        return;
    }
    let folder = Folder::new(test);
    run(NAPIER, &["man", &folder.file("man")]);
    let page = folder.file("man") + "/napier.1";
    let output =
        Command::new("man").args(["--warnings", "-l", &page]).env("MANWIDTH", "80").stdin(Stdio::null()).output();
    let output = output.expect("man starts");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = text(&output);
    for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXAMPLES", "EXIT STATUS", "FILES"] {
        assert!(shown.contains(section), "{section}: {shown}");
    }
}

#[test]
fn shells_read_their_completions() {
    let test = "shells_read_their_completions";
    let shells = [
        ("bash", "bash", &["-c", "source \"$0\" && complete -p napier"][..]),
        ("zsh", "zsh", &["-n"]),
        ("fish", "fish", &["-n"]),
    ];
    let folder = Folder::new(test);
    for (shell, program, args) in shells {
        let completions = run(NAPIER, &["completions", shell]);
        let file = folder.file(shell);
        std::fs::write(&file, &completions.stdout).expect("written");
        if has(test, program) {
            run(program, &[args, &[&file]].concat());
        }
    }
}

#[test]
fn bash_completes_commands_options_and_modes() {
    let test = "bash_completes_commands_options_and_modes";
    if !has(test, "bash") {
        return;
    }
    let script = r#"
source "$0"
of() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _napier napier "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; echo "${COMPREPLY[*]}"; }
of napier doc
of napier run --dr
of napier run --mode su
of napier --color n
"#;
    let folder = Folder::new(test);
    let file = folder.file("napier.bash");
    std::fs::write(&file, run(NAPIER, &["completions", "bash"]).stdout).expect("written");
    assert_eq!(text(&run("bash", &["-c", script, &file])), "doctor\n--dry-run\nsuspend0 suspend20\nnever\n");
}

#[test]
fn colours_are_for_terminals_or_who_asks() {
    let coloured = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(NAPIER);
        command.args(args).env_remove("NO_COLOR").env_remove("CLICOLOR").env_remove("CLICOLOR_FORCE");
        let output = command.envs(variables.iter().copied()).output().expect("it starts");
        (output.stdout.contains(&0x1b), output.stderr.contains(&0x1b))
    };
    assert_eq!(coloured(&["--help"], &[]), (false, false));
    assert_eq!(coloured(&["--help", "--color", "always"], &[]), (true, false));
    assert_eq!(coloured(&["--color=always", "nothing-like-it"], &[]), (false, true));
    assert_eq!(coloured(&["nothing-like-it"], &[]), (false, false));
    assert_eq!(coloured(&["--help"], &[("CLICOLOR_FORCE", "1")]), (true, false));
    assert_eq!(coloured(&["--help", "--color", "never"], &[("CLICOLOR_FORCE", "1")]), (false, false));
}

#[test]
fn the_version_names_the_commit_where_there_is_one() {
    let long = text(&run(NAPIER, &["--version"]));
    let short = text(&run(NAPIER, &["-V"]));
    let short = short.trim_end();
    assert_eq!(short, format!("napier {}", env!("CARGO_PKG_VERSION")));
    let rest = long.trim_end().strip_prefix(short).expect("the same version");
    let is_hex = |commit: &str| commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    let commit = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(")"));
    assert!(rest.is_empty() || commit.is_some_and(|commit| is_hex(commit.trim_end_matches("-dirty"))), "{long}");
}

//! What is made from the command line's definition: completions for shells, manual pages, the reference in `docs/commands.md`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::help::{self, EXAMPLES, EXIT_STATUS};

/// Options of `napier completions`.
#[derive(clap::Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Options of `napier man`.
#[derive(clap::Args)]
pub(crate) struct Pages {
    /// Folder for the manual pages; it is made if there is none
    #[arg(value_name = "DIR", required_unless_present = "markdown")]
    folder: Option<PathBuf>,

    /// Print the reference as markdown (docs/commands.md)
    #[arg(long, conflicts_with = "folder")]
    markdown: bool,
}

/// Prints what a shell reads.
pub(crate) fn completions(args: &Completions) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut help::plain_command(), "napier", &mut text);
    Ok(io::stdout().lock().write_all(&text)?)
}

/// Writes a manual page for every command that is shown, or prints them as markdown.
pub(crate) fn pages(args: &Pages) -> anyhow::Result<()> {
    let mut command = with_words(help::plain_command().disable_help_subcommand(true));
    command.build();
    if let Some(folder) = &args.folder {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        return page(&command, "", folder);
    }
    let mut text = String::from(MARKDOWN_HEAD);
    markdown_status(&mut text);
    markdown(&command, "", &mut text);
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

/// The words that help has for what is below a command; pages would have others.
fn with_words(command: Command) -> Command {
    command.subcommand_value_name("COMMAND").subcommand_help_heading("COMMANDS").mut_subcommands(with_words)
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set())
}

/// Words behind `napier` of a command below another.
fn path_of(above: &str, below: &Command) -> String {
    format!("{above} {}", below.get_name()).trim_start().to_owned()
}

fn examples(path: &str) -> &'static [help::Example] {
    EXAMPLES.iter().find(|(of, _)| *of == path).map_or(&[], |(_, examples)| examples)
}

/// Writes the page of a command and of those below it.
fn page(command: &Command, path: &str, folder: &Path) -> anyhow::Result<()> {
    let source = format!("napier {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(source).manual("Napier");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if shown(command).next().is_some() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut roff = Roff::new();
    if let Some(notes) = command.get_after_help() {
        roff.control("SH", ["NOTES"]).text([roman(notes.to_string())]);
    }
    examples_section(&mut roff, examples(path));
    if path.is_empty() {
        status_section(&mut roff);
        files_section(&mut roff);
    } else {
        let above = path.rsplit_once(' ').map_or(String::new(), |(above, _)| format!("-{}", above.replace(' ', "-")));
        roff.control("SH", ["SEE ALSO"]);
        roff.text([bold(format!("napier{above}")), roman("(1); exit statuses are in "), bold("napier"), roman("(1)")]);
    }
    roff.to_writer(&mut text)?;
    let file = folder.join(man.get_filename());
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    shown(command).try_for_each(|below| page(below, &path_of(path, below), folder))
}

fn examples_section(roff: &mut Roff, examples: &[help::Example]) {
    if examples.is_empty() {
        return;
    }
    roff.control("SH", ["EXAMPLES"]);
    for (line, what) in examples {
        roff.control("PP", []).text([roman(capital(what) + ":")]);
        roff.control("PP", []).control("RS", ["4"]).control("nf", []);
        roff.text([bold(*line)]);
        roff.control("fi", []).control("RE", []);
    }
}

fn status_section(roff: &mut Roff) {
    roff.control("SH", ["EXIT STATUS"]);
    for (status, what) in EXIT_STATUS {
        roff.control("TP", []).text([bold(*status)]).text([roman(*what)]);
    }
}

/// What Napier writes, and which of the environment it reads.
const FILES: &[(&str, &str)] = &[
    (
        "/var/lib/napier",
        "Journals of what is changed on this machine, written before it is changed, or $NAPIER_STATE_DIRECTORY.",
    ),
    (
        "/run/user/UID/napier",
        "Control sockets of running engines: there, in $XDG_RUNTIME_DIR/napier or in /run/napier-UID.",
    ),
    (
        "/run/napier-modes/libnapier_modes-HASH.so",
        "Loaded into programs under fullbusy, and written there by napier; without root in $XDG_RUNTIME_DIR, ~/.cache or $TMPDIR.",
    ),
];

fn files_section(roff: &mut Roff) {
    roff.control("SH", ["FILES"]);
    for (file, what) in FILES {
        roff.control("TP", []).text([bold(*file)]).text([roman(*what)]);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    roff.control("TP", []).text([bold("NO_COLOR"), roman(", "), bold("CLICOLOR"), roman(", "), bold("CLICOLOR_FORCE")]);
    roff.text([roman("Whether to write in colours, unless "), bold("--color"), roman(" says it.")]);
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

const MARKDOWN_HEAD: &str = "# Commands\n\nGenerated by `napier man --markdown` from the definition of the command line, and held to it by a test. \
                             `napier help COMMAND` and `man napier-COMMAND` have the same.\n";

fn markdown_status(text: &mut String) {
    *text += "\n## Exit status\n\n| status | meaning |\n|---|---|\n";
    for (status, what) in EXIT_STATUS {
        *text += &format!("| {status} | {what} |\n");
    }
}

fn markdown(command: &Command, path: &str, text: &mut String) {
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").lines().map(str::trim).collect::<Vec<_>>().join("\n");
    *text += &format!("\n## {}\n\n{}\n\n```text\n{usage}\n```\n", format!("napier {path}").trim_end(), escaped(&about));
    let below: Vec<&Command> = shown(command).collect();
    if !below.is_empty() {
        *text += "\n| command | |\n|---|---|\n";
        for below in below {
            let name = format!("napier {}", path_of(path, below));
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            *text += &format!("| [`{name}`](#{}) | {} |\n", name.replace(' ', "-"), escaped(&about));
        }
    }
    let args: Vec<_> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && arg.get_id() != "help" && (path.is_empty() || arg.get_id() != "color"))
        .collect();
    if !args.is_empty() {
        *text += "\n";
    }
    for arg in args {
        *text += &format!("- `{arg}`: {}\n", words_of(arg));
    }
    let examples = examples(path);
    if !examples.is_empty() {
        *text += "\n```text\n";
        examples.iter().for_each(|(line, what)| *text += &format!("# {what}\n{line}\n"));
        *text += "```\n";
    }
    shown(command).for_each(|below| markdown(below, &path_of(path, below), text));
}

/// What is said of an argument, with its values and its default.
fn words_of(arg: &clap::Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut words = escaped(&help.split_whitespace().collect::<Vec<_>>().join(" "));
    let values = arg.get_possible_values();
    let takes_values = arg.get_num_args().is_some_and(|range| range.takes_values());
    let names: Vec<_> =
        values.iter().filter(|value| !value.is_hide_set()).map(|value| format!("`{}`", value.get_name())).collect();
    if takes_values && !names.is_empty() && !arg.is_hide_possible_values_set() {
        words += &format!("; one of {}", names.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if takes_values && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        words += &format!("; default `{}`", defaults.join(","));
    }
    words
}

/// Text in which no sign means something to markdown.
fn escaped(text: &str) -> String {
    text.replace('<', "&lt;").replace('|', "\\|").replace('*', "\\*")
}

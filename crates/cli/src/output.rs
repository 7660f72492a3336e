//! How a comparison is shown: as a table, for other programs, or as a page.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use napier_lab::html::{HtmlFile, page_of_one, page_of_several};
use napier_lab::report::columns::parse_columns;
use napier_lab::report::differ::{self, SideBySide};
use napier_lab::report::explain::explain;
use napier_lab::report::table::{self, Which, table};
use napier_lab::report::{Report, export, json};

use crate::Usage;

/// Options of what shows a comparison.
#[derive(clap::Args)]
pub(crate) struct Output {
    /// Widest line, in columns, 80 to 160; columns for which there is no room are left out. By default 100, or less on a terminal
    /// that has less
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(80..=160))]
    width: Option<u16>,

    /// Columns of the table, in this order, such as qps,99%lat,cpu; by their heads, or their names in the JSON (--explain)
    #[arg(long, value_name = "LIST", conflicts_with = "wide")]
    columns: Option<String>,

    /// All columns, however wide the terminal is, and how it was measured
    #[arg(long)]
    wide: bool,

    /// Say what each column is, with its name in the JSON, and do nothing else
    #[arg(long)]
    explain: bool,

    /// Print one JSON object instead of the table (docs/json.md)
    #[arg(long)]
    json: bool,

    /// Print CSV instead of the table, a line per row under the names of the JSON; with =FILE beside the table, to that file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STDOUT)]
    csv: Option<PathBuf>,

    /// Print the tables as Markdown instead; with =FILE beside the table, to that file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STDOUT)]
    markdown: Option<PathBuf>,

    /// Write a page to this file as well: figures and tables in one HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The page of a command that has nothing else to choose.
#[derive(clap::Args)]
pub(crate) struct PageFile {
    /// Write a page to this file as well: figures and tables in one HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl PageFile {
    /// Where it goes, if one was asked for; a file that cannot be written is an error before anything runs.
    pub(crate) fn target(&self) -> anyhow::Result<Option<HtmlFile>> {
        page_target(self.html.as_deref())
    }
}

/// Where a page goes, likewise.
pub(crate) fn page_target(html: Option<&Path>) -> anyhow::Result<Option<HtmlFile>> {
    Ok(html.map(|path| checked(path, "--html")).transpose()?)
}

/// A file that an option names and that can be written; one that cannot is bad usage, for nothing was begun.
pub(crate) fn checked(path: &Path, option: &'static str) -> Result<HtmlFile, Usage> {
    // It has said what the system says already.
    HtmlFile::check(path, option).map_err(|error| Usage(anyhow::anyhow!("{error}")))
}

/// Writes the page, if one was asked for.
pub(crate) fn write(target: Option<&HtmlFile>, page: impl FnOnce() -> String) -> anyhow::Result<()> {
    target.map_or(Ok(()), |target| Ok(target.write(&page())?))
}

const STDOUT: &str = "-";

/// How a comparison can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Table,
    Json,
    Csv,
    Markdown,
    Page,
}

/// How it is to be shown, and files that can be written.
pub(crate) struct Shown {
    /// What goes to standard output.
    form: Form,
    width: usize,
    which: Which,
    /// What goes to files.
    files: Vec<(Form, HtmlFile)>,
}

impl Output {
    /// The glossary was asked for, and is said.
    pub(crate) fn explained(&self) -> anyhow::Result<bool> {
        if self.explain {
            say(&explain(width(self.width)))?;
        }
        Ok(self.explain)
    }

    /// Checks what was asked for; a file that cannot be written is an error before anything runs.
    pub(crate) fn shown(&self) -> anyhow::Result<Shown> {
        let to_stdout = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str() == STDOUT);
        let asked =
            [(self.json, Form::Json), (to_stdout(&self.csv), Form::Csv), (to_stdout(&self.markdown), Form::Markdown)];
        let forms: Vec<Form> = asked.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, form)| form).collect();
        let several =
            "--json, --csv and --markdown cannot all go to standard output: give one of them, the others with =FILE";
        let form = (|| {
            ensure!(forms.len() <= 1, several);
            Ok(forms.first().copied().unwrap_or(Form::Table))
        })()
        .map_err(Usage)?;
        let which = match (&self.columns, self.wide) {
            (Some(list), _) => Which::Chosen(parse_columns(list).map_err(|error| Usage(error.into()))?),
            (None, true) => Which::All,
            (None, false) => Which::Fitting,
        };
        let asked = [
            (Form::Csv, &self.csv, "--csv"),
            (Form::Markdown, &self.markdown, "--markdown"),
            (Form::Page, &self.html, "--html"),
        ];
        let mut files = Vec::new();
        for (form, path, option) in asked {
            // A page is never for a terminal, so `-` is a file's name there.
            if let Some(path) = path.as_ref().filter(|path| form == Form::Page || path.as_os_str() != STDOUT) {
                files.push((form, checked(path, option)?));
            }
        }
        Ok(Shown { form, width: width(self.width), which, files })
    }

    /// An option that is about the table of one comparison, if any is given.
    pub(crate) fn of_one(&self) -> Option<&'static str> {
        let given = [(self.columns.is_some(), "--columns"), (self.wide, "--wide")];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, option)| option)
    }
}

impl Shown {
    /// Prints the answer and the tables, and writes the files. `notes` say what the comparison lacks.
    pub(crate) fn end(self, report: &Report, notes: &[String]) -> anyhow::Result<()> {
        let Self { form, width, which, files } = self;
        put(form, files, |form| match form {
            Form::Table => table(report, &which, width),
            Form::Json => json::render(report),
            Form::Csv => export::csv(report),
            Form::Markdown => export::markdown(report, &which),
            Form::Page => page_of_one(report, notes),
        })
    }

    /// Prints what differs and writes the files.
    pub(crate) fn differences(self, all: &SideBySide<'_>) -> anyhow::Result<()> {
        put(self.form, self.files, |form| match form {
            Form::Table => differ::text(all, self.width),
            Form::Json => differ::json(all),
            Form::Csv => differ::csv(all),
            Form::Markdown => differ::markdown(all),
            Form::Page => page_of_several(all),
        })
    }

    /// Whether notes on the comparisons stand in nothing that is printed.
    pub(crate) fn leaves_notes_out(&self) -> bool {
        self.form == Form::Csv
    }
}

/// Prints one form and writes the others. A file that fails does not keep the others from being written.
fn put(printed: Form, files: Vec<(Form, HtmlFile)>, mut made: impl FnMut(Form) -> String) -> anyhow::Result<()> {
    let said = say(&made(printed));
    let written: Vec<_> = files.into_iter().map(|(form, file)| file.write(&made(form))).collect();
    for written in written {
        written?;
    }
    said
}

/// Columns of a page: as asked for, else as many as can be read in one glance, or fewer if the terminal or the environment has fewer.
fn width(asked: Option<u16>) -> usize {
    let from_environment = || std::env::var("COLUMNS").ok()?.parse::<usize>().ok().filter(|columns| *columns > 0);
    let there = || terminal_columns().or_else(from_environment).unwrap_or(table::WIDTH);
    asked.map_or_else(|| there().min(table::WIDTH), usize::from)
}

/// Columns of the terminal that standard output is; `None` if it is none.
fn terminal_columns() -> Option<usize> {
    let (_, columns) = console::Term::stdout().size_checked()?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// Writes text to standard output at once.
pub(crate) fn say(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

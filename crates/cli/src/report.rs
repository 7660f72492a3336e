//! `napier report`: what comparisons that were saved say, and what differs between them.

use std::path::PathBuf;

use napier_lab::report::differ::SideBySide;
use napier_lab::report::read::{Saved, read};

use crate::Usage;
use crate::output::Output;

/// Most comparisons on one page.
const FILES_MAX: usize = 6;

/// Options of `napier report`.
#[derive(clap::Args)]
pub(crate) struct ReportArgs {
    /// What `napier compare --json` printed; several are set side by side, each beside the first, and --json, --csv,
    /// --markdown and --html show what differs
    #[arg(value_name = "FILE", required_unless_present = "explain")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    output: Output,
}

/// Reads the files and shows them.
pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    if args.output.explained()? {
        return Ok(());
    }
    if args.files.len() > FILES_MAX {
        let error = anyhow::anyhow!(
            "{} comparisons on one page are more than can be read: give at most {FILES_MAX}",
            args.files.len()
        );
        return Err(Usage(error).into());
    }
    if let Some(option) = args.output.of_one().filter(|_| args.files.len() > 1) {
        return Err(Usage(anyhow::anyhow!("{option} is for one comparison: omit it, or give one file")).into());
    }
    let mut all = args.files.iter().map(|file| read(file)).collect::<Result<Vec<Saved>, _>>()?;
    distinct(&mut all, &args.files);
    let shown = args.output.shown()?;
    let [first, others @ ..] = all.as_slice() else { unreachable!("the parser asks for a file") };
    let is_one = others.is_empty();
    if is_one || shown.leaves_notes_out() {
        for (saved, file) in all.iter().zip(&args.files) {
            saved.notes.iter().for_each(|note| eprintln!("napier: {}: {note}", file.display()));
        }
    }
    if is_one { shown.end(&first.report, &first.notes) } else { shown.differences(&SideBySide::of(first, others)) }
}

/// Files of the same name in several directories are named by the paths that were given.
fn distinct(all: &mut [Saved], files: &[PathBuf]) {
    let names: Vec<String> = all.iter().map(|saved| saved.name.clone()).collect();
    for (i, saved) in all.iter_mut().enumerate() {
        if names.iter().enumerate().any(|(j, other)| j != i && *other == saved.name) {
            saved.name = files[i].display().to_string();
        }
    }
}

//! `napier report`: what comparisons that were saved say, and what differs between them.

use std::path::PathBuf;

use napier_lab::html::page_of_several;
use napier_lab::report::differ;
use napier_lab::report::read::{Saved, read};

use crate::Usage;
use crate::output::{Output, say};

/// Most comparisons on one page.
const FILES_MAX: usize = 6;

/// Options of `napier report`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What `napier compare --json` printed; several are set side by side, each beside the first
    #[arg(value_name = "FILE", required_unless_present = "explain")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    output: Output,
}

/// Reads the files and shows them.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
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
    let is_one = args.files.len() == 1;
    if let Some(option) = args.output.of_one().filter(|_| !is_one) {
        return Err(Usage(anyhow::anyhow!("{option} is for one comparison: omit it, or give one file")).into());
    }
    let mut all = args.files.iter().map(|file| read(file)).collect::<Result<Vec<Saved>, _>>()?;
    distinct(&mut all, &args.files);
    if let [only] = all.as_slice() {
        let shown = args.output.shown()?.or_page();
        only.notes.iter().for_each(|note| eprintln!("napier: {}: {note}", args.files[0].display()));
        return shown.end(&only.report, &only.notes);
    }
    match args.output.html()? {
        Some(target) => Ok(target.write(&page_of_several(&all))?),
        None => say(&differ::text(&all, args.output.width())),
    }
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

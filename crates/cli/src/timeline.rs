//! `napier sim timeline`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use napier_lab::modes::{self, Mode};
use napier_research::timeline::{self, Timeline};

/// Options of `napier sim timeline`.
#[derive(clap::Args)]
pub(crate) struct TimelineArgs {
    /// Modes; several need --out or --table
    #[arg(value_name = "LIST", default_value = timeline::DRAWN)]
    modes: String,

    /// Write the pictures to DIR/MODE.svg, and print the table
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print what the pictures show as a table, in Markdown
    #[arg(long, conflicts_with = "out")]
    table: bool,
}

/// Draws.
pub(crate) fn run(args: &TimelineArgs) -> anyhow::Result<()> {
    let usage = |error: anyhow::Error| anyhow::Error::from(crate::Usage(error));
    let modes = modes::parse_list(&args.modes).map_err(|error| usage(error.into()))?;
    let picture = |mode: Mode| -> anyhow::Result<String> {
        Ok(timeline::svg(&Timeline::of(mode).map_err(|error| usage(error.into()))?))
    };
    let mut out = std::io::stdout().lock();
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
        for mode in &modes {
            let file = folder.join(format!("{mode}.svg"));
            std::fs::write(&file, picture(*mode)?).with_context(|| format!("{}: cannot be written", file.display()))?;
        }
    } else if !args.table {
        let [mode] = modes[..] else {
            return Err(usage(anyhow!("{} modes make {0} pictures: give --out DIR, or --table", modes.len())));
        };
        return Ok(out.write_all(picture(mode)?.as_bytes())?);
    }
    let table = timeline::table(&modes).map_err(|error| usage(error.into()))?;
    Ok(out.write_all(table.as_bytes())?)
}

//! Raw histograms as HdrHistogram logs (format 1.2 or later of the log, V2 compressed histograms), one file per cell,
//! readable by the tools of the HdrHistogram project.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};

use crate::loads::Load;
use crate::stats::Recorder;
use crate::subject::Subject;

/// A log could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}; give --out a directory that can be written", path = path.display())]
pub struct HdrLogError {
    /// The file or directory.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Writes the histograms of a row, all slices together that count, to `dir/<mode>-<load>.hlog` (`kernel-<mode>-...` for the kernel) and returns
/// that path. Values are in ns, the column of the maximum in us; the two lines have the tags `intended` and `actual`. The directory is made if it is
/// not there; a file of that name is replaced.
///
/// # Errors
/// [`HdrLogError`] names the path and what the system said.
pub fn write(
    dir: &Path,
    subject: Subject,
    load: Load,
    recorder: &Recorder,
    span: Duration,
) -> Result<PathBuf, HdrLogError> {
    fs::create_dir_all(dir).map_err(at(dir))?;
    let path = dir.join(file_name(subject, load));
    let mut file = BufWriter::new(File::create(&path).map_err(at(&path))?);
    write_log(&mut file, (subject, load), recorder, span).and_then(|()| file.flush()).map_err(at(&path))?;
    Ok(path)
}

/// Finds out whether logs can be written to a directory, which is made if it is not there.
///
/// # Errors
/// [`HdrLogError`] names the path and what the system said.
pub fn check(dir: &Path) -> Result<(), HdrLogError> {
    fs::create_dir_all(dir).map_err(at(dir))?;
    let probe = dir.join(format!(".napier.{}", std::process::id()));
    File::create(&probe).map_err(at(dir))?;
    fs::remove_file(&probe).map_err(at(&probe))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> HdrLogError {
    let path = path.to_owned();
    move |source| HdrLogError { path, source }
}

/// Name of the file for a row.
pub fn file_name(subject: Subject, load: Load) -> String {
    let name = format!("{subject}-{}.hlog", load.to_string().to_lowercase());
    // The backend is a part of the name, not a directory.
    name.replace('/', "-")
}

fn write_log(
    out: &mut impl Write,
    (subject, load): (Subject, Load),
    recorder: &Recorder,
    span: Duration,
) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(&format!("napier compare: mode {subject}, load {load}"))
        .add_comment("values in ns; Interval_Max in us")
        .with_max_value_divisor(1000.0)
        .begin_log_with(out, &mut serializer)?;
    for (tag, histogram) in [("intended", recorder.intended()), ("actual", recorder.actual())] {
        let tag = Tag::new(tag).expect("no space, comma or line end in it");
        log.write_histogram(histogram, Duration::ZERO, span, Some(tag)).map_err(|error| match error {
            IntervalLogWriterError::IoError(error) => error,
            other => io::Error::other(format!("{other:?}")),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

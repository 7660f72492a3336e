//! Results for people and for programs.

use napier_scenario::NotLookedAt;
use serde::{Deserialize, Serialize};

use super::{FileOutcome, FileResult};

/// Columns that a difference may use.
const WIDTH_CHARS: usize = 120;
/// What stands before each line below a failed file.
const INDENT: &str = "    ";

/// How many files came out how.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// All.
    pub files: usize,
    /// As expected.
    pub passed: usize,
    /// Not as expected.
    pub failed: usize,
    /// Not run.
    pub refused: usize,
    /// Expectations of files that were run on a live kernel and were not looked at.
    pub not_looked_at: usize,
    /// Files that were run on a live kernel without comparing times.
    pub without_times: usize,
}

impl Totals {
    /// Counts.
    #[must_use]
    pub fn of(results: &[FileResult]) -> Self {
        let mut totals = Self { files: results.len(), ..Self::default() };
        for result in results {
            totals.not_looked_at += result.not_looked_at.total();
            totals.without_times += usize::from(result.carried_out.is_some_and(|carried_out| !carried_out.times));
            match result.outcome {
                FileOutcome::Pass => totals.passed += 1,
                FileOutcome::Fail { .. } => totals.failed += 1,
                FileOutcome::Refused(_) => totals.refused += 1,
            }
        }
        totals
    }

    /// The last line of the output.
    #[must_use]
    pub fn line(&self, executor: &str) -> String {
        let files = if self.files == 1 { "file" } else { "files" };
        let hidden = match self.not_looked_at {
            0 => String::new(),
            hidden => format!("; {hidden} expectations not looked at"),
        };
        let order = match self.without_times {
            0 => String::new(),
            files => format!("; order and counts alone in {files}"),
        };
        format!(
            "{} {files}, executor {executor}: {} passed, {} failed, {} refused{hidden}{order}\n",
            self.files, self.passed, self.failed, self.refused
        )
    }
}

/// One file for people: a line, and below a failure what differs.
#[must_use]
pub fn line(result: &FileResult) -> String {
    let file = result.file.display();
    match &result.outcome {
        FileOutcome::Pass => format!("pass     {file}{}{}\n", hidden(result), slowly(result)),
        FileOutcome::Refused(refused) => format!("refused  {file}: {refused}\n"),
        FileOutcome::Fail { reason, difference } => {
            let mut text = format!("fail     {file}{}{}\n", hidden(result), slowly(result));
            let mut below = |line: &str| {
                text.push_str(INDENT);
                text.push_str(line);
                text.push('\n');
            };
            match difference {
                // The reason is the first line of a difference, unless there is a weightier one.
                Some(difference) if difference.reason == *reason => {}
                _ => below(reason),
            }
            let rendered = difference.as_ref().map(|difference| difference.render(WIDTH_CHARS - INDENT.len()));
            rendered.iter().flat_map(|text| text.lines()).for_each(below);
            text
        }
    }
}

/// How much more slowly than it is written it was carried out, if it was.
fn slowly(result: &FileResult) -> String {
    let stretch = result.carried_out.map(|carried_out| carried_out.stretch).filter(|stretch| *stretch > 1);
    stretch.map_or_else(String::new, |stretch| format!(" ({stretch} times as slowly)"))
}

/// What was not looked at, in words, if there is any.
fn hidden(result: &FileResult) -> String {
    let NotLookedAt { events, checks, counters } = result.not_looked_at;
    let parts = [(events, "event"), (checks, "check"), (counters, "counter")];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> =
        parts.map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" })).collect();
    if parts.is_empty() { String::new() } else { format!(" (not looked at: {})", parts.join(", ")) }
}

/// The object that `--json` prints; `docs/json.md` documents it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JsonConformance {
    /// Commit of the binary.
    pub commit: String,
    /// How many files came out how.
    pub totals: JsonTotals,
    /// One per file.
    pub results: Vec<JsonResult>,
}

/// How many files came out how.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named for the results that they count")]
pub struct JsonTotals {
    pub files: usize,
    pub pass: usize,
    pub fail: usize,
    pub refused: usize,
    #[serde(default)]
    pub not_looked_at: usize,
    #[serde(default)]
    pub without_times: usize,
}

/// One file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JsonResult {
    /// Its path as it was found.
    pub file: String,
    /// What ran it.
    pub executor: String,
    /// `pass`, `fail` or `refused`.
    pub result: String,
    /// Why it failed or was refused, or null.
    pub reason: Option<String>,
    /// The expected events, a line each, if events or counters differ; else null.
    pub expected: Option<Vec<String>>,
    /// Those that were seen, likewise.
    pub seen: Option<Vec<String>>,
    /// What the file expects and a live kernel does not show.
    #[serde(default)]
    pub not_looked_at: JsonHidden,
    /// By how much its times were multiplied, if it was run on a live kernel; else null.
    #[serde(default)]
    pub stretch: Option<u32>,
    /// Whether times were compared there; else null.
    #[serde(default)]
    pub times: Option<bool>,
}

/// What was not looked at, by what it is; none of it has passed.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named for what they count")]
pub struct JsonHidden {
    pub events: usize,
    pub checks: usize,
    pub counters: usize,
}

/// The results of a program built from `commit` as JSON, indented, with a newline at its end.
#[must_use]
pub fn json(results: &[FileResult], commit: String) -> String {
    let totals = Totals::of(results);
    let object = JsonConformance {
        commit,
        totals: JsonTotals {
            files: totals.files,
            pass: totals.passed,
            fail: totals.failed,
            refused: totals.refused,
            not_looked_at: totals.not_looked_at,
            without_times: totals.without_times,
        },
        results: results.iter().map(JsonResult::from).collect(),
    };
    serde_json::to_string_pretty(&object).expect("strings, numbers and lists always serialize") + "\n"
}

impl From<&FileResult> for JsonResult {
    fn from(result: &FileResult) -> Self {
        let (word, reason, difference) = match &result.outcome {
            FileOutcome::Pass => ("pass", None, None),
            FileOutcome::Fail { reason, difference } => ("fail", Some(reason.clone()), difference.as_ref()),
            FileOutcome::Refused(refused) => ("refused", Some(refused.why.clone()), None),
        };
        Self {
            file: result.file.display().to_string(),
            executor: result.executor.to_owned(),
            result: word.to_owned(),
            reason,
            expected: difference.map(|difference| difference.expected.clone()),
            seen: difference.map(|difference| difference.seen.clone()),
            not_looked_at: {
                let NotLookedAt { events, checks, counters } = result.not_looked_at;
                JsonHidden { events, checks, counters }
            },
            stretch: result.carried_out.map(|carried_out| carried_out.stretch),
            times: result.carried_out.map(|carried_out| carried_out.times),
        }
    }
}

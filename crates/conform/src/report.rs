//! Results for people and for programs.

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
}

impl Totals {
    /// Counts.
    #[must_use]
    pub fn of(results: &[FileResult]) -> Self {
        let mut totals = Self { files: results.len(), ..Self::default() };
        for result in results {
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
        format!(
            "{} {files}, executor {executor}: {} passed, {} failed, {} refused\n",
            self.files, self.passed, self.failed, self.refused
        )
    }
}

/// One file for people: a line, and below a failure what differs.
#[must_use]
pub fn line(result: &FileResult) -> String {
    let file = result.file.display();
    match &result.outcome {
        FileOutcome::Pass => format!("pass     {file}\n"),
        FileOutcome::Refused(refused) => format!("refused  {file}: {refused}\n"),
        FileOutcome::Fail { reason, difference } => {
            let mut text = format!("fail     {file}\n");
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
}

/// The results of a program built from `commit` as JSON, indented, with a newline at its end.
#[must_use]
pub fn json(results: &[FileResult], commit: String) -> String {
    let totals = Totals::of(results);
    let object = JsonConformance {
        commit,
        totals: JsonTotals { files: totals.files, pass: totals.passed, fail: totals.failed, refused: totals.refused },
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
        }
    }
}

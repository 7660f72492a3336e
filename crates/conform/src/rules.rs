//! Which rule has which scenario.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use napier_scenario::Scenario;
use serde::Deserialize;

use super::files::{FilesError, RULES_FILE, find};
use super::read;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
pub enum CoverageError {
    /// The folder holds no scenarios.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The list of rules cannot be read.
    #[error("{}: {why}", path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Scenarios that cannot be read, or that name rules that are not in the list; a line each.
    #[error("{}", wrong.join("\n"))]
    Scenarios {
        /// What is wrong with which.
        wrong: Vec<String>,
    },
}

/// `rules.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rule: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    id: String,
    text: String,
    source: String,
    checked: Option<Checked>,
}

/// How a rule is checked beside the scenarios that name it.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Checked {
    /// After each step of every run.
    Always,
}

/// The page that says which scenarios cover each rule of `FOLDER/rules.toml`, as markdown.
///
/// # Errors
/// If anything cannot be read, or a scenario names a rule that is not in the list.
pub fn coverage(folder: &Path) -> Result<String, CoverageError> {
    let rules = rules(&folder.join(RULES_FILE))?;
    let mut covered: Vec<Vec<String>> = vec![Vec::new(); rules.len()];
    let mut wrong = Vec::new();
    for file in find(&[folder.to_owned()])? {
        let scenario = match read(&file) {
            Ok(scenario) => scenario,
            Err(why) => {
                wrong.push(why);
                continue;
            }
        };
        let place = place(folder, &file);
        if scenario.rules.is_empty() {
            wrong.push(format!("{}: names no rule; add rules = [...]", file.display()));
        }
        for id in &scenario.rules {
            match rules.iter().position(|rule| rule.id == *id) {
                Some(at) => covered[at].push(link(&scenario, &place)),
                None => wrong.push(format!("{}: rule {id:?} is not in {RULES_FILE}", file.display())),
            }
        }
    }
    if wrong.is_empty() { Ok(page(folder, &rules, &covered)) } else { Err(CoverageError::Scenarios { wrong }) }
}

fn rules(path: &Path) -> Result<Vec<Rule>, CoverageError> {
    let error = |why: String| CoverageError::Rules { path: path.to_owned(), why };
    let text = napier_linux::given::read_text(path, crate::FILE_BYTES_MAX).map_err(|found| error(found.to_string()))?;
    let rules = toml::from_str::<Rules>(&text).map_err(|found| error(found.to_string().trim_end().to_owned()))?.rule;
    for (at, rule) in rules.iter().enumerate() {
        if rules[..at].iter().any(|other| other.id == rule.id) {
            return Err(error(format!("the rule {:?} is there twice", rule.id)));
        }
    }
    Ok(rules)
}

/// The file below the folder, with `/` between its parts.
fn place(folder: &Path, file: &Path) -> String {
    let below = file.strip_prefix(folder).unwrap_or(file);
    below.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

fn link(scenario: &Scenario, place: &str) -> String {
    let name = place.strip_suffix(".toml").unwrap_or(place);
    let title = scenario.title.replace(['\n', '"'], " ");
    format!("[{}](FOLDER/{place} \"{}\")", escape(name), escape(&title))
}

/// Text in a cell of a table.
fn escape(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

fn page(folder: &Path, rules: &[Rule], covered: &[Vec<String>]) -> String {
    let name = folder.file_name().map_or_else(|| "conformance".into(), |name| name.to_string_lossy());
    let always = rules.iter().zip(covered).filter(|(rule, files)| files.is_empty() && rule.checked.is_some()).count();
    let without = || rules.iter().zip(covered).filter(|(rule, files)| files.is_empty() && rule.checked.is_none());
    let none = without().count();
    let mut page = format!(
        "# Conformance\n\nWhich scenario shows that a rule holds. Made by `napier conform --coverage {name}`; \
         [scenarios.md](scenarios.md) describes the files, and `napier conform {name}` runs them.\n\n\
         {} rules: {} with a scenario, {always} checked in every run, {none} without.\n\n\
         | rule | what holds | source | scenarios |\n|---|---|---|---|\n",
        rules.len(),
        rules.len() - always - none,
    );
    for (rule, files) in rules.iter().zip(covered) {
        let (id, text, source) = (escape(&rule.id), escape(&rule.text), escape(&rule.source));
        let every = rule.checked.as_ref().map(|Checked::Always| "every, after each step".to_owned());
        let cell: Vec<String> = every.into_iter().chain(files.iter().cloned()).collect();
        let cell = if cell.is_empty() { "none".to_owned() } else { cell.join(", ") };
        let cell = cell.replace("(FOLDER/", &format!("(../{name}/"));
        writeln!(page, "| {id} | {text} | {source} | {cell} |").expect("a string takes everything");
    }
    page.push_str("\n## Rules without a scenario\n\n");
    if none == 0 {
        page.push_str("None.\n");
    }
    for (rule, _) in without() {
        writeln!(page, "- {}: {}", rule.id, rule.text.replace('\n', " ")).expect("a string takes everything");
    }
    page
}

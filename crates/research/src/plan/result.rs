//! Result files: cells of a plan that are done, with all that it takes to go on or to join them with others.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::figures::name_of;
use super::{Plan, PlanCell, PlanLoad, PlanMode, Predicted};

/// Largest file of results.
const BYTES_MAX: u64 = 256 << 20;

/// A file of results.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Results {
    /// How the plan was asked for.
    plan: String,
    /// What stood in its file.
    plan_text: String,
    /// What stood in the machine's.
    machine_text: String,
    cells: Vec<ResultCell>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct ResultCell {
    mode: String,
    load: String,
    predicted: Option<BTreeMap<String, f64>>,
    failed: Option<String>,
}

/// Results cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A file cannot be read or written.
    #[error("{file}: {error}")]
    Io {
        /// Which.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// A file is no result of ours.
    #[error("{file} is no file of results: {why}")]
    NotOurs {
        /// Which.
        file: String,
        /// Why.
        why: String,
    },
    /// Files belong to different plans.
    #[error("{file} is of another plan or machine than {first}: their results cannot be joined")]
    OfAnother {
        /// Which.
        file: String,
        /// The first one.
        first: String,
    },
    /// Cells are missing.
    #[error("{count} of {all} cells are missing: `napier sim plan {plan} --cells {cells} --out FILE` runs them")]
    Missing {
        /// How many.
        count: usize,
        /// Of how many.
        all: usize,
        /// The plan.
        plan: String,
        /// Which, as `--cells` takes them.
        cells: String,
    },
}

/// What stands in the machine's file, if the plan has one.
fn machine_text(plan: &Plan) -> &str {
    plan.machine.as_ref().map_or("", |machine| &machine.text)
}

impl Results {
    /// Cells of a plan that was asked for as `name`.
    #[must_use]
    pub fn new(name: &str, plan: &Plan, cells: &[PlanCell]) -> Self {
        let named = |predicted: &Predicted| predicted.iter().map(|(name, is)| ((*name).to_owned(), *is)).collect();
        let cell = |cell: &PlanCell| ResultCell {
            mode: cell.mode.name.clone(),
            load: cell.load.to_string(),
            predicted: cell.predicted.as_ref().ok().map(named),
            failed: cell.predicted.as_ref().err().cloned(),
        };
        Self {
            plan: name.to_owned(),
            plan_text: plan.text.clone(),
            machine_text: machine_text(plan).to_owned(),
            cells: cells.iter().map(cell).collect(),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self, ResultsError> {
        let file = path.display().to_string();
        let text = napier_linux::given::read_text(path, BYTES_MAX)
            .map_err(|error| ResultsError::Io { file: file.clone(), error })?;
        serde_json::from_str(&text).map_err(|error| ResultsError::NotOurs { file, why: error.to_string() })
    }

    /// Writes a file; a reader meanwhile finds the one before.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ResultsError> {
        let failed = |error| ResultsError::Io { file: path.display().to_string(), error };
        let text = serde_json::to_string(self).expect("numbers and texts are JSON");
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        std::fs::write(&beside, text + "\n").map_err(failed)?;
        std::fs::rename(&beside, path).map_err(failed)
    }

    /// The plan that they are of.
    ///
    /// # Errors
    /// The text in the file is no plan.
    pub fn plan(&self, path: &Path) -> Result<Plan, ResultsError> {
        Plan::with_machine(&self.plan_text, &self.plan, &self.machine_text)
            .map_err(|error| ResultsError::NotOurs { file: path.display().to_string(), why: error.to_string() })
    }

    /// Whether both are of one plan and machine.
    #[must_use]
    pub fn fits(&self, plan: &Plan) -> bool {
        self.plan_text == plan.text && self.machine_text == machine_text(plan)
    }

    /// The cells of a plan that are here, in the plan's order.
    #[must_use]
    pub fn cells(&self, plan: &Plan) -> Vec<PlanCell> {
        let found = |(load, mode): (PlanLoad, &PlanMode)| {
            let at = load.to_string();
            let cell = self.cells.iter().find(|cell| cell.mode == mode.name && cell.load == at)?;
            let failed = || cell.failed.clone().unwrap_or_else(|| "nothing was predicted".to_owned());
            let kept =
                |all: &BTreeMap<String, f64>| all.iter().filter_map(|(name, is)| Some((name_of(name)?, *is))).collect();
            let predicted = cell.predicted.as_ref().map(kept).ok_or_else(failed);
            Some(PlanCell { load, mode: mode.clone(), predicted })
        };
        plan.cells().filter_map(found).collect()
    }
}

/// Joins files into the whole of their plan.
///
/// # Errors
/// Files do not belong together, or cells are missing.
pub fn merge(files: &[std::path::PathBuf]) -> Result<(Plan, Vec<PlanCell>), ResultsError> {
    let mut all: Vec<Results> = Vec::new();
    for file in files {
        let results = Results::read(file)?;
        if let Some(first) = all.first()
            && (first.plan_text != results.plan_text || first.machine_text != results.machine_text)
        {
            let (file, first) = (file.display().to_string(), files[0].display().to_string());
            return Err(ResultsError::OfAnother { file, first });
        }
        all.push(results);
    }
    let mut whole = all.first().expect("the command asks for a file").clone();
    whole.cells = all.into_iter().flat_map(|results| results.cells).collect();
    let plan = whole.plan(&files[0])?;
    let cells = whole.cells(&plan);
    let is_there = |(load, mode): &(PlanLoad, &PlanMode)| {
        cells.iter().any(|cell| cell.load == *load && cell.mode.name == mode.name)
    };
    let missing = plan.cells().filter(|cell| !is_there(cell)).map(|(load, mode)| PlanCell::name(load, mode));
    let missing: Vec<String> = missing.collect();
    if !missing.is_empty() {
        let (count, all) = (missing.len(), plan.cells().count());
        return Err(ResultsError::Missing { count, all, plan: whole.plan, cells: missing.join(",") });
    }
    Ok((plan, cells))
}

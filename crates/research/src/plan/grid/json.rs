//! The same for programs (docs/json.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::table::{errors_of, pairs};
use super::{Grid, GridCell};
use crate::plan::json::{JsonErrors, JsonParameter};
use crate::plan::score::error;

/// The whole.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonGrid {
    pub title: String,
    pub kind: String,
    pub machine: String,
    pub cells: Vec<JsonGridCell>,
    pub fitted: Option<JsonErrors>,
    pub checked: Option<JsonErrors>,
    pub parameters: Vec<JsonParameter>,
}

/// One cell.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonGridCell {
    pub mode: String,
    pub load: String,
    pub backend: String,
    pub fitted: bool,
    pub failed: Option<String>,
    pub predicted: BTreeMap<String, f64>,
    pub published: BTreeMap<String, f64>,
    pub error_pct: BTreeMap<String, f64>,
}

/// A plan's cells, and how near they are.
#[must_use]
pub fn grid_json(grid: &Grid, cells: &[GridCell]) -> JsonGrid {
    let errors = |fitted: bool| errors_of(grid, cells, fitted).0.map(JsonErrors::from);
    JsonGrid {
        title: grid.title.clone(),
        kind: grid.kind.name().to_owned(),
        machine: grid.machine_title(),
        cells: cells.iter().map(|cell| json_cell(grid, cell)).collect(),
        fitted: errors(true),
        checked: errors(false),
        parameters: grid.machine().map_or(&[][..], |machine| &machine.parameters).iter().map(Into::into).collect(),
    }
}

fn json_cell(grid: &Grid, cell: &GridCell) -> JsonGridCell {
    let named = |values: Vec<(&'static str, f64)>| values.into_iter().map(|(name, value)| (name.to_owned(), value));
    let pairs = pairs(grid, cell);
    JsonGridCell {
        mode: cell.mode.to_owned(),
        load: cell.load.to_string(),
        backend: "sim".to_owned(),
        fitted: grid.is_fitted(cell),
        failed: cell.predicted.as_ref().err().cloned(),
        predicted: named(cell.predicted.clone().unwrap_or_default()).collect(),
        published: named(pairs.iter().map(|(name, was, _)| (*name, *was)).collect()).collect(),
        error_pct: named(pairs.iter().map(|(name, was, is)| (*name, error(*was, *is) * 100.0)).collect()).collect(),
    }
}

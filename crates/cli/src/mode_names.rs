//! A mode as a value: parsed by the lab, completed by shells.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use napier_lab::modes::{self, Mode, NAMES};

/// A mode, whose name may have a number in it; shells complete those of the documents.
#[derive(Clone)]
pub(crate) struct ModeNames;

impl TypedValueParser for ModeNames {
    type Value = Mode;

    fn parse_ref(&self, command: &clap::Command, arg: Option<&clap::Arg>, value: &OsStr) -> Result<Mode, clap::Error> {
        modes::parse.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(NAMES.iter().map(|name| PossibleValue::new(name.replace('X', "20")))))
    }
}

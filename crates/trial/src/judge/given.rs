//! Judges as a person names them.

use super::cpu_time::CpuTime;
use super::{Judge, JudgeError};
use napier_linux::process::Roots;

/// What is judged: a program that runs.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its processes.
    pub roots: Roots,
}

/// Kinds of judges, for messages.
pub const KINDS: &str = "cpu";

/// The judge that is named.
///
/// # Errors
/// There is no such judge, or it cannot begin here; the message says what to give instead.
pub fn named(given: &str, service: &Service) -> Result<Box<dyn Judge>, JudgeError> {
    match given {
        "cpu" => Ok(Box::new(CpuTime::new(service))),
        _ => Err(JudgeError { judge: given.to_owned(), why: format!("it is no judge: give one of {KINDS}") }),
    }
}

/// Those that judge if none is named; the first one decides.
///
/// # Errors
/// Nothing of this service can be seen from here.
pub fn usual(service: &Service) -> Result<Vec<Box<dyn Judge>>, JudgeError> {
    Ok(vec![named("cpu", service)?])
}

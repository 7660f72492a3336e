//! Judges as a person names them.
//!
//! | text | judge |
//! |---|---|
//! | `sockets` | what the kernel knows of the service's TCP connections |
//! | `cpu` | CPU of the service and of the machine, and how long the service waits for one |
//! | `cmd:COMMAND` | a command that prints a number each time it is run |
//! | `prom:URL QUERY` | a query that a Prometheus server answers with one number |
//! | `file:PATH`, `file:PATH:COLUMN`, `file:PATH:UNIT` | numbers of the lines that are added to a file |
//!
//! `NAME=` before it names the figure of a command or query, for bounds; `more:` before it says that more of it is better.

use napier_linux::process::Roots;

use super::command::command;
use super::cpu_time::cpu_time;
use super::file::file;
use super::prometheus::prometheus;
use super::sockets::sockets;
use super::{Better, Judge, JudgeError};

/// What is judged: a program that runs.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its processes.
    pub roots: Roots,
}

/// Kinds of judges, for messages.
pub const KINDS: &str = "sockets, cpu, 'cmd:COMMAND', 'prom:URL QUERY', 'file:PATH'";

/// The judge that is named. A command or a query is tried once.
///
/// # Errors
/// There is no such judge, or it cannot begin here; the message says what to give instead.
pub fn named(given: &str, service: &Service) -> Result<Box<dyn Judge>, JudgeError> {
    let JudgeName { name, better, kind, rest } = JudgeName::parse(given);
    let no_name = |judge: Result<Box<dyn Judge>, JudgeError>| match name {
        Some(_) => Err(wrong(given, "only the figure of cmd: and prom: can be named")),
        None => judge,
    };
    match (kind, rest) {
        ("cmd", Some(text)) if !text.trim().is_empty() => command(given, text, name, better),
        ("prom", Some(text)) => prometheus(given, text, name, better),
        ("file", Some(text)) if !text.is_empty() => no_name(file(given, text, better)),
        ("sockets", None) => no_name(sockets(&service.roots)),
        ("cpu", None) => no_name(cpu_time(&service.roots)),
        _ => Err(wrong(given, &format!("it is no judge: give one of {KINDS}"))),
    }
}

/// Those that judge if none is named; the first one decides.
///
/// # Errors
/// Nothing of this service can be seen from here, or it has no TCP connections: then what is to be judged has to be said.
pub fn usual(service: &Service) -> Result<Vec<Box<dyn Judge>>, JudgeError> {
    Ok(vec![sockets(&service.roots)?, cpu_time(&service.roots)?])
}

fn wrong(given: &str, why: &str) -> JudgeError {
    JudgeError { judge: given.to_owned(), why: why.to_owned() }
}

/// The parts of a judge's text.
struct JudgeName<'a> {
    name: Option<&'a str>,
    better: Better,
    kind: &'a str,
    rest: Option<&'a str>,
}

impl<'a> JudgeName<'a> {
    fn parse(given: &'a str) -> Self {
        let is_name = |name: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain)
        };
        let (name, text) = match given.split_once('=') {
            Some((name, text)) if is_name(name) => (Some(name), text),
            _ => (None, given),
        };
        let (better, text) = text.strip_prefix("more:").map_or((Better::Less, text), |text| (Better::More, text));
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        Self { name, better, kind, rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(given: &str) -> Result<Vec<String>, String> {
        let service = Service { roots: Roots::Process(std::process::id()) };
        let found = named(given, &service).map_err(|error| error.to_string())?;
        Ok(found.figures().iter().map(|figure| format!("{figure} {:?}", figure.better)).collect())
    }

    #[test]
    fn judges_are_found_by_what_they_are_called() {
        assert_eq!(figures("cpu"), Ok(["cpu Less", "machine-cpu Less", "run-wait Less"].map(str::to_owned).into()));
        assert_eq!(figures("cmd:echo 1"), Ok(vec!["echo Less".to_owned()]));
        assert_eq!(figures("p99=cmd:echo x=1 >&2; echo 2"), Ok(vec!["p99 Less".to_owned()]));
        assert_eq!(figures("rps=more:cmd:echo 2"), Ok(vec!["rps More".to_owned()]));
    }

    #[test]
    fn what_is_no_judge_is_told() {
        for (given, told) in [
            ("", "it is no judge: give one of sockets, cpu, 'cmd:COMMAND'"),
            ("cpu:x", "it is no judge"),
            ("cmd:", "it is no judge"),
            ("file:", "it is no judge"),
            ("latency", "it is no judge"),
            ("x=cpu", "only the figure of cmd: and prom: can be named"),
            ("cmd:echo fast", "it printed `fast`"),
            ("prom:http://127.0.0.1:9", "it has no query"),
            ("file:/no/such/file", "No such file"),
        ] {
            let why = figures(given).expect_err(given);
            assert!(why.starts_with(&format!("{given}: ")) && why.contains(told), "{why}");
        }
    }

    #[test]
    fn a_service_without_tcp_is_told_what_to_give() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is there");
        let service = Service { roots: Roots::Process(child.id()) };
        let why = usual(&service).map(|judges| judges.len()).expect_err("it has no sockets").to_string();
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert!(why.contains("'cmd:COMMAND'") || why.contains("sock_diag"), "{why}");
    }
}

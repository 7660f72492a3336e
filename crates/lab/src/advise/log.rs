//! Requests from a log: a line for each, with when it came, on which connection, and what it took the program.
//!
//! ```text
//! # time in us, connection, time of service in us
//! 0,10.0.0.7:40112,3.5
//! 12.25,10.0.0.9:51820,4
//! ```

use std::collections::HashMap;

use napier_core::time::Span;
use napier_kv::service::Service;

/// Requests that are kept.
const REQUESTS_MAX: usize = 8_000_000;
/// The longest log, in us: a day.
const TIME_US_MAX: f64 = 86_400e6;

/// Requests of a log.
#[derive(Clone, PartialEq, Debug)]
pub struct LoggedRequests {
    /// When each came since the first, and its connection.
    pub requests: Vec<(Span, u32)>,
    /// From the first to the last.
    pub length: Span,
    /// What they took the program, if the log says so; as a distribution, for which request took how long is not kept.
    pub service: Option<Service>,
}

/// Why there are none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LogError {
    /// A line is no request.
    #[error(
        "line {line}: `{text}` is no request; write the time in us, the connection and, if it is known, the time of service in us, such as \
         `12.5,10.0.0.7:40112,3.5`"
    )]
    Line {
        /// From 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// Some lines have a time of service and others have none.
    #[error("line {line} has {} time of service, and the first has {}: give it in all lines or in none", some(*.has), some(!*.has))]
    Uneven {
        /// From 1.
        line: usize,
        /// It has one.
        has: bool,
    },
    /// Nothing is in it.
    #[error("it has no requests")]
    Empty,
    /// Times are further apart than a day, or too many.
    #[error("it is longer than a day, or has more than {REQUESTS_MAX} requests: give a part of it")]
    TooLong,
}

fn some(has: bool) -> &'static str {
    if has { "a" } else { "no" }
}

/// One line, of which the times are in us.
struct Line<'a> {
    at_us: f64,
    connection: &'a str,
    service_us: Option<f64>,
}

impl<'a> Line<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let us = |text: &str| text.trim().parse::<f64>().ok().filter(|us| us.is_finite() && *us >= 0.0);
        let words: Vec<&str> = text.split(',').collect();
        let (at, connection, service) = match words[..] {
            [at, connection] => (at, connection, None),
            [at, connection, service] => (at, connection, Some(us(service).filter(|us| *us <= 1e6)?)),
            _ => return None,
        };
        Some(Self { at_us: us(at)?, connection: connection.trim(), service_us: service })
            .filter(|line| !line.connection.is_empty())
    }
}

/// Reads a log. Its lines may be in any order; a first line of names, empty lines, and what is behind `#` are left aside.
///
/// # Errors
/// [`LogError`], with the line.
pub fn requests(text: &str) -> Result<LoggedRequests, LogError> {
    let (mut numbers, mut all, mut services) = (HashMap::new(), Vec::new(), Vec::new());
    let mut has_service = None;
    for (at, whole) in text.lines().enumerate() {
        let text = whole.split('#').next().unwrap_or_default().trim();
        let is_head = all.is_empty() && text.starts_with(|first: char| first.is_ascii_alphabetic());
        if text.is_empty() || is_head {
            continue;
        }
        let line = at + 1;
        let Line { at_us, connection, service_us } =
            Line::of(text).ok_or_else(|| LogError::Line { line, text: text.to_owned() })?;
        let has = service_us.is_some();
        if *has_service.get_or_insert(has) != has {
            return Err(LogError::Uneven { line, has });
        }
        services.extend(service_us.map(|us| us * 1000.0));
        let next = numbers.len() as u32;
        all.push((at_us, *numbers.entry(connection).or_insert(next)));
        if all.len() > REQUESTS_MAX {
            return Err(LogError::TooLong);
        }
    }
    let first_us = all.iter().map(|(at_us, _)| *at_us).fold(f64::INFINITY, f64::min);
    let last_us = all.iter().map(|(at_us, _)| *at_us).fold(0.0, f64::max);
    if all.is_empty() {
        return Err(LogError::Empty);
    }
    if last_us - first_us > TIME_US_MAX {
        return Err(LogError::TooLong);
    }
    let since = |at_us: f64| Span::from_ns(((at_us - first_us) * 1000.0).round() as u64);
    let requests = all.iter().map(|(at_us, connection)| (since(*at_us), *connection)).collect();
    let service = Service::of_times_ns("as in the log", services);
    Ok(LoggedRequests { requests, length: since(last_us), service })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_times_connections_and_service() {
        let text = "time_us,connection,service_us\n# a comment\n1000,b,4\n\n1000.5,a,2 # behind\n1002,b,6\n";
        let log = requests(text).unwrap();
        let at = |ns, connection| (Span::from_ns(ns), connection);
        assert_eq!(log.requests, [at(0, 0), at(500, 1), at(2000, 0)]);
        assert_eq!(log.length, Span::from_ns(2000));
        let service = log.service.expect("each line has it");
        assert!((service.mean_us() - 4.0).abs() < 1e-9 && service.points_ns(3) == [2000, 4000, 6000]);
        assert_eq!(requests("5,a\n7,a").unwrap().service, None);
    }

    #[test]
    fn what_is_no_log_is_refused_with_its_line() {
        for (text, said) in [
            ("", "no requests"),
            ("1,a\nsoon,a", "line 2: `soon,a` is no request"),
            ("1,a\n2", "line 2"),
            ("1,", "line 1"),
            ("1,a,-3", "line 1"),
            ("1,a,3\n2,a", "line 2 has no time of service, and the first has a"),
            ("0,a\n9e11,a", "longer than a day"),
        ] {
            let error = requests(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }
}

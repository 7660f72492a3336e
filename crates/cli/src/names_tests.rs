//! One name for one thing over all commands, and units everywhere: the command line is walked, so that a new option is judged as well.

use std::collections::{BTreeMap, BTreeSet};

use clap::error::ErrorKind;
use clap::{Arg, Command};

use crate::help::plain_command;

/// What options are called that take a time, by the name of their value; the long ones are those that clap makes of the option's own.
const TIMES: &[&str] = &["TIME", "SECONDS", "MILLIS", "GAP", "PERIOD", "DELAY", "TIMEOUT"];
/// Likewise of a rate.
const RATES: &[&str] = &["RATE"];
/// Likewise of a share.
const SHARES: &[&str] = &["SHARE", "READ_PCT"];

/// Value names that were units, which an option does not prescribe any more.
const UNITS: &[&str] = &["S", "MS", "US", "NS", "T", "PCT", "R", "RPS", "QPS"];

/// What one value name is given as, by whichever command: one meaning has one name.
const MEANINGS: &[(&str, &[&str])] = &[
    ("IF", &["dev"]),
    ("DEVICE", &["over"]),
    ("RATE", &["rate", "peak"]),
    ("MODE", &["mode"]),
    ("PID", &["pid", "attach"]),
    ("PID|PATH", &["engine"]),
    ("J", &["jobs"]),
];

/// Options of one name whose values are not alike, with why.
const UNLIKE: &[(&str, &str)] = &[
    ("backend", "one of the list, where a machine is fitted to one"),
    ("engine", "an engine that is looked at, by its process, and one that a program is started on, by its name"),
    ("json", "ynl's own options have the request there"),
    ("out", "a file or a folder, as many files as there are"),
    ("profile", "what a host is tuned for, and the file of an engine's settings"),
    ("queues", "which queues of a card that is there, and how many of a device that is made or set"),
];

/// What was spelled otherwise up to version 0.2, or is elsewhere, and is taken: command, former name, name.
const FORMER: &[(&str, &str, &str)] = &[
    ("compare", "on", "dev"),
    ("compare", "flows", "connections"),
    ("compare", "rate", "load"),
    ("serve kv", "dev", "over"),
    ("serve kv", "connections", "max-connections"),
    ("load kv", "dev", "over"),
    ("engine start", "dev", "over"),
    ("load kv", "load", "rate"),
    ("advise", "load", "rate"),
    ("advise", "cpu", "max-cpu"),
    ("advise", "cpus", "server-cpus"),
    ("advise", "seeds", "runs"),
];

/// Every option of every command that is shown, with the command in words.
fn options() -> Vec<(String, Arg)> {
    let mut all = plain_command();
    all.build();
    let (mut open, mut found) = (vec![(String::new(), all)], Vec::new());
    while let Some((path, command)) = open.pop() {
        found.extend(
            command.get_arguments().filter(|arg| arg.get_long().is_some()).cloned().map(|arg| (path.clone(), arg)),
        );
        let below = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
        open.extend(below.map(|below| (format!("{path} {}", below.get_name()).trim().to_owned(), below.clone())));
    }
    found
}

fn long(arg: &Arg) -> &str {
    arg.get_long().expect("only such are looked at")
}

/// The name of an option's value, of those that take one.
fn value_name(arg: &Arg) -> Option<String> {
    arg.get_action().takes_values().then(|| arg.get_value_names()?.first().map(ToString::to_string)).flatten()
}

/// Whether a command refuses a value of an option for what it is.
fn refuses(command: &Command, path: &str, option: &str, value: &str) -> bool {
    let words = std::iter::once("napier").chain(path.split_whitespace());
    let given = format!("--{option}={value}");
    let parsed = command.clone().try_get_matches_from(words.chain([given.as_str()]));
    matches!(parsed, Err(error) if matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue | ErrorKind::UnknownArgument))
}

#[test]
fn a_time_a_rate_and_a_share_take_a_unit_in_every_option() {
    let command = plain_command();
    let (mut times, mut wrong) = (0, Vec::new());
    for (path, arg) in options() {
        let Some(name) = value_name(&arg) else { continue };
        let is = |names: &[&str]| names.contains(&name.as_str());
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let is_time =
            is(TIMES) || [" in seconds", " in us", " in ns", "in milliseconds"].iter().any(|unit| help.contains(unit));
        // A time may be bounded, so any of these is enough.
        let values: &[&str] = match () {
            () if is_time && name != "RULE" => &["1ms", "60ms", "60s"],
            () if is(RATES) => &["50k"],
            () if is(SHARES) => &["80%"],
            () => continue,
        };
        times += usize::from(is_time);
        if values.iter().all(|value| refuses(&command, &path, long(&arg), value)) {
            wrong.push(format!("{path} --{}", long(&arg)));
        }
        if is(UNITS) {
            wrong.push(format!("{path} --{} <{name}>: a unit is no name of a value", long(&arg)));
        }
    }
    assert!(wrong.is_empty() && times > 20, "{wrong:#?}, of {times}");
}

#[test]
fn a_value_that_is_none_is_refused_by_the_parser_that_knows_units() {
    let command = plain_command();
    for (path, option, value) in [
        ("compare", "seconds", "soon"),
        ("top", "interval", "1e3"),
        ("load kv", "get-ratio", "97"),
        ("advise", "rate", "max"),
    ] {
        assert!(refuses(&command, path, option, value), "{path} --{option} {value}");
    }
}

#[test]
fn one_option_name_has_one_meaning_and_one_meaning_one_name() {
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, arg) in options().into_iter().filter(|(_, arg)| !arg.is_hide_set()) {
        // Clap makes a value's name of the option's, which says nothing.
        let own = long(&arg).replace('-', "_").to_uppercase();
        let name = value_name(&arg).unwrap_or_default();
        if name != own {
            values.entry(long(&arg).to_owned()).or_default().insert(name.clone());
        }
        for (value, names) in MEANINGS.iter().filter(|(value, _)| *value == name) {
            assert!(names.contains(&long(&arg)), "{path} --{} <{value}>: it is called {names:?}", long(&arg));
        }
    }
    let unlike: Vec<&String> = values.iter().filter(|(_, names)| names.len() > 1).map(|(option, _)| option).collect();
    let known: Vec<&str> = UNLIKE.iter().map(|(option, _)| *option).collect();
    assert_eq!(unlike, known, "{values:#?}");
}

#[test]
fn former_names_are_taken_and_not_shown() {
    let all = options();
    for (path, former, name) in FORMER {
        let of = |option: &str| all.iter().find(|(of, arg)| of == path && long(arg) == option).map(|(_, arg)| arg);
        let arg = of(name).unwrap_or_else(|| panic!("{path} has no --{name}"));
        assert!(arg.get_all_aliases().is_some_and(|aliases| aliases.contains(former)), "{path} --{former}");
        assert!(
            arg.get_visible_aliases().is_none_or(|aliases| aliases.is_empty()) && of(former).is_none(),
            "{path} --{former} is shown"
        );
    }
}

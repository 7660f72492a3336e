//! `napier engine start --profile FILE`: what an engine for programs is, in a file.
//!
//! ```text
//! over = "xdp:eth1"          # keys of the top are the options of `engine start`
//! ip = "192.0.2.10/24"
//! [door]                     # which sockets are the engine's; the others are the kernel's
//! ports = [80, "8000-8099"]  # of its address, and of the wildcards
//! peers = ["192.0.2.0/24"]   # of what it reaches
//! ```

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use clap::Parser;
use napier_lab::serve::device::IfAddr;
use napier_linux::given;
use serde::Deserialize;
use toml::Spanned;

use super::StartArgs;

/// A profile is read up to here, in bytes.
const BYTES_MAX: u64 = 64 << 10;
/// Ranges of ports, and networks.
const ENTRIES_MAX: usize = 64;

/// Which sockets are the engine's.
#[derive(Default, Debug)]
pub(super) struct DoorPart {
    pub(super) ports: Vec<RangeInclusive<u16>>,
    pub(super) peers: Vec<(IpAddr, u8)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ProfileFile {
    over: Spanned<String>,
    ip: Spanned<String>,
    name: Option<Spanned<String>>,
    mode: Option<Spanned<String>>,
    queues: Option<Spanned<u16>>,
    xdp: Option<Spanned<String>>,
    coalesce: Option<Spanned<String>>,
    gateway: Option<Spanned<String>>,
    role: Option<Spanned<String>>,
    secret: Option<Spanned<String>>,
    containers: Option<Spanned<String>>,
    #[serde(default)]
    for_all_users: bool,
    #[serde(default)]
    door: DoorTable,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct DoorTable {
    #[serde(default)]
    ports: Vec<Spanned<PortEntry>>,
    #[serde(default)]
    peers: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a port such as 80, or ports such as \"8000-8099\"")]
enum PortEntry {
    One(u16),
    Several(String),
}

/// The options as they stand in a profile.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct FromProfile {
    #[command(flatten)]
    args: StartArgs,
}

/// Reads a profile; the error names the line and what was expected.
pub(super) fn read(path: &Path) -> anyhow::Result<(StartArgs, DoorPart)> {
    let name = path.display();
    let text = given::read_text(path, BYTES_MAX).with_context(|| format!("reading the profile {name}"))?;
    parse(&text).map_err(|(line, what)| anyhow!("{name}, line {line}: {what}"))
}

/// A profile from its text, or the line that is wrong, and why.
fn parse(text: &str) -> Result<(StartArgs, DoorPart), (usize, String)> {
    let line = |at: usize| 1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count();
    let file: ProfileFile = toml::from_str(text)
        .map_err(|error| (line(error.span().map_or(0, |span| span.start)), error.message().trim().to_owned()))?;
    let part = door_part(&file.door).map_err(|(at, what)| (line(at), what))?;
    let given = options(&file);
    let words = given.iter().flat_map(|(option, value, _)| [format!("--{option}"), value.clone()]);
    let flags = file.for_all_users.then(|| "--for-all-users".to_owned());
    match FromProfile::try_parse_from(words.chain(flags)) {
        Ok(FromProfile { args }) => Ok((args, part)),
        Err(error) => {
            let text = error.to_string();
            let at = given.iter().find(|(option, ..)| text.contains(&format!("--{option} "))).map_or(0, |(.., at)| *at);
            let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ").replace("--", "");
            Err((line(at), what))
        }
    }
}

/// Options, their values, and where these stand.
fn options(file: &ProfileFile) -> Vec<(&'static str, String, usize)> {
    let text = |value: &Spanned<String>| (value.get_ref().clone(), value.span().start);
    let queues = file.queues.as_ref().map(|queues| (queues.get_ref().to_string(), queues.span().start));
    let all = [
        ("over", Some(text(&file.over))),
        ("ip", Some(text(&file.ip))),
        ("name", file.name.as_ref().map(text)),
        ("mode", file.mode.as_ref().map(text)),
        ("queues", queues),
        ("xdp", file.xdp.as_ref().map(text)),
        ("coalesce", file.coalesce.as_ref().map(text)),
        ("gateway", file.gateway.as_ref().map(text)),
        ("role", file.role.as_ref().map(text)),
        ("secret", file.secret.as_ref().map(text)),
        ("containers", file.containers.as_ref().map(text)),
    ];
    all.into_iter().filter_map(|(option, value)| value.map(|(value, at)| (option, value, at))).collect()
}

fn door_part(table: &DoorTable) -> Result<DoorPart, (usize, String)> {
    let mut part = DoorPart::default();
    for entry in table.ports.iter().take(ENTRIES_MAX + 1) {
        let ports = match entry.get_ref() {
            PortEntry::One(port) => Some(*port..=*port),
            PortEntry::Several(text) => ports(text),
        };
        let expected = || (entry.span().start, "expected a port such as 80, or ports such as \"8000-8099\"".to_owned());
        part.ports.push(ports.ok_or_else(expected)?);
    }
    for entry in table.peers.iter().take(ENTRIES_MAX + 1) {
        let network = entry
            .get_ref()
            .parse::<IfAddr>()
            .map_err(|error| (entry.span().start, format!("expected a network such as \"192.0.2.0/24\": {error}")))?;
        part.peers.push((network.addr, network.prefix_len));
    }
    let most = [table.ports.get(ENTRIES_MAX).map(Spanned::span), table.peers.get(ENTRIES_MAX).map(Spanned::span)];
    match most.into_iter().flatten().next() {
        Some(span) => Err((span.start, format!("expected at most {ENTRIES_MAX} entries"))),
        None => Ok(part),
    }
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_the_options_and_the_engines_part() {
        let text = "over = \"xdp:eth1\"\nip = \"192.0.2.10/24\"\nmode = \"suspend20\"\nqueues = 2\nfor-all-users = true\n\
                    [door]\nports = [80, \"8000-8099\"]\npeers = [\"192.0.2.0/24\", \"2001:db8::/32\"]\n";
        let (args, part) = parse(text).expect("a profile");
        assert_eq!((args.over.as_deref(), args.ip.as_deref()), (Some("xdp:eth1"), Some("192.0.2.10/24")));
        assert_eq!(args.mode.expect("one").to_string(), "suspend20");
        assert!(args.for_all_users && args.name.is_none());
        assert_eq!(part.ports, [80..=80, 8000..=8099]);
        assert_eq!(part.peers.iter().map(|(_, prefix)| *prefix).collect::<Vec<_>>(), [24, 32]);
    }

    #[test]
    fn an_error_names_the_line_and_what_was_expected() {
        let head = "over = \"xdp:eth1\"\nip = \"192.0.2.10/24\"\n";
        let table = [
            ("over = 7\n".to_owned(), 1, "expected a string"),
            ("ip = \"192.0.2.1/24\"\n".to_owned(), 1, "missing field `over`"),
            (format!("{head}port = 80\n"), 3, "unknown field `port`, expected one of"),
            (format!("{head}# a mode\nmode = \"suspend\"\n"), 4, "suspend"),
            (format!("{head}queues = 70000\n"), 3, "expected u16"),
            (format!("{head}gateway = \"here\"\n"), 3, "here"),
            (format!("{head}[door]\nports = [80,\n  \"9-8\"]\n"), 5, "expected a port such as 80"),
            (format!("{head}[door]\nports = [80, true]\n"), 4, "a port such as 80"),
            (format!("{head}[door]\npeers = [\"x\"]\n"), 4, "expected a network"),
            (format!("{head}[door]\nports = [{}]\n", "1,".repeat(65)), 4, "at most 64"),
            ("over = \"xdp:eth1\n".to_owned(), 1, ""),
        ];
        for (text, line, what) in table {
            let (at, said) = parse(&text).err().unwrap_or_else(|| panic!("{text}"));
            assert!(at == line && said.contains(what), "{text}: line {at}: {said}");
        }
    }

    #[test]
    fn the_profiles_that_come_along_are_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/profiles");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            if entry.path().extension().is_some_and(|end| end == "toml") {
                read(&entry.path()).unwrap_or_else(|error| panic!("{error:#}"));
                count += 1;
            }
        }
        assert!(count >= 4, "{count}");
    }
}

//! How the experiments with many connections are told what to do.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use napier_lab::bench::MESSAGE_BYTES_MAX;
use napier_lab::modes::{self, ServerStyle};
use napier_lab::subject::{Backend, Subject, subjects};

use crate::Usage;

/// Where modes are applied.
pub(super) fn backends() -> impl TypedValueParser<Value = Backend> {
    let names = [
        ("engine", "The engine of this process, over a link in shared memory; needs no privilege"),
        ("kernel", "This machine's kernel, over a veth pair between two namespaces made for the run; needs root"),
    ];
    PossibleValuesParser::new(names.map(|(name, help)| PossibleValue::new(name).help(help)))
        .map(|name| if name == "engine" { Backend::Engine } else { Backend::Kernel })
}

/// Each mode with each backend.
pub(super) fn read_subjects(modes: &str, backends: &[Backend]) -> anyhow::Result<Vec<Subject>> {
    let modes = modes::parse_list(modes).map_err(|error| Usage(error.into()))?;
    if let Some(mode) = modes.iter().find(|mode| ServerStyle::of(&mode.plan()) == ServerStyle::BlockingReceive) {
        let why = anyhow::anyhow!(
            "`{mode}` is for sockets that block in a receive, and a server of many connections has none"
        );
        return Err(Usage(why).into());
    }
    if backends.len() > 1 && backends[1..].contains(&backends[0]) {
        return Err(Usage(anyhow::anyhow!("--backend names {} twice; each is one row per mode", backends[0])).into());
    }
    Ok(subjects(&modes, backends, &[], &[]))
}

/// A size in bytes, such as 1, 5000, 4K or 1M.
pub(super) fn parse_bytes(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1 << 10),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1), |number| (number, 1 << 20)),
    };
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = if digits { number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit)) } else { None };
    bytes.filter(|bytes| (1..=MESSAGE_BYTES_MAX).contains(bytes)).ok_or_else(|| {
        format!("`{text}` is no size; give bytes such as 1, 5000, 4K or 1M, at most {}M", MESSAGE_BYTES_MAX >> 20)
    })
}

/// `5000B`, `4K`, `1M`.
pub(super) fn bytes(bytes: u32) -> String {
    match bytes {
        mebis if mebis % (1 << 20) == 0 => format!("{}M", mebis >> 20),
        kibis if kibis % (1 << 10) == 0 => format!("{}K", kibis >> 10),
        _ => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, size) in
            [("1", 1), ("5000", 5000), ("4K", 4096), ("64k", 65_536), ("1M", 1 << 20), ("16M", 16 << 20)]
        {
            assert_eq!(parse_bytes(text), Ok(size));
        }
        for text in ["", "0", "17M", "K", "-1", "1.5K", "4096M", "99999999999", "1MB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert_eq!([1, 5000, 4096, 1 << 20].map(bytes), ["1B", "5000B", "4K", "1M"]);
    }
}

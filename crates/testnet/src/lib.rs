//! Two network namespaces with a pair of veth interfaces between them, for tests of what the kernel does.

use std::fmt::Display;
use std::net::IpAddr;

pub use napier_linux::{EndConfig, Veth, VethConfig, VethEnd};

/// An address that a test writes down.
///
/// # Panics
/// It is none.
#[must_use]
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// One end: its name, and addresses with the length of their prefix, as `10.9.0.1/24`.
pub type End<'a> = (&'a str, &'a [&'a str]);

/// A pair of such ends, with the rest as [`VethConfig::new`] has it. Their Ethernet addresses end with 1 and 2.
///
/// # Panics
/// An address is none.
#[must_use]
pub fn ends(left: End<'_>, right: End<'_>) -> VethConfig {
    let end = |(name, addresses): End<'_>, last: u8| {
        addresses.iter().fold(EndConfig::new(name, [2, 0, 0, 0, 0x4e, last]), |end, address| {
            let (address, prefix) = address.split_once('/').expect("an address and the length of its prefix");
            end.address(ip(address), prefix.parse().expect("bits"))
        })
    };
    VethConfig::new(end(left, 1), end(right, 2))
}

/// The pair, or a line that says why the test does not run. It goes with the value, however the test ends.
///
/// # Panics
/// It cannot be made, and no privilege is missing.
#[must_use]
pub fn pair(test: impl Display, config: &VethConfig) -> Option<Veth> {
    or_skip(test, Veth::new(config))
}

/// What was made, or a line that says which privilege is missing.
///
/// # Panics
/// Something else was wrong.
#[must_use]
pub fn or_skip<T>(test: impl Display, made: Result<T, napier_linux::LinuxError>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(error) if error.is_privilege() => {
            napier_testkit::skip!(test, "{error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

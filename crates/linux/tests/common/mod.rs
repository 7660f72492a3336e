//! A pair of veth interfaces for tests.

use std::net::IpAddr;

use napier_linux::{EndConfig, Veth, VethConfig};

const LEFT: [u8; 6] = [2, 0, 0, 0, 9, 1];
const RIGHT: [u8; 6] = [2, 0, 0, 0, 9, 2];

pub(crate) fn config() -> VethConfig {
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let left = EndConfig::new("left", LEFT).address(address("10.9.0.1"), 24).address(address("fd09::1"), 64);
    let right = EndConfig::new("right", RIGHT).address(address("10.9.0.2"), 24).address(address("fd09::2"), 64);
    VethConfig::new(left, right)
}

/// A pair, or a line that says why this test does not run.
pub(crate) fn pair(test: &str, config: &VethConfig) -> Option<Veth> {
    match Veth::new(config) {
        Ok(pair) => Some(pair),
        Err(error) if error.is_privilege() => {
            napier_testkit::skip!(test, "{error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

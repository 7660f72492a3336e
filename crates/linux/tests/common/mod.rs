//! The pair of interfaces of these tests.

use napier_linux::VethConfig;
pub(crate) use napier_testnet::pair;

pub(crate) fn config() -> VethConfig {
    napier_testnet::ends(("left", &["10.9.0.1/24", "fd09::1/64"]), ("right", &["10.9.0.2/24", "fd09::2/64"]))
}

//! Whether the kernel takes a value, without giving it one: it is asked to set it on an instance that does not exist. What a kernel does
//! not take it refuses before it looks for the instance (`net/netlink/genetlink.c`, the policy of the attribute).

use napier_core::control::NapiSetError;

use super::{Key, KeyError, Line};
use crate::error::KernelError;
use crate::netdev;

/// No instance has this number: they count up from the number of CPUs.
const NO_INSTANCE: u32 = u32::MAX;

/// Why a line would be refused; `None` if it would not be, or that cannot be known without writing it.
pub(super) fn refusal(line: &Line) -> Option<KeyError> {
    let Key::Napi { attribute, .. } = &line.key else { return None };
    let request = match attribute.change(&line.value) {
        Ok(change) => change.request(NO_INSTANCE),
        Err(error) => return Some(error),
    };
    match netdev::napi_set(&request).err()? {
        KernelError::Refused(NapiSetError::NoSuchNapi { .. }) => None,
        error => match KeyError::of(error) {
            // Who may not set anything learns no more.
            KeyError::Denied(_) | KeyError::Io(_) => None,
            error => Some(error),
        },
    }
}

//! Whether the thread of a call may do what the engine does for it.

use napier_linux::process::{HeldSocketCall, Notifier};

use super::ServedProgram;
use crate::rules::rights::{Need, of_option, of_port};

/// Whether the thread has what it needs, if that is anything.
///
/// # Errors
/// As the kernel says it; `EINTR` if the call does not wait any more.
fn judge(notifier: &Notifier, held: &HeldSocketCall, need: Option<Need>) -> Result<(), i32> {
    let Some(need) = need else { return Ok(()) };
    let rights = Notifier::rights_of(held.tid());
    if !notifier.is_waiting(held) {
        return Err(libc::EINTR);
    }
    need.judge(rights)
}

/// Whether the thread may bind to a port.
pub(super) fn may_bind(served: &ServedProgram, held: &HeldSocketCall, port: u16) -> Result<(), i32> {
    judge(&served.notifier, held, of_port(Notifier::unprivileged_ports(), port))
}

/// Whether the thread may set an option to a value, which is this now.
pub(super) fn may_set(
    served: &ServedProgram,
    held: &HeldSocketCall,
    option: (i32, i32),
    before: i32,
    value: &[u8],
) -> Result<(), i32> {
    // A shorter one is no value at all, and refused for that.
    let Some(value) = value.first_chunk() else { return Ok(()) };
    judge(&served.notifier, held, of_option(served.offer.kernel, option, before, i32::from_ne_bytes(*value)))
}

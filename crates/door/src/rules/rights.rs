//! What a program needs a capability for. What the engine sets or binds for it of the kernel's, the kernel would judge by the engine's own: so it is judged
//! here first, by what the thread has that asks. What is not the engine's to do the kernel judges itself, for the call goes on. No system call is made here.

use napier_linux::process::{CallerRights, Capability, OptionRights};

use Capability::{NetAdmin, NetBindService, NetRaw};

/// Priorities that all programs may have. Source: `net/core/sock.c` `sk_setsockopt`.
const PRIORITIES: std::ops::RangeInclusive<i32> = 0..=6;

/// What a thread has to have.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Need {
    /// One of these is enough.
    any: &'static [Capability],
    over: Over,
    /// What the call gets without.
    error: i32,
}

/// Where it has to have it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Over {
    /// In the user namespace that owns the network namespace.
    Network,
    /// In the first one: a root of a container that has its own is none.
    Machine,
}

impl Need {
    const fn option(any: &'static [Capability], over: Over) -> Option<Self> {
        Some(Self { any, over, error: libc::EPERM })
    }

    /// Whether a thread has what it needs.
    ///
    /// # Errors
    /// Of `errno(3)`, as the kernel says it.
    pub(crate) fn judge(self, rights: CallerRights) -> Result<(), i32> {
        let has = |one: &Capability| match self.over {
            Over::Network => rights.over_network(*one),
            Over::Machine => rights.over_machine(*one),
        };
        if self.any.iter().any(has) { Ok(()) } else { Err(self.error) }
    }
}

/// The table of options; `None`: any program may. `before` is what the option is now. Each option that is remembered for a socket, and set on one of the kernel
/// later, is in it if the kernel ever refuses it for want of a capability. Source: `net/core/sock.c` `sk_setsockopt`.
pub(crate) fn of_option(kernel: OptionRights, (level, name): (i32, i32), before: i32, value: i32) -> Option<Need> {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_PRIORITY) if !PRIORITIES.contains(&value) => {
            let any: &[Capability] = if kernel.priority_by_net_raw { &[NetAdmin, NetRaw] } else { &[NetAdmin] };
            Need::option(any, Over::Network)
        }
        (libc::SOL_SOCKET, libc::SO_BUSY_POLL) if value > before && !kernel.busy_poll_is_free => {
            Need::option(&[NetAdmin], Over::Machine)
        }
        // These are never set here, and the kernel has the last word: those before 5.17 want the first one for a mark.
        (libc::SOL_SOCKET, libc::SO_MARK) => Need::option(&[NetAdmin, NetRaw], Over::Network),
        (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE | libc::SO_SNDBUFFORCE) => Need::option(&[NetAdmin], Over::Machine),
        _ => None,
    }
}

/// The same of a port, where those from `unprivileged` on are for all. Source: `net/ipv4/af_inet.c` `__inet_bind`.
pub(crate) const fn of_port(unprivileged: u16, port: u16) -> Option<Need> {
    if port == 0 || port >= unprivileged {
        return None;
    }
    Some(Need { any: &[NetBindService], over: Over::Network, error: libc::EACCES })
}

#[cfg(test)]
#[path = "rights_tests.rs"]
mod tests;

//! A refusal with all that there is to say of it: in the rules' words, what to know beside, and the kernel's own words.

use std::fmt;

use napier_core::control::Errno;

use super::socket::{NetlinkRefusal, Trouble};
use crate::error::{KernelError, Refusal};

/// Why the kernel did not do something, whole.
#[derive(Debug)]
pub struct Told<R: Refusal> {
    /// In the rules' words.
    pub error: KernelError<R>,
    /// What is worth knowing beside.
    pub hint: Option<&'static str>,
    /// What the kernel said itself.
    pub said: Option<String>,
}

impl<R: Refusal> Told<R> {
    /// Without the kernel's own words.
    #[must_use]
    pub fn into_error(self) -> KernelError<R> {
        self.error
    }

    /// The kernel's error number, if it is one that `core` names.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        self.error.errno()
    }

    pub(super) fn plain(error: KernelError<R>) -> Self {
        Self { error, hint: None, said: None }
    }
}

impl<R: Refusal> fmt::Display for Told<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)?;
        self.hint.map_or(Ok(()), |hint| write!(f, " ({hint})"))?;
        self.said.as_deref().map_or(Ok(()), |said| write!(f, "; the kernel says: {said}"))
    }
}

impl<R: Refusal + fmt::Debug> std::error::Error for Told<R> {}

/// What the kernel is asked for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    NapiGet,
    NapiSet,
    QueueGet,
    DevGet,
    QstatsGet,
}

/// Hints by operation, attribute (none: any) and number.
const HINTS: [(Operation, Option<&str>, Errno, &str); 8] = [
    (
        Operation::NapiSet,
        None,
        Errno::EPERM,
        "in the first user namespace: root in a user namespace of its own, as in a container, does not have it",
    ),
    (
        Operation::NapiSet,
        Some("threaded"),
        Errno::ERANGE,
        "0 disabled, 1 enabled; 2 busy-poll is there since Linux 6.19",
    ),
    (
        Operation::NapiSet,
        None,
        Errno::ENOENT,
        "an instance that is made anew, as on veth by link down and up, has a new id",
    ),
    (Operation::NapiGet, None, Errno::ENOENT, "an id of another network namespace is not found: give --netns"),
    (Operation::QueueGet, None, Errno::ENOENT, "ip link set IF up"),
    (Operation::QueueGet, None, Errno::EINVAL, "ethtool -l shows how many queues are in use"),
    (Operation::DevGet, None, Errno::ENODEV, "numbers are those of the network namespace: ip link shows them"),
    (Operation::QstatsGet, None, Errno::ENODEV, "numbers are those of the network namespace: ip link shows them"),
];

/// The hint for a refusal, if there is one.
pub(super) fn hint(operation: Operation, attribute: Option<&str>, errno: Errno) -> Option<&'static str> {
    let fits = |(of, about, number, _): &&(Operation, Option<&str>, Errno, &str)| {
        *of == operation && *number == errno && (about.is_none() || *about == attribute)
    };
    HINTS.iter().find(fits).map(|(.., words)| *words)
}

/// Since when kernels have the operation.
fn since(operation: Operation) -> &'static str {
    match operation {
        Operation::NapiGet | Operation::QueueGet => "this kernel does not show NAPI instances (since Linux 6.8)",
        Operation::NapiSet => {
            "this kernel sets NAPI instances by their device only (napi-set is there since Linux 6.13)"
        }
        Operation::DevGet => "this kernel has no dev-get (since Linux 6.3)",
        Operation::QstatsGet => "this kernel has no qstats-get (since Linux 6.10)",
    }
}

/// A refusal in whole. `words` has the rules' words for it, if they have some.
pub(super) fn told<R: Refusal>(
    operation: Operation,
    attribute: Option<&'static str>,
    trouble: Trouble,
    words: impl FnOnce(&NetlinkRefusal) -> Option<KernelError<R>>,
) -> Told<R> {
    let not_here = |errno| KernelError::NotHere { what: since(operation), errno };
    match trouble {
        Trouble::NoFamily => Told::plain(not_here(Errno::ENOENT)),
        Trouble::Io(error) => Told::plain(KernelError::Other(error)),
        Trouble::Refused(refused) => {
            let error = words(&refused).unwrap_or_else(|| match refused.number() {
                Some(errno @ Errno::EOPNOTSUPP) => not_here(errno),
                _ => KernelError::Other(refused.plain()),
            });
            let hint = match &error {
                KernelError::Refused(refusal) => hint(operation, attribute, refusal.number()),
                _ => None,
            };
            Told { error, hint, said: refused.said }
        }
    }
}

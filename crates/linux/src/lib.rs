//! The live kernel's control plane: namespaces, interfaces, NAPI instances, and the busy polling of the kernel's own sockets.
//! And pairs of veth interfaces between two namespaces, for tests and experiments on real kernel interfaces.
//!
//! | module | holds | source |
//! |---|---|---|
//! | [`netdev`] | napi-get, napi-set, queue-get, dev-get, qstats-get; where the same settings live beside | `netdev` netlink |
//! | [`device`] | settings of a whole interface, read back | `/sys/class/net` |
//! | [`socket`] | `SO_BUSY_POLL` and its like, and the interface of a socket | `socket(7)` |
//! | [`epoll`] | busy-poll parameters of an epoll descriptor | `ioctl_eventpoll(2)` |
//! | [`change`] | what is changed on a live machine: listed, noted, read back, put back | |
//! | [`process`] | programs that were not changed: started, found, and watched for descriptors to set | |
//! | [`by_name`] | a program by the name that people have for it: a unit, a container, a pod | `/proc/PID/cgroup` |
//! | [`wiring`] | through which interface the packets of a program come, also in another namespace | `IFLA_LINK`, `SO_INCOMING_NAPI_ID` |
//! | [`connections`] | a program's TCP connections as the kernel knows them: round trips, bytes, retransmissions | `sock_diag(7)`, `TCP_INFO` |
//! | [`cost`] | the CPU that a program takes, and what its threads wait for one | `cpu.stat`, `/proc/PID/schedstat` |
//! | `cgroup` | control groups and their processes | `cgroups(7)` |
//! | `descriptors` | descriptors of such programs, copied, read and set from outside | `pidfd_getfd(2)` |
//! | `setting` | what every kind of setting can do: read, write, compare, name its command | |
//! | `sink` | plans of all of these, applied and taken back | `napier_core::control::plan` |
//! | `netns` | a network namespace without a name | `namespaces(7)` |
//! | `link` | interfaces and addresses | `rtnetlink(7)` |
//! | [`ethtool`] | channels, rings, coalescing and offloads of an interface | `ethtool` netlink |
//! | [`given`] | files that are given on the command line, read within a bound | |
//! | [`drivers`] | what each driver does with instances, queues and interrupts, and since when | the drivers' sources |
//! | [`irqs`] | which interrupts are an interface's, what each is for, on which CPU | `/proc/interrupts`, `msi_irqs` |
//! | [`facts`] | what a machine has and how it is set, read once | |
//! | [`doctor`] | what is wrong with that: pure | |
//! | [`observe`] | who polls an interface, what passes it by, what a program's threads wait in: whether what was set acts | tracepoints, `/proc` |
//! | [`explain`] | where the time of a program's requests goes | tracepoints |
//! | [`metrics`] | what a live kernel counts, as figures with names | |
//! | [`tune`] | what a machine is set to for low latency: pure | |
//! | `veth` | pairs | `veth(4)` |
//! | [`tracefs`] | static tracepoints, recorded | `tracefs` |
//! | `root` | files of this machine, or of another one in a folder | |
//! | `procfs` | a process or thread, as `/proc` tells | `proc_pid_stat(5)` |
//! | `sys` | system calls without a safe wrapper, the only unsafe code | |
//!
//! Requests and answers are types of `napier_core`, the same that the engine takes and gives, and a refusal is the operation's
//! own enum there, in a [`KernelError`] beside what only a kernel can say. Each function that sets something has one that reads it,
//! so that what was there before can be put back; `SO_BUSY_POLL_BUDGET`, which no kernel tells, is the exception. Everything
//! is about the namespace of the calling thread.
//!
//! A namespace and a pair have no name in the file system: a namespace lives as long as its descriptor, or a thread inside
//! it, and the pair goes with it. So nothing is left behind however the process ends.
//!
//! Namespaces need `CAP_SYS_ADMIN` and interfaces `CAP_NET_ADMIN`; where they are missing, [`LinuxError::is_privilege`]
//! tells a test that it should be skipped.
//!
//! ```no_run
//! use napier_linux::{EndConfig, Veth, VethConfig};
//! let left = EndConfig::new("left", [2, 0, 0, 0, 0, 1]).address("10.9.0.1".parse()?, 24);
//! let right = EndConfig::new("right", [2, 0, 0, 0, 0, 2]).address("10.9.0.2".parse()?, 24);
//! let pair = Veth::new(&VethConfig::new(left, right))?;
//! // Sockets belong to the namespace of the thread that makes them.
//! let socket = pair.left().netns().run(|| std::net::UdpSocket::bind("10.9.0.1:0"))??;
//! # let _ = socket;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod by_name;
mod cgroup;
pub mod change;
pub mod connections;
pub mod cost;
mod descriptors;
pub mod device;
pub mod doctor;
pub mod drivers;
pub mod epoll;
mod error;
pub mod ethtool;
pub mod explain;
pub mod facts;
pub mod given;
pub mod irqs;
mod link;
pub mod metrics;
pub mod netdev;
mod netns;
pub mod observe;
pub mod process;
mod procfs;
mod root;
mod setting;
mod sink;
pub mod socket;
mod sys;

pub mod tracefs;
pub mod tune;
mod veth;
pub mod wiring;

pub use error::{KernelError, Refusal};
pub use netns::{Netns, NetnsId};
pub use sink::{KernelSink, KernelWriteError};
pub use veth::{EndConfig, Veth, VethConfig, VethEnd};

use std::io;

/// Puts a thread of any process, one of the kernel's too, into `SCHED_FIFO` (`sched(7)`) at `priority`, 1 to 99.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE`; `ESRCH` if it is gone.
pub fn set_fifo(tid: u32, priority: i32) -> io::Result<()> {
    let thread = i32::try_from(tid).ok().and_then(rustix::process::Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    sys::sched::set(thread, sys::sched::Class::Fifo, priority.cast_unsigned())
}

/// Why something with a namespace or an interface failed.
#[derive(Debug, thiserror::Error)]
pub enum LinuxError {
    /// No namespace could be made.
    #[error("making a network namespace: {0}; it needs CAP_SYS_ADMIN")]
    Unshare(io::Error),
    /// No namespace could be entered.
    #[error("entering a network namespace: {0}; it needs CAP_SYS_ADMIN")]
    Enter(io::Error),
    /// A thread could not be started.
    #[error("starting a thread: {0}; check the limit on processes (ulimit -u)")]
    Thread(io::Error),
    /// The kernel refused a request about an interface.
    #[error("{what}: {source}")]
    Refused {
        /// What was asked for.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A setting that this kernel does not have.
    #[error("{what}: this kernel cannot")]
    NotHere {
        /// What was asked for.
        what: String,
    },
}

impl LinuxError {
    /// Whether a capability or a kernel feature is missing, rather than something being wrong: a test is skipped then.
    #[must_use]
    pub fn is_privilege(&self) -> bool {
        let missing = |error: &io::Error| {
            let kind = error.kind();
            kind == io::ErrorKind::PermissionDenied || kind == io::ErrorKind::Unsupported
        };
        match self {
            Self::Unshare(error) | Self::Enter(error) => missing(error) || error.kind() == io::ErrorKind::InvalidInput,
            Self::Refused { source, .. } => missing(source),
            Self::Thread(_) => false,
            Self::NotHere { .. } => true,
        }
    }

    fn refused(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Refused { what, source }
    }
}

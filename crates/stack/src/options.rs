//! Socket options under the kernel's names and rules (`net/core/sock.c sk_setsockopt`, `sk_getsockopt`).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use napier_core::sockopt::{BusyOption, SockOptError, SocketBusy};
use napier_core::tx::qdisc::RATE_UNLIMITED;
use thiserror::Error;

/// Largest SO_PRIORITY without a privilege. Source: `net/core/sock.c sk_set_prio_allowed`.
pub(super) const PRIORITY_FREE_MAX: i32 = 6;

/// What goes with each packet of a socket; hardly ever written.
pub(crate) struct EgressOptions {
    pub(crate) priority: AtomicU32,
    /// Bytes per second.
    pub(crate) pacing_rate: AtomicU64,
    /// `IP_RECVERR`: the sender hears of drops.
    pub(crate) recverr: AtomicBool,
}

impl Default for EgressOptions {
    fn default() -> Self {
        Self {
            priority: AtomicU32::new(0),
            pacing_rate: AtomicU64::new(RATE_UNLIMITED),
            recverr: AtomicBool::new(false),
        }
    }
}

/// An option of level `SOL_SOCKET`, or of the level that the table names.
///
/// | option | set | get |
/// |---|---|---|
/// | `SO_SNDBUF` | bytes; doubled, at most 8 MiB, at least 4608 after doubling | bytes in force |
/// | `SO_RCVBUF` | bytes; doubled, at most 8 MiB, at least 2304 after doubling | bytes in force |
/// | `SO_REUSEPORT` | ENOPROTOOPT: choose it before binding, in the builder | 0 or 1 |
/// | `SO_PRIORITY` | the band of a discipline with bands; more than 6, or negative, needs `CAP_NET_ADMIN` | the same |
/// | `SO_BUSY_POLL` | µs (of 1024 ns) to poll before sleeping, not negative | the same |
/// | `SO_MAX_PACING_RATE` | bytes per second, as unsigned; -1: no limit (`fq` paces) | the same |
/// | `SO_INCOMING_NAPI_ID` | ENOPROTOOPT | the recorded id, or 0 |
/// | `SO_PREFER_BUSY_POLL` | not 0 needs `CAP_NET_ADMIN` | 0 or 1 |
/// | `SO_BUSY_POLL_BUDGET` | packets; more than now needs `CAP_NET_ADMIN`; at most 65535 | ENOPROTOOPT |
/// | `UDP_SEGMENT` (level `SOL_UDP`) | bytes of the datagrams that a longer buffer is cut into, at most 65535; 0: it is not cut | the same |
/// | `UDP_GRO` (level `SOL_UDP`) | not 0: datagrams of a flow may be merged | 0 or 1 |
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SocketOption {
    /// `SO_SNDBUF` (7).
    SndBuf,
    /// `SO_RCVBUF` (8).
    RcvBuf,
    /// `SO_PRIORITY` (12).
    Priority,
    /// `SO_REUSEPORT` (15).
    ReusePort,
    /// `SO_BUSY_POLL` (46).
    BusyPoll,
    /// `SO_MAX_PACING_RATE` (47).
    MaxPacingRate,
    /// `SO_INCOMING_NAPI_ID` (56).
    IncomingNapiId,
    /// `SO_PREFER_BUSY_POLL` (69).
    PreferBusyPoll,
    /// `SO_BUSY_POLL_BUDGET` (70).
    BusyPollBudget,
    /// `UDP_SEGMENT` (103 of level `SOL_UDP`).
    UdpSegment,
    /// `UDP_GRO` (104 of level `SOL_UDP`).
    UdpGro,
}

/// No option of this name is known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown socket option {name}: known are SO_SNDBUF, SO_RCVBUF, SO_PRIORITY, SO_REUSEPORT, SO_BUSY_POLL, SO_MAX_PACING_RATE, \
         SO_INCOMING_NAPI_ID, SO_PREFER_BUSY_POLL, SO_BUSY_POLL_BUDGET, UDP_SEGMENT and UDP_GRO"
)]
pub struct UnknownOption {
    name: String,
}

impl SocketOption {
    /// All options, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::SndBuf,
        Self::RcvBuf,
        Self::Priority,
        Self::ReusePort,
        Self::BusyPoll,
        Self::MaxPacingRate,
        Self::IncomingNapiId,
        Self::PreferBusyPoll,
        Self::BusyPollBudget,
        Self::UdpSegment,
        Self::UdpGro,
    ];

    /// The kernel's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match (self.busy(), self) {
            (Some(busy), _) => busy.name(),
            (None, Self::ReusePort) => "SO_REUSEPORT",
            (None, Self::Priority) => "SO_PRIORITY",
            (None, Self::MaxPacingRate) => "SO_MAX_PACING_RATE",
            (None, Self::UdpSegment) => "UDP_SEGMENT",
            (None, Self::UdpGro) => "UDP_GRO",
            (None, Self::SndBuf) => "SO_SNDBUF",
            (None, _) => "SO_RCVBUF",
        }
    }

    /// The kernel's number. Source: `include/uapi/asm-generic/socket.h`, `include/uapi/linux/udp.h`.
    #[must_use]
    pub fn number(self) -> i32 {
        match (self.busy(), self) {
            (Some(busy), _) => busy as i32,
            (None, Self::ReusePort) => 15,
            (None, Self::Priority) => 12,
            (None, Self::MaxPacingRate) => 47,
            (None, Self::UdpSegment) => 103,
            (None, Self::UdpGro) => 104,
            (None, Self::SndBuf) => 7,
            (None, _) => 8,
        }
    }

    pub(super) fn busy(self) -> Option<BusyOption> {
        match self {
            Self::SndBuf
            | Self::RcvBuf
            | Self::ReusePort
            | Self::Priority
            | Self::MaxPacingRate
            | Self::UdpSegment
            | Self::UdpGro => None,
            Self::BusyPoll => Some(BusyOption::BusyPoll),
            Self::IncomingNapiId => Some(BusyOption::IncomingNapiId),
            Self::PreferBusyPoll => Some(BusyOption::PreferBusyPoll),
            Self::BusyPollBudget => Some(BusyOption::BusyPollBudget),
        }
    }
}

impl From<BusyOption> for SocketOption {
    fn from(option: BusyOption) -> Self {
        match option {
            BusyOption::BusyPoll => Self::BusyPoll,
            BusyOption::IncomingNapiId => Self::IncomingNapiId,
            BusyOption::PreferBusyPoll => Self::PreferBusyPoll,
            BusyOption::BusyPollBudget => Self::BusyPollBudget,
        }
    }
}

impl std::str::FromStr for SocketOption {
    type Err = UnknownOption;

    /// ```
    /// use napier_runtime::socket::SocketOption;
    /// let option: SocketOption = "SO_BUSY_POLL".parse()?;
    /// assert_eq!((option, option.number()), (SocketOption::BusyPoll, 46));
    /// # Ok::<(), napier_runtime::socket::UnknownOption>(())
    /// ```
    fn from_str(name: &str) -> Result<Self, UnknownOption> {
        Self::ALL.into_iter().find(|o| o.name() == name).ok_or_else(|| UnknownOption { name: name.to_owned() })
    }
}

/// Why an option was refused. Nothing was changed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionError {
    /// A busy-poll option.
    #[error(transparent)]
    Busy(#[from] SockOptError),
    /// SO_REUSEPORT of a bound socket.
    #[error("ENOPROTOOPT: SO_REUSEPORT is chosen before the socket is bound: use UdpSocket::builder().reuse_port()")]
    AlreadyBound,
    /// An option that TCP sockets do not have.
    #[error("ENOPROTOOPT: TCP sockets have no such option; buffer sizes and SO_REUSEPORT are given to the builder")]
    NotForTcp,
    /// UDP_SEGMENT outside of what a datagram can have.
    #[error("EINVAL: UDP_SEGMENT is 0 to 65535 bytes")]
    Segment,
    /// SO_PRIORITY beyond what every program may use.
    #[error("EPERM: SO_PRIORITY beyond 0 to {PRIORITY_FREE_MAX} needs CAP_NET_ADMIN")]
    Priority,
}

impl From<OptionError> for std::io::Error {
    fn from(error: OptionError) -> Self {
        Self::from_raw_os_error(match error {
            OptionError::Busy(error) => error.errno().number(),
            OptionError::AlreadyBound | OptionError::NotForTcp => libc::ENOPROTOOPT,
            OptionError::Segment => libc::EINVAL,
            OptionError::Priority => libc::EPERM,
        })
    }
}

/// `SO_MAX_PACING_RATE` in bytes per second.
pub(super) fn pacing_rate(value: i32) -> u64 {
    if value == -1 { RATE_UNLIMITED } else { value.cast_unsigned().into() }
}

/// Changes one of the busy-poll settings in a word of them.
pub(super) fn set_busy(
    word: &AtomicU64,
    option: BusyOption,
    value: i32,
    cap_net_admin: bool,
) -> Result<(), SockOptError> {
    let mut now = word.load(Ordering::Relaxed);
    loop {
        let mut busy = unpack(now);
        busy.set(option, value, cap_net_admin)?;
        // Relaxed: the settings order nothing, and they are one word.
        match word.compare_exchange(now, pack(&busy), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Ok(()),
            Err(other) => now = other,
        }
    }
}

/// The settings as one word, so that a reader takes no lock: bits 0..32 busy time, 32..48 budget, 48 prefer.
pub(super) fn pack(busy: &SocketBusy) -> u64 {
    u64::from(busy.busy_poll_usecs) | u64::from(busy.budget) << 32 | u64::from(busy.prefer) << 48
}

#[expect(clippy::cast_possible_truncation, reason = "each field is cut out of the word")]
pub(super) fn unpack(word: u64) -> SocketBusy {
    SocketBusy { busy_poll_usecs: word as u32, budget: (word >> 32) as u16, prefer: word >> 48 & 1 != 0, napi_id: 0 }
}

#[cfg(test)]
mod tests;

//! Busy-poll options of a socket, and the NAPI id that it records. Source: `net/core/sock.c sk_setsockopt`,
//! `sk_getsockopt`, `include/net/busy_poll.h` (Linux 7.3).

use core::fmt;

use crate::busy::{BusyLimit, BusyParams};
use crate::errno::Errno;
use crate::ids::napi_id_valid;

/// A busy-poll option of `SOL_SOCKET`, with its number. Source: `include/uapi/asm-generic/socket.h`.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
#[repr(i32)]
pub enum BusyOption {
    /// `SO_BUSY_POLL`: busy time in busy-poll microseconds (1024 ns each). No capability needed.
    BusyPoll = 46,
    /// `SO_INCOMING_NAPI_ID`: the recorded id. Cannot be set.
    IncomingNapiId = 56,
    /// `SO_PREFER_BUSY_POLL`: 0 or 1; setting it needs CAP_NET_ADMIN.
    PreferBusyPoll = 69,
    /// `SO_BUSY_POLL_BUDGET`: packets per iteration; raising it needs CAP_NET_ADMIN. Cannot be read.
    BusyPollBudget = 70,
}

impl BusyOption {
    /// The option with this number.
    #[must_use]
    pub const fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            46 => Self::BusyPoll,
            56 => Self::IncomingNapiId,
            69 => Self::PreferBusyPoll,
            70 => Self::BusyPollBudget,
            _ => return None,
        })
    }

    /// The kernel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BusyPoll => "SO_BUSY_POLL",
            Self::IncomingNapiId => "SO_INCOMING_NAPI_ID",
            Self::PreferBusyPoll => "SO_PREFER_BUSY_POLL",
            Self::BusyPollBudget => "SO_BUSY_POLL_BUDGET",
        }
    }
}

/// Why an option was refused. Nothing was changed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum SockOptError {
    /// EPERM: it needs CAP_NET_ADMIN.
    NotPermitted(BusyOption),
    /// EINVAL: the value is out of range.
    Invalid(BusyOption),
    /// EINVAL: the value is shorter than 4 bytes.
    TooShort,
    /// ENOPROTOOPT: the option cannot be set.
    ReadOnly(BusyOption),
    /// ENOPROTOOPT: the option cannot be read.
    WriteOnly(BusyOption),
}

impl SockOptError {
    /// The kernel's error number for it.
    #[must_use]
    pub const fn errno(self) -> Errno {
        match self {
            Self::NotPermitted(_) => Errno::EPERM,
            Self::Invalid(_) | Self::TooShort => Errno::EINVAL,
            Self::ReadOnly(_) | Self::WriteOnly(_) => Errno::ENOPROTOOPT,
        }
    }
}

impl fmt::Display for SockOptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.errno())?;
        match self {
            Self::NotPermitted(BusyOption::BusyPollBudget) => {
                f.write_str("raising SO_BUSY_POLL_BUDGET needs CAP_NET_ADMIN; keep or lower it, or get the capability")
            }
            Self::NotPermitted(option) => write!(f, "setting {} needs CAP_NET_ADMIN", option.name()),
            Self::Invalid(BusyOption::BusyPollBudget) => f.write_str("SO_BUSY_POLL_BUDGET must be 0..=65535 packets"),
            Self::Invalid(option) => write!(f, "{} must not be negative", option.name()),
            Self::TooShort => f.write_str("the value must be an int of 4 bytes"),
            Self::ReadOnly(option) => write!(f, "{} can only be read", option.name()),
            Self::WriteOnly(option) => write!(f, "{} can only be set", option.name()),
        }
    }
}

impl core::error::Error for SockOptError {}

/// The int in an option value as a caller passes it.
///
/// # Errors
/// [`SockOptError::TooShort`].
pub fn option_value(bytes: &[u8]) -> Result<i32, SockOptError> {
    match bytes.first_chunk::<4>() {
        Some(value) => Ok(i32::from_ne_bytes(*value)),
        None => Err(SockOptError::TooShort),
    }
}

/// The busy-poll settings of one socket.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct SocketBusy {
    /// Busy time in busy-poll microseconds (1024 ns each); 0: the socket never busy polls.
    pub busy_poll_usecs: u32,
    /// Prefer busy polling.
    pub prefer: bool,
    /// Packets per iteration; 0 means 8.
    pub budget: u16,
    /// The recorded id, valid or not.
    pub napi_id: u32,
}

impl SocketBusy {
    /// A new socket; `sysctl_busy_read` is `net.core.busy_read`, read at creation only. Source: `net/core/sock.c
    /// sock_init_data_uid`.
    #[must_use]
    pub const fn new(sysctl_busy_read: u32) -> Self {
        Self { busy_poll_usecs: sysctl_busy_read, prefer: false, budget: 0, napi_id: 0 }
    }

    /// Sets `SO_BUSY_POLL`.
    ///
    /// # Errors
    /// EINVAL for a negative value.
    pub const fn set_busy_poll(&mut self, value: i32) -> Result<(), SockOptError> {
        if value < 0 {
            return Err(SockOptError::Invalid(BusyOption::BusyPoll));
        }
        self.busy_poll_usecs = value.unsigned_abs();
        Ok(())
    }

    /// Sets `SO_PREFER_BUSY_POLL`; anything but 0 counts as 1.
    ///
    /// # Errors
    /// EPERM for anything but 0 without the capability.
    pub const fn set_prefer_busy_poll(&mut self, value: i32, cap_net_admin: bool) -> Result<(), SockOptError> {
        if value != 0 && !cap_net_admin {
            return Err(SockOptError::NotPermitted(BusyOption::PreferBusyPoll));
        }
        self.prefer = value != 0;
        Ok(())
    }

    /// Sets `SO_BUSY_POLL_BUDGET`, in packets.
    ///
    /// # Errors
    /// EPERM for a value above the present one without the capability (looked at first), else EINVAL outside
    /// 0..=65535.
    pub fn set_busy_poll_budget(&mut self, value: i32, cap_net_admin: bool) -> Result<(), SockOptError> {
        if value > i32::from(self.budget) && !cap_net_admin {
            return Err(SockOptError::NotPermitted(BusyOption::BusyPollBudget));
        }
        self.budget = u16::try_from(value).map_err(|_| SockOptError::Invalid(BusyOption::BusyPollBudget))?;
        Ok(())
    }

    /// Sets an option.
    ///
    /// # Errors
    /// Those of the option; ENOPROTOOPT for `SO_INCOMING_NAPI_ID`.
    pub fn set(&mut self, option: BusyOption, value: i32, cap_net_admin: bool) -> Result<(), SockOptError> {
        match option {
            BusyOption::BusyPoll => self.set_busy_poll(value),
            BusyOption::IncomingNapiId => Err(SockOptError::ReadOnly(option)),
            BusyOption::PreferBusyPoll => self.set_prefer_busy_poll(value, cap_net_admin),
            BusyOption::BusyPollBudget => self.set_busy_poll_budget(value, cap_net_admin),
        }
    }

    /// Reads an option. An id that is not valid reads as 0. Values above 2^31 - 1 come out as the kernel's int does.
    ///
    /// # Errors
    /// ENOPROTOOPT for `SO_BUSY_POLL_BUDGET`.
    pub const fn get(&self, option: BusyOption, first_id: u32) -> Result<i32, SockOptError> {
        match option {
            BusyOption::BusyPoll => Ok(self.busy_poll_usecs.cast_signed()),
            BusyOption::IncomingNapiId if napi_id_valid(self.napi_id, first_id) => Ok(self.napi_id.cast_signed()),
            BusyOption::IncomingNapiId => Ok(0),
            BusyOption::PreferBusyPoll => Ok(self.prefer as i32),
            BusyOption::BusyPollBudget => Err(SockOptError::WriteOnly(option)),
        }
    }

    /// The busy loop of a receive call that found nothing, on the instance `self.napi_id`; `None`: none. A call that
    /// does not block makes one iteration. The loop ends when the receive queue is not empty or the time is up. The
    /// caller checks for pending signals before. Source: `include/net/busy_poll.h sk_busy_loop`.
    #[inline]
    #[must_use]
    pub const fn busy_params(&self, nonblocking: bool, first_id: u32) -> Option<BusyParams> {
        if self.busy_poll_usecs == 0 || !napi_id_valid(self.napi_id, first_id) {
            return None;
        }
        let limit = if nonblocking { BusyLimit::Once } else { BusyLimit::For(self.busy_poll_usecs) };
        Some(BusyParams { prefer: self.prefer, budget_pkts: self.budget, limit })
    }
}

/// The id that a socket has recorded after a packet that carries `incoming`. A connected socket follows every packet,
/// even one without a valid id; an unconnected one keeps the first number other than 0. Source:
/// `include/net/busy_poll.h sk_mark_napi_id`, `sk_mark_napi_id_once`.
#[inline]
#[must_use]
pub const fn record_napi_id(current: u32, incoming: u32, connected: bool) -> u32 {
    if connected || current == 0 { incoming } else { current }
}

#[cfg(test)]
#[path = "sockopt_tests.rs"]
mod tests;

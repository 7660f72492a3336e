//! Busy polling of the kernel's own sockets (`socket(7)`), and the interface that they are bound to. Source:
//! `net/core/sock.c sk_setsockopt`, `sk_getsockopt`.

use std::io;
use std::os::fd::AsFd;

use napier_core::control::Errno;
pub use napier_core::sockopt::BusyOption;
use napier_core::sockopt::SockOptError;

use crate::error::{KernelError, errno_of};
use crate::sys;

/// Why an option of a kernel socket was not set or read.
pub type SocketError = KernelError<SockOptError>;

/// What a busy-poll option of a kernel socket is now.
///
/// # Errors
/// [`SockOptError::WriteOnly`] for `SO_BUSY_POLL_BUDGET`, which no kernel tells; [`KernelError::NotHere`] where the kernel
/// has no such option (`SO_PREFER_BUSY_POLL` is there since 5.11); [`KernelError::Other`] for what is no socket.
pub fn get(socket: impl AsFd, option: BusyOption) -> Result<i32, SocketError> {
    sys::socket_option(socket.as_fd(), option as i32).map_err(|error| match (errno_of(&error), option) {
        (Some(Errno::ENOPROTOOPT), BusyOption::BusyPollBudget) => SocketError::Refused(SockOptError::WriteOnly(option)),
        _ => refused(error, option),
    })
}

/// Sets a busy-poll option of a kernel socket.
///
/// # Errors
/// [`SockOptError::NotPermitted`] for a preference or a larger budget than the socket has (on old kernels for a longer time
/// too), without `CAP_NET_ADMIN`; [`SockOptError::Invalid`]; [`SockOptError::ReadOnly`] for `SO_INCOMING_NAPI_ID`;
/// [`KernelError::NotHere`] where the kernel has no such option; [`KernelError::Other`] for what is no socket.
pub fn set(socket: impl AsFd, option: BusyOption, value: i32) -> Result<(), SocketError> {
    sys::set_socket_option(socket.as_fd(), option as i32, value).map_err(|error| match (errno_of(&error), option) {
        (Some(Errno::ENOPROTOOPT), BusyOption::IncomingNapiId) => SocketError::Refused(SockOptError::ReadOnly(option)),
        _ => refused(error, option),
    })
}

/// Sets an option of `SOL_SOCKET` by its number, with a value of any length: for what no program should ask for.
///
/// # Errors
/// As the kernel says it.
pub fn set_number(socket: impl AsFd, option: i32, value: &[u8]) -> io::Result<()> {
    sys::set_option(socket.as_fd(), option, value)
}

/// What an option of `SOL_SOCKET` is that is an int, by its number.
///
/// # Errors
/// As the kernel says it.
pub fn get_number(socket: impl AsFd, option: i32) -> io::Result<i32> {
    sys::socket_option(socket.as_fd(), option)
}

/// Lets a kernel socket receive from one interface only, and send there (`SO_BINDTODEVICE`).
///
/// # Errors
/// `ENODEV` if there is no such interface; `EPERM` without `CAP_NET_RAW` where the socket has one already.
pub fn bind_to_device(socket: impl AsFd, interface: &str) -> io::Result<()> {
    sys::bind_to_device(socket.as_fd(), interface)
}

fn refused(error: io::Error, option: BusyOption) -> SocketError {
    let what = match option {
        BusyOption::BusyPoll => "this kernel has no SO_BUSY_POLL (CONFIG_NET_RX_BUSY_POLL)",
        BusyOption::IncomingNapiId => "this kernel has no SO_INCOMING_NAPI_ID (since Linux 4.12)",
        BusyOption::PreferBusyPoll => "this kernel has no SO_PREFER_BUSY_POLL (since Linux 5.11)",
        BusyOption::BusyPollBudget => "this kernel has no SO_BUSY_POLL_BUDGET (since Linux 5.11)",
    };
    match errno_of(&error) {
        Some(Errno::EPERM) => SocketError::Refused(SockOptError::NotPermitted(option)),
        Some(Errno::EINVAL) => SocketError::Refused(SockOptError::Invalid(option)),
        Some(errno @ Errno::ENOPROTOOPT) => SocketError::NotHere { what, errno },
        _ => SocketError::Other(error),
    }
}

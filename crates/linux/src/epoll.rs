//! Busy-poll parameters of an epoll descriptor (`ioctl_eventpoll(2)`). Source: `fs/eventpoll.c ep_eventpoll_bp_ioctl`.

use std::io;
use std::os::fd::AsFd;

use napier_core::control::Errno;
pub use napier_core::event::EpollParams;
use napier_core::event::{EpollParamsError, EpollParamsRequest};

use crate::error::{KernelError, errno_of};
use crate::sys;

/// Why parameters were not set or read.
pub type EpollError = KernelError<EpollParamsError>;

/// What the parameters are now (`EPIOCGPARAMS`).
///
/// # Errors
/// [`KernelError::NotHere`] before Linux 6.9, or for what is no epoll descriptor.
pub fn params(epoll: impl AsFd) -> Result<EpollParams, EpollError> {
    let params = sys::epoll_params(epoll.as_fd()).map_err(|error| refused(error, EpollParamsRequest::default()))?;
    Ok(EpollParams {
        busy_poll_usecs: params.busy_poll_usecs,
        busy_poll_budget: params.busy_poll_budget,
        prefer_busy_poll: params.prefer_busy_poll != 0,
    })
}

/// Sets all parameters (`EPIOCSPARAMS`).
///
/// # Errors
/// [`EpollParamsError`], as the kernel decides: a budget above 64 needs `CAP_NET_ADMIN`. [`KernelError::NotHere`] before
/// Linux 6.9, or for what is no epoll descriptor.
pub fn set_params(epoll: impl AsFd, params: EpollParams) -> Result<(), EpollError> {
    let request = EpollParamsRequest::from(params);
    request_params(epoll, request).map_err(|error| refused(error, request))
}

/// The same with fields of any value, which the kernel judges.
///
/// # Errors
/// As the kernel says it.
pub fn request_params(epoll: impl AsFd, request: EpollParamsRequest) -> io::Result<()> {
    let EpollParamsRequest { busy_poll_usecs, busy_poll_budget, prefer_busy_poll, pad } = request;
    sys::set_epoll_params(epoll.as_fd(), &sys::EpollParams { busy_poll_usecs, busy_poll_budget, prefer_busy_poll, pad })
}

/// Makes an ioctl of epoll's type (0x8A), or `FIONBIO`, by its number on any descriptor; `None` for other numbers.
///
/// # Errors
/// As the kernel says it.
pub fn ioctl(on: impl AsFd, number: u32) -> Option<io::Result<()>> {
    sys::is_event_ioctl(number).then(|| sys::event_ioctl(on.as_fd(), number))
}

fn refused(error: io::Error, request: EpollParamsRequest) -> EpollError {
    match errno_of(&error) {
        Some(Errno::EPERM) => EpollError::Refused(EpollParamsError::NotPermitted),
        // The kernel does not say which field it means; the rule does.
        Some(Errno::EINVAL) => request.check(true).err().map_or(EpollError::Other(error), EpollError::Refused),
        Some(errno @ Errno::ENOTTY) => EpollError::NotHere {
            what: "no epoll descriptor, or a kernel without busy-poll parameters of epoll (since Linux 6.9)",
            errno,
        },
        _ => EpollError::Other(error),
    }
}

//! Errors by the kernel's numbers.

use std::io;

use napier_core::icmp::Error as IcmpError;

/// An error with the number that the kernel would give.
pub(crate) fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

/// The error of calls after the engine has stopped.
#[cold]
pub(crate) fn stopped() -> io::Error {
    errno(libc::ESHUTDOWN)
}

/// The kernel's number of what an ICMP message says.
pub(crate) fn of_icmp(error: IcmpError) -> i32 {
    use IcmpError as E;
    match error {
        E::NetUnreachable => libc::ENETUNREACH,
        E::HostUnreachable => libc::EHOSTUNREACH,
        E::NoProtocol => libc::ENOPROTOOPT,
        E::Refused => libc::ECONNREFUSED,
        E::TooBig => libc::EMSGSIZE,
        E::NotSupported => libc::EOPNOTSUPP,
        E::HostDown => libc::EHOSTDOWN,
        E::NoNet => libc::ENONET,
        E::Denied => libc::EACCES,
        E::Protocol => libc::EPROTO,
    }
}

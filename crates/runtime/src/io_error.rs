//! Errors of the engine as `std::io::Error` has them, for programs whose functions give that: the kind, and the error inside for what it says.

use std::io::{Error, ErrorKind};

use crate::device::*;
use crate::engine::*;
use crate::group::GroupChangeError;
use crate::port::AddDeviceError;
use crate::raw::{BindRawError, RawSendError};

macro_rules! with_kind {
    ($($(#[$meta:meta])* $name:ident($error:ty) => $kind:expr;)+) => {
        $($(#[$meta])*
        impl From<$error> for Error {
            fn from($name: $error) -> Self {
                Self::new($kind, $name)
            }
        })+
    };
}

with_kind! {
    error(AddDeviceError) => of_device(&error);
    error(AddLinkError) => match &error {
        AddLinkError::Device(error) => of_device(error),
        AddLinkError::Link(_) => ErrorKind::InvalidInput,
    };
    #[cfg(feature = "memif")]
    error(AddMemifError) => match &error {
        AddMemifError::Device(error) => of_device(error),
        AddMemifError::Shape(_) => ErrorKind::InvalidInput,
        AddMemifError::Interface(_) => ErrorKind::Other,
        AddMemifError::Memory { .. } | AddMemifError::Arena(_) => ErrorKind::OutOfMemory,
        AddMemifError::System(source) => source.kind(),
    };
    #[cfg(feature = "xdp")]
    error(AddXdpError) => match &error {
        AddXdpError::Device(error) => of_device(error),
        AddXdpError::Interface(error) => error.kind(),
        AddXdpError::Arena(_) => ErrorKind::OutOfMemory,
    };
    error(StartError) => match &error {
        StartError::NoSoftirqCpu { .. } | StartError::CpuNotAllowed { .. } | StartError::CpuTwice { .. } => ErrorKind::InvalidInput,
        StartError::System(source) => source.kind(),
    };
    error(SetModeError) => ErrorKind::InvalidInput;
    error(GroupChangeError) => ErrorKind::Other;
    error(BindRawError) => match &error {
        BindRawError::NoSuchQueue { .. } => ErrorKind::InvalidInput,
        BindRawError::QueueBusy { .. } => ErrorKind::ResourceBusy,
    };
}

fn of_device(error: &AddDeviceError) -> ErrorKind {
    match error {
        AddDeviceError::NameTaken { .. } => ErrorKind::AlreadyExists,
        AddDeviceError::System(errno) => errno.kind(),
        _ => ErrorKind::InvalidInput,
    }
}

/// With the number alone: it is on the packet path, where nothing is allocated.
impl From<RawSendError> for Error {
    fn from(error: RawSendError) -> Self {
        Self::from_raw_os_error(match error {
            RawSendError::Full => libc::EAGAIN,
            RawSendError::Down => libc::ENETDOWN,
            RawSendError::Dropped => libc::ENOBUFS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_and_the_sentence_stay() {
        let taken = AddDeviceError::NameTaken { name: "a0".to_owned() };
        let said = taken.to_string();
        let error = Error::from(AddLinkError::Device(taken));
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::AlreadyExists, said));
        assert_eq!(Error::from(RawSendError::Full).kind(), ErrorKind::WouldBlock);
    }
}

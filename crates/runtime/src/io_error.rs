//! Errors of the engine as `std::io::Error` has them, for programs whose functions give that: the kind, and the error inside for what it says.

use std::io::{Error, ErrorKind};

use napier_core::control::Errno;

#[cfg(feature = "capture")]
use crate::capture::CaptureError;
use crate::device::*;
use crate::engine::*;
use crate::group::GroupChangeError;
use crate::port::{AddDeviceError, SenderSpaceError};
use crate::raw::{BindRawError, RawSendError, TxRingFull};
use crate::tx::TxSetupError;

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
        AddLinkError::Link(error) => of_link(error),
    };
    error(LinkError) => of_link(&error);
    #[cfg(feature = "memif")]
    error(AddMemifError) => match &error {
        AddMemifError::Device(error) => of_device(error),
        AddMemifError::Shape(error) => of_link(error),
        AddMemifError::Interface(error) => error.kind(),
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
    error(SetModeError) => match &error {
        SetModeError::Group => ErrorKind::InvalidInput,
        SetModeError::Refused(error) => of_write(&error.refused.error),
    };
    error(EngineWriteError) => of_write(&error);
    error(RemoveDeviceError) => ErrorKind::NotFound;
    error(SysctlError) => ErrorKind::InvalidInput;
    error(RssError) => ErrorKind::InvalidInput;
    error(AffinityError) => match &error {
        AffinityError::NoSuchNapi { .. } => ErrorKind::NotFound,
        AffinityError::NoSuchSoftirqCpu { .. } => ErrorKind::InvalidInput,
        AffinityError::Refused { errno, .. } => errno.kind(),
    };
    error(GroupChangeError) => match &error {
        GroupChangeError::NoSuchNapi { .. } => ErrorKind::NotFound,
        GroupChangeError::ThreadNotCreated { error, .. } | GroupChangeError::ClassNotGranted { error, .. } => error.kind(),
        GroupChangeError::Refused(_) | GroupChangeError::NoCpuLeft => ErrorKind::InvalidInput,
        GroupChangeError::Journal => ErrorKind::Unsupported,
        GroupChangeError::Closing => Error::from_raw_os_error(libc::ESHUTDOWN).kind(),
    };
    error(SenderSpaceError) => of_senders(&error);
    error(TxSetupError) => match &error {
        TxSetupError::NoSuchQueue { .. } | TxSetupError::Parameter { .. } => ErrorKind::InvalidInput,
        TxSetupError::Noqueue { .. } => ErrorKind::Unsupported,
        TxSetupError::Senders(error) => of_senders(error),
        TxSetupError::Thread(source) => source.kind(),
    };
    #[cfg(feature = "capture")]
    error(CaptureError) => match &error {
        CaptureError::Busy { .. } => ErrorKind::ResourceBusy,
        CaptureError::RingBytes { .. } => ErrorKind::InvalidInput,
        CaptureError::File { source, .. } | CaptureError::Thread(source) => source.kind(),
    };
    error(BindRawError) => match &error {
        BindRawError::NoSuchQueue { .. } => ErrorKind::InvalidInput,
        BindRawError::QueueBusy { .. } => ErrorKind::ResourceBusy,
    };
}

fn of_link(error: &LinkError) -> ErrorKind {
    match error {
        LinkError::Memory { .. } | LinkError::Arena(_) => ErrorKind::OutOfMemory,
        LinkError::Irq(source) => source.kind(),
        _ => ErrorKind::InvalidInput,
    }
}

fn of_senders(error: &SenderSpaceError) -> ErrorKind {
    match error {
        SenderSpaceError::Arena(_) | SenderSpaceError::Memory { .. } => ErrorKind::OutOfMemory,
    }
}

fn of_write(error: &EngineWriteError) -> ErrorKind {
    match error {
        EngineWriteError::NapiSet(error) => of_errno(error.errno()),
        EngineWriteError::NapiGet(error) => of_errno(error.errno()),
        EngineWriteError::Device(error) => of_errno(error.errno()),
        EngineWriteError::Context(error) => of_errno(error.errno()),
        EngineWriteError::Socket(error) => Error::from(*error).kind(),
    }
}

fn of_errno(errno: Errno) -> ErrorKind {
    Error::from_raw_os_error(errno.number()).kind()
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

/// With the number alone, as above.
impl From<TxRingFull> for Error {
    fn from(_: TxRingFull) -> Self {
        Self::from_raw_os_error(libc::EAGAIN)
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
        assert_eq!(Error::from(TxRingFull).kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn errors_of_calls_have_the_kind_of_what_they_hold() {
        let full = || Error::from_raw_os_error(libc::EMFILE);
        for (error, kind) in [
            (Error::from(LinkError::Irq(full())), full().kind()),
            (LinkError::Queues { queues: 0 }.into(), ErrorKind::InvalidInput),
            (AffinityError::NoSuchNapi { id: 7 }.into(), ErrorKind::NotFound),
            (TxSetupError::Thread(ErrorKind::WouldBlock.into()).into(), ErrorKind::WouldBlock),
            (SysctlError::BudgetTooShort { min_usecs: 2 }.into(), ErrorKind::InvalidInput),
            (
                EngineWriteError::Context(napier_core::event::EpollParamsError::NotPermitted).into(),
                ErrorKind::PermissionDenied,
            ),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}

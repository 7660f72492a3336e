//! Errors as `std::io::Error` has them. The one place that knows std, and that only if a user of the crate asks for it (feature `std`).

extern crate std;

use std::io::Error;

use crate::control::mode::ModeError;
use crate::control::{DevSetError, NapiSetError, QueryError};
use crate::event::EpollParamsError;
use crate::moderation::CoalesceError;

/// With the kernel's number alone, as `ioctl(2)` has it.
impl From<EpollParamsError> for Error {
    fn from(error: EpollParamsError) -> Self {
        Self::from_raw_os_error(error.errno() as i32)
    }
}

/// The kind that the kernel's number is of, and the error inside for what it says.
macro_rules! with_kind_of_errno {
    ($($error:ty),+) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::new(Self::from_raw_os_error(error.errno() as i32).kind(), error)
            }
        })+
    };
}

with_kind_of_errno!(DevSetError, NapiSetError, QueryError);

/// What cannot be, and the error inside for what it says.
macro_rules! invalid_input {
    ($($error:ty),+) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::new(std::io::ErrorKind::InvalidInput, error)
            }
        })+
    };
}

invalid_input!(ModeError, CoalesceError);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::Errno;
    use std::io::ErrorKind;
    use std::string::ToString as _;

    #[test]
    fn numbers_and_sentences_stay() {
        assert_eq!(Error::from(EpollParamsError::NotPermitted).raw_os_error(), Some(Errno::EPERM as i32));
        let error = crate::control::mode::Mode::parse("turbo").unwrap_err();
        let as_io = Error::from(error);
        assert_eq!(as_io.kind(), ErrorKind::InvalidInput);
        assert!(as_io.to_string().contains("turbo"));
    }
}

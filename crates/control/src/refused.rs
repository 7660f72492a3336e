//! A request that is refused, and why.

use napier_core::control::Errno;
use napier_runtime::engine::Engine;
use serde_json::json;

use crate::words::CallError;

/// A refusal: its number, if it has one, and its words.
pub(crate) struct Refused {
    errno: Option<Errno>,
    message: String,
}

impl Refused {
    pub(crate) fn line(&self) -> String {
        json!({"error": {"errno": self.errno.map(Errno::name), "message": self.message}}).to_string()
    }

    pub(crate) fn because(errno: Errno, message: String) -> Self {
        Self { errno: Some(errno), message }
    }

    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self { errno: None, message: message.into() }
    }
}

/// A request that cannot be.
pub(crate) fn invalid(message: impl std::fmt::Display) -> Refused {
    Refused::because(Errno::EINVAL, format!("EINVAL: {message}"))
}

impl From<CallError> for Refused {
    fn from(error: CallError) -> Self {
        Self { errno: Some(error.errno()), message: error.to_string() }
    }
}

macro_rules! refusals {
    ($($name:ident),*) => {
        $(impl From<napier_core::control::$name> for Refused {
            fn from(error: napier_core::control::$name) -> Self {
                Self { errno: Some(error.errno()), message: error.to_string() }
            }
        })*
    };
}

refusals!(QueryError, NapiSetError);

/// The number of a device of this name.
pub(crate) fn ifindex(engine: &Engine, name: &str) -> Result<u32, Refused> {
    match engine.ifindices(name)[..] {
        [one] => Ok(one),
        [] => Err(Refused {
            errno: Some(Errno::ENODEV),
            message: "ENODEV: the engine has no device of that name: dev-get --dump shows the numbers".to_owned(),
        }),
        ref several => Err(Refused {
            errno: Some(Errno::EINVAL),
            message: format!("EINVAL: several devices have that name: give --ifindex, one of {several:?}"),
        }),
    }
}

//! Error numbers by name.

use core::fmt;

macro_rules! errnos {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal),* $(,)?) => {
        /// An error number of Linux, by its name (numbers: `include/uapi/asm-generic/errno-base.h`, `errno.h`).
        #[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
        #[repr(i32)]
        #[non_exhaustive]
        pub enum Errno { $($(#[doc = $doc])* $name = $number),* }

        impl Errno {
            /// The name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }

            /// The error with this number, if it is one of ours.
            #[must_use]
            pub const fn from_number(number: i32) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }
        }
    };
}

errnos! {
    /// A capability is missing.
    EPERM = 1,
    /// No such object, or it is down.
    ENOENT = 2,
    /// Interrupted.
    EINTR = 4,
    /// Not an open descriptor.
    EBADF = 9,
    /// Would block.
    EAGAIN = 11,
    /// Out of memory.
    ENOMEM = 12,
    /// Bad pointer.
    EFAULT = 14,
    /// In use.
    EBUSY = 16,
    /// It exists already.
    EEXIST = 17,
    /// No such device.
    ENODEV = 19,
    /// A malformed request.
    EINVAL = 22,
    /// Not the kind of object for this request.
    ENOTTY = 25,
    /// A value outside its range.
    ERANGE = 34,
    /// No such option.
    ENOPROTOOPT = 92,
    /// Not supported here.
    EOPNOTSUPP = 95,
    /// The device is down.
    ENETDOWN = 100,
    /// No room left.
    ENOBUFS = 105,
}

impl Errno {
    /// The number.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

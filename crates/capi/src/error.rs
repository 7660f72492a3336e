//! What C is told of a failure: -1, `errno`, and a sentence for the thread that called.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    errno: c_int,
    /// What can be done about it; none where the number says all, as on the way of packets, where nothing is allocated.
    text: Option<String>,
}

impl Failure {
    pub(crate) const fn of(errno: c_int) -> Self {
        Self { errno, text: None }
    }

    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Self {
        Self { errno, text: Some(text.into()) }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(libc::EINVAL, text)
    }

    #[cfg(test)]
    pub(crate) fn number(&self) -> c_int {
        self.errno
    }

    /// Leaves it where the calling thread finds it.
    fn tell(self) {
        // SAFETY: the C library gives each thread a place for the number.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: it is the calling thread's own.
        unsafe { *place = self.errno };
        // A thread that ends has no text any more.
        let _ = LAST.try_with(|last| *last.borrow_mut() = Last { failure: Some(self), shown: None });
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Self::of(errno),
            None => Self::new(number_of(error.kind()), error.to_string()),
        }
    }
}

/// The number of an error that the system has not made.
fn number_of(kind: io::ErrorKind) -> c_int {
    match kind {
        io::ErrorKind::WouldBlock => libc::EAGAIN,
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::OutOfMemory => libc::ENOMEM,
        io::ErrorKind::PermissionDenied => libc::EPERM,
        io::ErrorKind::Unsupported => libc::EOPNOTSUPP,
        _ => libc::EIO,
    }
}

struct Last {
    failure: Option<Failure>,
    /// Kept while C may have a pointer to it.
    shown: Option<CString>,
}

thread_local! {
    /// The last failure of a call of this thread.
    static LAST: RefCell<Last> = const { RefCell::new(Last { failure: None, shown: None }) };
}

/// The text of the calling thread's last failure; it stays until its next failure.
pub(crate) fn last_text() -> *const c_char {
    let text = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        if last.shown.is_none() {
            let text = match &last.failure {
                None => "no call of this thread has failed".to_owned(),
                Some(Failure { text: Some(text), .. }) => text.replace('\0', " "),
                Some(Failure { errno, text: None }) => io::Error::from_raw_os_error(*errno).to_string(),
            };
            last.shown = CString::new(text).ok();
        }
        last.shown.as_deref().map_or(c"".as_ptr(), std::ffi::CStr::as_ptr)
    });
    text.unwrap_or(c"".as_ptr())
}

/// What a call gives back: a value, or -1.
pub(crate) trait CallResult: Copy {
    const FAILED: Self;
}

impl CallResult for c_int {
    const FAILED: Self = -1;
}

impl CallResult for isize {
    const FAILED: Self = -1;
}

/// Carries out a call of C: no panic goes beyond this.
pub(crate) fn enter<A: CallResult>(call: impl FnOnce() -> Result<A, Failure>) -> A {
    let answer = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(of_panic(panic)));
    answer.unwrap_or_else(|failure| {
        failure.tell();
        A::FAILED
    })
}

/// What a panic says. Its payload is not dropped, for that may panic too.
pub(crate) fn of_panic(panic: Box<dyn Any + Send>) -> Failure {
    let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
    std::mem::forget(panic);
    let said = said.unwrap_or_else(|| "it says nothing".to_owned());
    Failure::new(
        libc::ENOTRECOVERABLE,
        format!("the library has met a mistake of its own ({said}): close the handle, and report it"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno() -> c_int {
        io::Error::last_os_error().raw_os_error().expect("a number")
    }

    fn text() -> String {
        // SAFETY: the text stays until the next failure of this thread.
        unsafe { std::ffi::CStr::from_ptr(last_text()) }.to_str().expect("text").to_owned()
    }

    #[test]
    fn a_failure_is_minus_one_a_number_and_a_text() {
        assert_eq!(enter(|| Ok::<c_int, Failure>(7)), 7);
        assert_eq!(enter::<c_int>(|| Err(Failure::invalid("say what"))), -1);
        assert_eq!((errno(), text().as_str()), (libc::EINVAL, "say what"));
        assert_eq!(enter::<isize>(|| Err(io::Error::from_raw_os_error(libc::EAGAIN).into())), -1);
        assert_eq!(errno(), libc::EAGAIN);
        assert!(text().contains("temporarily unavailable"), "{}", text());
        assert_eq!(std::thread::spawn(text).join().expect("a text"), "no call of this thread has failed");
    }

    #[test]
    fn a_panic_ends_at_the_border() {
        assert_eq!(enter::<c_int>(|| panic!("odd {}", 1)), -1);
        assert_eq!(errno(), libc::ENOTRECOVERABLE);
        assert!(text().contains("(odd 1)"), "{}", text());
        assert_eq!(enter::<c_int>(|| std::panic::panic_any(3)), -1);
        assert!(text().contains("says nothing"), "{}", text());
    }
}

//! What C hands over by address: bytes, texts, arrays, and structs that grow with versions.

use std::ffi::{CStr, c_char};

use crate::error::Failure;

/// A struct of options: its first member is its size, all zero is its default.
///
/// # Safety
/// Every pattern of bytes is a value of it, and it begins with a `usize`.
pub(crate) unsafe trait Options: Copy {}

/// Longest options that any version may have; a larger size is no size.
const OPTIONS_BYTES_MAX: usize = 4096;

fn null(what: &str) -> Failure {
    Failure::new(libc::EFAULT, format!("{what} is NULL"))
}

/// The bytes of a buffer that is read.
///
/// # Safety
/// `data` has `len` bytes, which no other thread writes before the call ends.
pub(crate) unsafe fn bytes<'a>(data: *const u8, len: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: as the caller says.
    unsafe { array(data, len, "the buffer") }
}

/// The bytes of a buffer that is written.
///
/// # Safety
/// `data` has `len` bytes, which no other thread touches before the call ends.
pub(crate) unsafe fn bytes_mut<'a>(data: *mut u8, len: usize) -> Result<&'a mut [u8], Failure> {
    // SAFETY: as the caller says.
    unsafe { array_mut(data, len, "the buffer") }
}

/// An array that is read.
///
/// # Safety
/// `first` has `len` elements, which no other thread writes before the call ends.
pub(crate) unsafe fn array<'a, T>(first: *const T, len: usize, what: &str) -> Result<&'a [T], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    check(first, len, what)?;
    // SAFETY: it is no null pointer, is aligned, has a length that can be, and the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(first, len) })
}

/// An array that is written.
///
/// # Safety
/// `first` has `len` elements, which no other thread touches before the call ends.
pub(crate) unsafe fn array_mut<'a, T>(first: *mut T, len: usize, what: &str) -> Result<&'a mut [T], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(first, len, what)?;
    // SAFETY: it is no null pointer, is aligned, has a length that can be, and the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts_mut(first, len) })
}

fn check<T>(first: *const T, len: usize, what: &str) -> Result<(), Failure> {
    if first.is_null() {
        return Err(null(what));
    }
    let fits = len.checked_mul(size_of::<T>()).is_some_and(|bytes| isize::try_from(bytes).is_ok());
    if !fits || !first.is_aligned() {
        return Err(Failure::invalid(format!("{what} is not aligned, or longer than memory")));
    }
    Ok(())
}

/// A text; none for NULL.
///
/// # Safety
/// `text` is NULL or ends with a NUL, and no other thread writes it before the call ends.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller says.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// A text that has to be there.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn needed_text<'a>(given: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: as the caller says.
    unsafe { text(given, what) }?.ok_or_else(|| null(what))
}

/// Options of this version or another: what is missing is zero, and what this version does not know has to be zero
/// (`include/linux/uaccess.h copy_struct_from_user`). NULL is all zero.
///
/// # Safety
/// `from` is NULL, or has as many bytes as its first member says.
pub(crate) unsafe fn options<T: Options>(from: *const T) -> Result<T, Failure> {
    // SAFETY: every pattern of bytes is a value.
    let mut read: T = unsafe { std::mem::zeroed() };
    if from.is_null() {
        return Ok(read);
    }
    // SAFETY: the size stands first, and is there.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if size < size_of::<usize>() || size > OPTIONS_BYTES_MAX {
        return Err(Failure::invalid(format!("the member size is {size}: set it to sizeof of the struct")));
    }
    let (known, from) = (size.min(size_of::<T>()), from.cast::<u8>());
    // SAFETY: so many bytes are there, and as many in the struct here.
    unsafe { std::ptr::copy_nonoverlapping(from, (&raw mut read).cast::<u8>(), known) };
    // SAFETY: so many bytes are there.
    let whole = unsafe { std::slice::from_raw_parts(from, size) };
    let beyond = &whole[known..];
    if beyond.iter().any(|byte| *byte != 0) {
        return Err(Failure::new(libc::E2BIG, "the struct has options that this version of the library does not know"));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;

    use super::*;

    #[repr(C)]
    #[derive(Copy, Clone)]
    struct Two {
        size: usize,
        one: u64,
        two: u64,
    }

    // SAFETY: numbers alone, the size first.
    unsafe impl Options for Two {}

    fn read(words: &[u64]) -> Result<(u64, u64), c_int> {
        // SAFETY: the first word says at most how many bytes there are.
        let read = unsafe { options(words.as_ptr().cast::<Two>()) };
        read.map(|two| (two.one, two.two)).map_err(|failure| failure.number())
    }

    #[test]
    fn options_of_other_versions_are_read() {
        assert_eq!(read(&[24, 1, 2]), Ok((1, 2)));
        // An older program.
        assert_eq!(read(&[16, 1, 2]), Ok((1, 0)));
        assert_eq!(read(&[8, 1, 2]), Ok((0, 0)));
        // A newer one, with and without what is new.
        assert_eq!(read(&[32, 1, 2, 0]), Ok((1, 2)));
        assert_eq!(read(&[32, 1, 2, 3]), Err(libc::E2BIG));
        // The size was forgotten, or is none.
        assert_eq!(read(&[0, 1, 2]), Err(libc::EINVAL));
        assert_eq!(read(&[u64::MAX, 1, 2]), Err(libc::EINVAL));
        // SAFETY: NULL is allowed.
        assert!(unsafe { options::<Two>(std::ptr::null()) }.is_ok_and(|two| (two.size, two.one, two.two) == (0, 0, 0)));
    }

    #[test]
    fn what_cannot_be_memory_is_refused() {
        let refused = |at: usize, len: usize| {
            let at = std::ptr::without_provenance::<u64>(at);
            // SAFETY: nothing is read: each is refused, or empty.
            unsafe { array(at, len, "it") }.map(<[u64]>::len).map_err(|failure| failure.number())
        };
        assert_eq!(refused(0, 0), Ok(0));
        assert_eq!(refused(0, 1), Err(libc::EFAULT));
        assert_eq!(refused(8, usize::MAX), Err(libc::EINVAL));
        assert_eq!(refused(6, 1), Err(libc::EINVAL));
    }
}

//! The parts of a message, with its head before them.

use core::iter::once;
use core::ptr::null;

use super::abi::{self, Part};
use super::record::{HEAD_BYTES, PAYLOAD_BYTES_MAX};

/// Parts of a message for which there is room without much of the stack.
const FEW: usize = 8;
/// Of [`abi::PARTS_MAX`] parts of a datagram, or all but one of them, two neighbours have no more bytes than this.
const JOINED_BYTES: usize = 2 * PAYLOAD_BYTES_MAX / (abi::PARTS_MAX - 2);

const NONE: Part = Part { base: null(), len: 0 };

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Out,
    In,
}

/// Calls with a head before the parts, or fails with `EMSGSIZE` for more than the kernel takes.
///
/// # Safety
/// What the parts name can be read or written, whichever way the bytes go, where there are as many as may be; else the system looks whether it can.
pub(crate) unsafe fn with_head(
    head: *const u8,
    parts: &[Part],
    way: Way,
    call: impl FnOnce(&[Part]) -> isize,
) -> isize {
    let head = Part { base: head, len: HEAD_BYTES };
    if parts.len() <= FEW {
        let mut all = [NONE; FEW + 1];
        return filled(&mut all, head, parts, call);
    }
    if parts.len() == abi::PARTS_MAX {
        // SAFETY: as the caller promises.
        return unsafe { with_most(head, parts, way, call) };
    }
    with_many(head, parts, call)
}

#[inline(never)]
fn with_many(head: Part, parts: &[Part], call: impl FnOnce(&[Part]) -> isize) -> isize {
    let mut all = [NONE; abi::PARTS_MAX];
    filled(&mut all, head, parts, call)
}

fn filled(all: &mut [Part], head: Part, parts: &[Part], call: impl FnOnce(&[Part]) -> isize) -> isize {
    let Some(all) = all.get_mut(..=parts.len()) else {
        abi::set_errno(abi::EMSGSIZE);
        return -1;
    };
    put(all, once(&head).chain(parts));
    call(all)
}

fn put<'p>(all: &mut [Part], parts: impl Iterator<Item = &'p Part>) {
    all.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
}

/// The head is one part more than the kernel takes then: two small ones are one piece while the call lasts.
///
/// # Safety
/// As [`with_head`].
#[inline(never)]
unsafe fn with_most(head: Part, parts: &[Part], way: Way, call: impl FnOnce(&[Part]) -> isize) -> isize {
    let mut all = [NONE; abi::PARTS_MAX];
    let is_small = |two: &&[Part]| matches!(two, [one, other] if one.len.saturating_add(other.len) <= JOINED_BYTES);
    let found = parts.windows(2).enumerate().find(|(_, two)| is_small(two));
    let Some((at, &[one, other])) = found else {
        // No datagram reaches the last one; one that is sent is not that long.
        return filled(&mut all, head, parts.split_last().map_or(parts, |(_, rest)| rest), call);
    };
    let mut piece = [0_u8; JOINED_BYTES];
    let place = piece.as_mut_ptr();
    if way == Way::Out {
        // SAFETY: the caller promises that it can be read, and both have room in the piece.
        unsafe { copied(one.base, place, one.len) };
        // SAFETY: as above.
        unsafe { copied(other.base, place.wrapping_add(one.len), other.len) };
    }
    let joined = Part { base: place, len: one.len + other.len };
    let (before, after) = (parts.iter().take(at), parts.iter().skip(at + 2));
    put(&mut all, once(&head).chain(before).chain(once(&joined)).chain(after));
    let count = call(&all);
    if way == Way::In {
        let before = parts.iter().take(at).fold(HEAD_BYTES, |bytes, part| bytes.saturating_add(part.len));
        let got = usize::try_from(count).unwrap_or(0).saturating_sub(before).min(joined.len);
        let first = got.min(one.len);
        // SAFETY: the caller promises that it can be written, and the piece has as many bytes.
        unsafe { copied(place, one.base.cast_mut(), first) };
        // SAFETY: as above.
        unsafe { copied(place.wrapping_add(one.len), other.base.cast_mut(), got - first) };
    }
    count
}

/// Copies so many bytes; a place of none may be any.
///
/// # Safety
/// So many can be read at the one place and written at the other.
unsafe fn copied(from: *const u8, to: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: as the caller promises; one of the places is of this file, so they are apart.
        unsafe { from.copy_to_nonoverlapping(to, len) };
    }
}

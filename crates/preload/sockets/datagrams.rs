//! Which descriptors are sockets for datagrams of the engine, and what is asked of it for them. Unlike connections they are kept at `fork` and `dup`:
//! messages of their pair are whole, whoever sends them.
//!
//! A number that is closed past the library stays marked. What takes it next is forgotten here when it is made, or at the first call that fails with
//! `ENOTSOCK`.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

use super::abi;
use super::outbox::LIBRARY_LEVEL;
use super::record::{ASK_DATAGRAMS, ASK_STATE, STATE_BOUND, STATE_CONNECTED};

/// Descriptors that are looked at; those beyond are the kernel's.
const DESCRIPTORS: usize = 1 << 16;
/// Times that a question is asked again which a signal has ended.
const ASKS_MAX: usize = 64;

/// It is one.
const IS_ONE: u8 = 1;
/// It has an address, so that it sends to any; it has a peer. As the engine has said; what it is later is asked when it matters.
const IS_BOUND: u8 = 2;
const IS_CONNECTED: u8 = 4;
/// The program has shut down reading, or writing.
const NO_READING: u8 = 8;
const NO_WRITING: u8 = 16;

/// By descriptor. Relaxed, as all accesses: a program orders its own calls on a descriptor.
static KNOWN: [AtomicU8; DESCRIPTORS] = [const { AtomicU8::new(0) }; DESCRIPTORS];

/// A page that is zero in each child with memory of its own; its first word is the process that this table is of.
static OWNER: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Whether this is the process that the table is of. A child by `vfork` is another one with the same memory: what it closes before it executes a
/// program, its parent has still.
fn is_its() -> bool {
    // Acquire: pairs with the Release of `begin`.
    let page = OWNER.load(Ordering::Acquire);
    if page.is_null() {
        return true;
    }
    // SAFETY: the page is mapped for as long as the process and its children live, and its first word is reached as an atomic alone.
    let owner = unsafe { AtomicU32::from_ptr(page.cast()) };
    let own = abi::pid();
    // Relaxed: it orders nothing.
    match owner.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => true,
        Err(found) => found == own,
    }
}

/// In a child of a fork, before it can have one of its own that shares its memory.
pub(crate) extern "C" fn claim() {
    is_its();
}

/// Before the first entry.
fn begin() {
    if !OWNER.load(Ordering::Relaxed).is_null() {
        return;
    }
    if let Some(page) = abi::page_of_this_process() {
        // Release: pairs with the Acquire of `is_its`, so the page is there. One that another thread has made meanwhile does; this one is left.
        let begun = OWNER.compare_exchange(null_mut(), page.as_ptr(), Ordering::Release, Ordering::Relaxed);
        if begun.is_ok() {
            abi::after_forks(claim);
        }
        is_its();
    }
}

fn known(fd: c_int) -> Option<&'static AtomicU8> {
    KNOWN.get(usize::try_from(fd).ok()?)
}

fn bits(fd: c_int) -> u8 {
    known(fd).map_or(0, |known| known.load(Ordering::Relaxed))
}

/// Whether a descriptor is such a socket.
pub(crate) fn is_one(fd: c_int) -> bool {
    bits(fd) != 0
}

/// It is none any more.
pub(crate) fn forget(fd: c_int) {
    if let Some(known) = known(fd).filter(|known| known.load(Ordering::Relaxed) != 0 && is_its()) {
        known.store(0, Ordering::Relaxed);
    }
}

/// Another number of the same socket, which must not outlive an exec either. It is as new to this table.
pub(crate) fn copied(from: c_int, to: c_int) {
    forget(to);
    if !is_one(from) || to < 0 || !is_its() {
        return;
    }
    let shut = bits(from) & (NO_READING | NO_WRITING);
    if let Some(known) = known(to) {
        known.store(IS_ONE | shut, Ordering::Relaxed);
        abi::close_on_exec(to);
    }
}

/// A socket of these, if the library is to have one; `None`: the kernel's is wanted.
pub(crate) fn make(domain: c_int, kind: c_int, protocol: c_int) -> Option<c_int> {
    let is_asked = (domain == abi::AF_INET || domain == abi::AF_INET6)
        && kind & abi::KIND_BITS == abi::SOCK_DGRAM
        && (protocol == 0 || protocol == abi::IPPROTO_UDP);
    if !is_asked {
        return None;
    }
    let before = abi::errno();
    let made = ask(-1, ASK_DATAGRAMS, [domain as usize, kind as usize]);
    if made < 0 {
        // Limits are the program's to see; else there is no engine, or it leaves this one to the kernel.
        let is_limit = [abi::ENFILE, abi::EMFILE].contains(&abi::errno());
        if !is_limit {
            abi::set_errno(before);
        }
        return is_limit.then_some(-1);
    }
    abi::set_errno(before);
    begin();
    let Some(known) = known(made) else {
        abi::close_new(made);
        return None;
    };
    known.store(IS_ONE, Ordering::Relaxed);
    Some(made)
}

/// Asks again while signals end the question.
fn ask(fd: c_int, name: c_int, arguments: [usize; 2]) -> c_int {
    for _ in 0..ASKS_MAX {
        let answer = abi::ask(fd, (LIBRARY_LEVEL, name), arguments);
        if answer >= 0 || abi::errno() != abi::EINTR {
            return answer;
        }
    }
    -1
}

/// Asks the engine what a socket is now. `Err`: it is none of its any more, and forgotten, or `errno` says why the call fails.
fn look(fd: c_int, to: [usize; 2]) -> Result<u8, Lost> {
    let state = ask(fd, ASK_STATE, to);
    let Some(known) = known(fd) else { return Err(Lost::Kernels) };
    if state >= 0 {
        let shut = known.load(Ordering::Relaxed) & (NO_READING | NO_WRITING);
        let bound = if state & STATE_BOUND != 0 { IS_BOUND } else { 0 };
        let connected = if state & STATE_CONNECTED != 0 { IS_CONNECTED } else { 0 };
        let now = IS_ONE | shut | bound | connected;
        known.store(now, Ordering::Relaxed);
        return Ok(now);
    }
    match abi::errno() {
        // What the kernel says of a level that no protocol has, of IPv6 or of IPv4: the socket is its own now.
        abi::ENOPROTOOPT | abi::ENOTSOCK | abi::EBADF => {
            forget(fd);
            Err(Lost::Kernels)
        }
        abi::EOPNOTSUPP if abi::domain(fd) != Some(abi::AF_UNIX) => {
            forget(fd);
            Err(Lost::Kernels)
        }
        // The same of the pair: its engine has ended.
        abi::EOPNOTSUPP => {
            abi::set_errno(abi::ENETDOWN);
            Err(Lost::Failed)
        }
        _ => Err(Lost::Failed),
    }
}

/// Why a call does not go to the engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The call is the kernel's.
    Kernels,
    /// It fails, and `errno` says why.
    Failed,
}

/// After a call that may have put the kernel's socket in the place of this one, or changed what it is.
pub(crate) fn may_have_changed(fd: c_int) {
    if !is_one(fd) {
        return;
    }
    let before = abi::errno();
    // An answer that fails changes nothing.
    let _ = look(fd, [0; 2]);
    abi::set_errno(before);
}

/// Whether a datagram may be sent to an address, or to the peer if there is none.
pub(crate) fn may_send(fd: c_int, to: *const c_void, to_len: c_uint) -> Result<(), Lost> {
    let now = bits(fd);
    if now & NO_WRITING != 0 {
        abi::set_errno(abi::EPIPE);
        return Err(Lost::Failed);
    }
    let is_named = !to.is_null() && to_len > 0;
    let needed = if is_named { IS_BOUND | IS_CONNECTED } else { IS_CONNECTED };
    if now & needed != 0 {
        return Ok(());
    }
    let before = abi::errno();
    let address = if is_named { [to.addr(), to_len as usize] } else { [0; 2] };
    let found = look(fd, address)?;
    if found & needed == 0 {
        abi::set_errno(abi::EDESTADDRREQ);
        return Err(Lost::Failed);
    }
    abi::set_errno(before);
    Ok(())
}

/// Whether the program has shut down reading.
pub(crate) fn is_deaf(fd: c_int) -> bool {
    bits(fd) & NO_READING != 0
}

/// As `shutdown(2)`: `ENOTCONN` without a peer, though readers hear of it (`net/ipv4/af_inet.c inet_shutdown`).
pub(crate) fn shut_down(fd: c_int, how: c_int) -> c_int {
    let shut = match how {
        abi::SHUT_RD => NO_READING,
        abi::SHUT_WR => NO_WRITING,
        abi::SHUT_RDWR => NO_READING | NO_WRITING,
        _ => {
            abi::set_errno(abi::EINVAL);
            return -1;
        }
    };
    let found = match look(fd, [0; 2]) {
        Ok(found) => found,
        Err(Lost::Failed) => return -1,
        // SAFETY: the call takes numbers only.
        Err(Lost::Kernels) => return unsafe { abi::shutdown(fd, how) },
    };
    if let Some(known) = known(fd) {
        known.fetch_or(shut, Ordering::Relaxed);
    }
    if shut & NO_READING != 0 {
        // Who waits is woken. The other half stays open, or the engine would take it for the end.
        // SAFETY: the call takes numbers only.
        unsafe { abi::shutdown(fd, abi::SHUT_RD) };
    }
    if found & IS_CONNECTED == 0 {
        abi::set_errno(abi::ENOTCONN);
        return -1;
    }
    0
}

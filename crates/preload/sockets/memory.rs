//! The memory that the engine and this process share, and who this process is.

use core::ffi::c_int;
use core::ptr::{NonNull, copy_nonoverlapping};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};

use super::abi;
use super::outbox::{ASK_MEMORY, LIBRARY_LEVEL, OUTBOX_BYTES, OUTBOXES_BYTES, OutboxMemory, OutboxWord, byte_offset};

/// It has not been asked for; it is being asked for; it is there; there is none for this process.
const NONE: u32 = 0;
const ASKING: u32 = 1;
const THERE: u32 = 2;
const NEVER: u32 = 3;

static STATE: AtomicU32 = AtomicU32::new(NONE);
static BASE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
/// A page that is zero in each child of this process; its first byte is 1 here.
static MARK: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static IS_BEGUN: AtomicBool = AtomicBool::new(false);

/// The memory, mapped for as long as the process lives.
#[derive(Clone, Copy)]
pub(crate) struct SharedMemory(NonNull<u8>);

impl SharedMemory {
    /// That of this process, if it has been asked for and given.
    pub(crate) fn get() -> Option<Self> {
        // Acquire: pairs with the Release of `ask`.
        if STATE.load(Ordering::Acquire) != THERE {
            return None;
        }
        NonNull::new(BASE.load(Ordering::Relaxed)).map(Self)
    }

    /// The same, asked for by a call on this socket if it has not been before.
    pub(crate) fn get_or_ask(fd: c_int) -> Option<Self> {
        if MARK.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let asked = STATE.compare_exchange(NONE, ASKING, Ordering::Acquire, Ordering::Relaxed);
        if asked.is_ok() {
            let state = match ask(fd) {
                Some(()) => THERE,
                None if abi::errno() == abi::EINTR => NONE,
                None => NEVER,
            };
            // Release: pairs with the Acquire of `get`.
            STATE.store(state, Ordering::Release);
        }
        Self::get()
    }

    /// No more of it in this process.
    pub(crate) fn give_up() {
        STATE.store(NEVER, Ordering::Release);
    }

    fn word(&self, word: OutboxWord) -> &AtomicU32 {
        let at = self.0.as_ptr().wrapping_add(word.offset()).cast::<AtomicU32>();
        // SAFETY: the offset lies in the mapping, which begins with a page and is never unmapped, at a multiple of 4; all who have the memory reach
        // its words as atomics.
        unsafe { &*at }
    }
}

fn ask(fd: c_int) -> Option<()> {
    let file = abi::ask(fd, (LIBRARY_LEVEL, ASK_MEMORY), [0; 2]);
    if file < 0 {
        return None;
    }
    let base = abi::map(file, OUTBOXES_BYTES);
    // SAFETY: it was just made, and no other code knows of it.
    unsafe { abi::close(file) };
    BASE.store(base?.as_ptr(), Ordering::Relaxed);
    Some(())
}

/// Lets forks be heard of, before there is anything that a child must not use.
pub(crate) fn begin(before_forks: extern "C" fn()) {
    if IS_BEGUN.swap(true, Ordering::Relaxed) {
        return;
    }
    let mark = abi::page_of_this_process().filter(|_| abi::before_forks(before_forks));
    let Some(mark) = mark else { return };
    // SAFETY: the page was just mapped, for reading and writing, and no other thread knows of it.
    unsafe { mark.as_ptr().write_volatile(1) };
    // Release: pairs with the Acquire of `is_forked`.
    MARK.store(mark.as_ptr(), Ordering::Release);
}

/// Whether this is a child of the process that began. Told once: it may ask for memory of its own then.
pub(crate) fn is_forked() -> bool {
    let Some(mark) = NonNull::new(MARK.load(Ordering::Acquire)) else { return false };
    // SAFETY: the page is mapped for as long as the process and its children live, and its first byte is reached as an atomic since others know of it.
    let mark = unsafe { AtomicU8::from_ptr(mark.as_ptr()) };
    let is_forked = mark.load(Ordering::Relaxed) == 0 && mark.swap(1, Ordering::Relaxed) == 0;
    if is_forked {
        STATE.store(NONE, Ordering::Relaxed);
    }
    is_forked
}

impl OutboxMemory for SharedMemory {
    fn load(&self, word: OutboxWord, order: Ordering) -> u32 {
        self.word(word).load(order)
    }

    fn store(&self, word: OutboxWord, value: u32, order: Ordering) {
        self.word(word).store(value, order);
    }

    fn set(&self, word: OutboxWord, bits: u32, order: Ordering) {
        self.word(word).fetch_or(bits, order);
    }

    fn take(&self, word: OutboxWord, order: Ordering) -> u32 {
        self.word(word).swap(0, order)
    }

    fn write(&self, ring: usize, at: usize, bytes: &[u8]) {
        let to = self.0.as_ptr().wrapping_add(byte_offset(ring, at));
        // They do, unless the program changes the lengths of its parts while it sends them.
        let len = bytes.len().min(OUTBOX_BYTES - at % OUTBOX_BYTES);
        // SAFETY: the range ends before the ring does, and the ring lies in the mapping; the bytes of a program are not there.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), to, len) };
    }

    fn read(&self, ring: usize, at: usize, into: &mut [u8]) {
        let from = self.0.as_ptr().wrapping_add(byte_offset(ring, at));
        let len = into.len().min(OUTBOX_BYTES - at % OUTBOX_BYTES);
        // SAFETY: as in `write`.
        unsafe { copy_nonoverlapping(from, into.as_mut_ptr(), len) };
    }
}

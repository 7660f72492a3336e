//! Which descriptors are connections of the engine, and which of them have a ring. An entry that is lost is a connection that goes on by its pair: so
//! whatever is not understood forgets the entry.
//!
//! ```text
//! accept, connect --> noted, 1 .. ASKS_AT writes --> the engine is asked --> has a ring --> forgotten: the pair for good
//!                                                        \--> it has none: forgotten
//! ```

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::memory::{self, SharedMemory};
use super::outbox::{ASK_LOOK, ASK_RING, LIBRARY_LEVEL, OUTBOXES, OutboxMemory, OutboxSender, OutboxWay, OutboxWord};
use super::{abi, guarded};

/// Descriptors that are looked at; those beyond have no ring.
const DESCRIPTORS: usize = 1 << 16;
/// Those below are the C library's streams', which write to them by calls inside of it.
const FIRST: c_int = 3;
/// Writes of a connection until a ring is asked for, which costs a held call.
const ASKS_AT: u32 = 4;
/// It has the ring whose number the lowest bits are.
const HAS_RING: u32 = 1 << 31;

/// WhyLeft a ring is left: places in `outbox::REASONS`.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum WhyLeft {
    Fork = 0,
    Dup = 1,
    Rights = 2,
    Syscall = 3,
    Fdopen = 4,
    Spawn = 5,
    Flag = 6,
    TwoThreads = 7,
    Dprintf = 8,
}

/// By descriptor: the generation in which it was noted, and below 0 for none, how often it was written to, or its ring.
static ENTRIES: [AtomicU64; DESCRIPTORS] = [const { AtomicU64::new(0) }; DESCRIPTORS];
/// Entries of another one are none: all connections that there are lose their rings when it changes.
static GENERATION: AtomicU32 = AtomicU32::new(1);
/// Where a free ring is looked for first.
static NEXT_RING: AtomicU32 = AtomicU32::new(0);

/// A ring, as this process uses it.
struct RingPlace {
    /// 1: a thread is inside.
    lock: AtomicU32,
    /// The descriptor that has it, and one more; 0: none.
    owner: AtomicI32,
    sender: UnsafeCell<Option<OutboxSender>>,
}

// SAFETY: `sender` is reached by the thread that has the lock alone.
unsafe impl Sync for RingPlace {}

static PLACES: [RingPlace; OUTBOXES] =
    [const { RingPlace { lock: AtomicU32::new(0), owner: AtomicI32::new(0), sender: UnsafeCell::new(None) } };
        OUTBOXES];

impl RingPlace {
    fn enter(&self) -> bool {
        // Acquire: pairs with the Release of `leave`.
        self.lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn leave(&self) {
        self.lock.store(0, Ordering::Release);
    }

    /// By a thread that is inside.
    #[expect(clippy::mut_from_ref, reason = "the lock is what makes it unique")]
    fn sender(&self) -> &mut Option<OutboxSender> {
        // SAFETY: the thread has the lock, and no reference outlives that.
        unsafe { &mut *self.sender.get() }
    }

    /// By a thread that is inside: no descriptor has it any more, for this reason if the ring is left early.
    fn let_go(&self, why: Option<WhyLeft>) {
        if let (Some(sender), Some(why), Some(memory)) = (self.sender().take(), why, SharedMemory::get()) {
            sender.leave(&memory, why as usize);
        }
        self.owner.store(0, Ordering::Relaxed);
    }
}

fn entry_of(fd: c_int) -> Option<&'static AtomicU64> {
    ENTRIES.get(usize::try_from(fd).ok()?)
}

fn of_now(value: u32) -> u64 {
    u64::from(GENERATION.load(Ordering::Relaxed)) << 32 | u64::from(value)
}

/// What is known of a descriptor: 0 for nothing.
fn value_of(entry: u64) -> u32 {
    if entry >> 32 == u64::from(GENERATION.load(Ordering::Relaxed)) { entry as u32 } else { 0 }
}

/// Whether anything is known of a descriptor.
pub(crate) fn is_noted(fd: c_int) -> bool {
    // Relaxed, as all accesses to entries: a program orders its own calls on a descriptor, and `RingPlace` what it stands for.
    entry_of(fd).is_some_and(|entry| entry.load(Ordering::Relaxed) != 0)
}

/// A descriptor may be a connection of the engine.
pub(crate) fn note(fd: c_int) {
    memory::begin(before_fork);
    look_for_forks();
    if let Some(entry) = entry_of(fd).filter(|_| fd >= FIRST) {
        forget(fd, None);
        entry.store(of_now(1), Ordering::Relaxed);
    }
}

/// Its next write asks for a ring.
pub(crate) fn hurry(fd: c_int) {
    let Some(entry) = entry_of(fd) else { return };
    let before = entry.load(Ordering::Relaxed);
    if (1..ASKS_AT).contains(&value_of(before)) {
        let _ = entry.compare_exchange(before, of_now(ASKS_AT), Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// It is closed, or goes on by its pair for this reason.
pub(crate) fn forget(fd: c_int, why: Option<WhyLeft>) {
    let Some(entry) = entry_of(fd) else { return };
    if entry.load(Ordering::Relaxed) == 0 {
        return;
    }
    let before = value_of(entry.swap(0, Ordering::Relaxed));
    let Some(place) = place_of(before) else { return };
    // A thread that is inside lets it go when it leaves.
    if place.enter() {
        if place.owner.load(Ordering::Relaxed) == fd.wrapping_add(1) {
            place.let_go(why);
        }
        place.leave();
    }
}

fn place_of(value: u32) -> Option<&'static RingPlace> {
    if value & HAS_RING == 0 { None } else { PLACES.get((value & !HAS_RING) as usize) }
}

/// All connections that there are go on by their pairs.
pub(crate) fn forget_all(why: WhyLeft) {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for place in PLACES.iter().filter(|place| place.owner.load(Ordering::Relaxed) != 0) {
        if place.enter() {
            place.let_go(Some(why));
            place.leave();
        }
    }
}

extern "C" fn before_fork() {
    guarded((), || forget_all(WhyLeft::Fork));
}

/// In a child of the process whose rings these are: it has none.
fn look_for_forks() {
    if !memory::is_forked() {
        return;
    }
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for place in &PLACES {
        place.owner.store(0, Ordering::Relaxed);
        place.lock.store(0, Ordering::Relaxed);
    }
}

/// What became of a write.
pub(crate) enum WriteSent {
    /// All of it is in the ring.
    ByRing,
    /// It has to go by the pair, and [`was_sent`] be told.
    ByPair(InPlace),
    /// It is none of the library's.
    Elsewhere,
}

/// A thread that is inside a place. No `Drop`: what unwinds the stack, or jumps over it, leaves the place closed, and other threads send by the pair.
#[derive(Clone, Copy)]
pub(crate) struct InPlace {
    place: &'static RingPlace,
    fd: c_int,
    ring: u32,
}

/// Puts the bytes of a write into the descriptor's ring, if that is the way that they go; with none given they go by the pair.
pub(crate) fn send<'b>(fd: c_int, len: usize, parts: Option<impl Iterator<Item = &'b [u8]>>) -> WriteSent {
    look_for_forks();
    let Some(entry) = entry_of(fd) else { return WriteSent::Elsewhere };
    let known = entry.load(Ordering::Relaxed);
    let value = match value_of(known) {
        0 => {
            let _ = entry.compare_exchange(known, 0, Ordering::Relaxed, Ordering::Relaxed);
            return WriteSent::Elsewhere;
        }
        has if has & HAS_RING != 0 => has,
        few if few < ASKS_AT => {
            let _ = entry.compare_exchange(known, of_now(few + 1), Ordering::Relaxed, Ordering::Relaxed);
            return WriteSent::Elsewhere;
        }
        _ => match attach(fd, entry, known) {
            Some(has) => has,
            None => return WriteSent::Elsewhere,
        },
    };
    let (Some(place), Some(memory)) = (place_of(value), SharedMemory::get()) else { return WriteSent::Elsewhere };
    if !place.enter() {
        forget(fd, Some(WhyLeft::TwoThreads));
        return WriteSent::Elsewhere;
    }
    let inside = InPlace { place, fd, ring: value & !HAS_RING };
    let is_its = place.owner.load(Ordering::Relaxed) == fd.wrapping_add(1);
    let Some(sender) = place.sender().as_mut().filter(|_| is_its) else {
        place.leave();
        return WriteSent::Elsewhere;
    };
    let Some(parts) = parts.filter(|_| len > 0 && sender.way(&memory, len) == OutboxWay::Ring) else {
        return WriteSent::ByPair(inside);
    };
    let calls = sender.put(&memory, parts);
    inside.leave(0);
    if calls {
        let before = abi::errno();
        abi::ask(fd, (LIBRARY_LEVEL, ASK_LOOK), [0; 2]);
        abi::set_errno(before);
    }
    WriteSent::ByRing
}

/// The call by the pair has returned this.
pub(crate) fn was_sent(inside: InPlace, count: isize) {
    inside.leave(u32::try_from(count).unwrap_or(0));
}

impl InPlace {
    fn leave(self, sent: u32) {
        if let Some(sender) = self.place.sender() {
            sender.sent_by_pair(sent);
        }
        let known = entry_of(self.fd).map_or(0, |entry| value_of(entry.load(Ordering::Relaxed)));
        let is_its = self.place.owner.load(Ordering::Relaxed) == self.fd.wrapping_add(1);
        if is_its && known != HAS_RING | self.ring {
            self.place.let_go(Some(WhyLeft::TwoThreads));
        }
        self.place.leave();
    }
}

/// Asks the engine for a ring; what is known of the descriptor then, if it has one.
fn attach(fd: c_int, entry: &AtomicU64, known: u64) -> Option<u32> {
    let before = abi::errno();
    let attached = SharedMemory::get_or_ask(fd).and_then(|memory| ring_for(fd, &memory));
    abi::set_errno(before);
    let value = attached.map(|ring| HAS_RING | ring);
    let next = value.map_or(0, of_now);
    let is_known = entry.compare_exchange(known, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if let (Some(place), false) = (value.and_then(place_of), is_known) {
        // Closed meanwhile, or another thread was first.
        if place.enter() {
            place.let_go(Some(WhyLeft::TwoThreads));
            place.leave();
        }
        return None;
    }
    value
}

fn ring_for(fd: c_int, memory: &SharedMemory) -> Option<u32> {
    let first = NEXT_RING.fetch_add(1, Ordering::Relaxed) as usize;
    let is_closed = |ring: usize| memory.load(OutboxWord::Closed(ring), Ordering::Relaxed) != 0;
    let takes = |ring: usize| {
        let owner = PLACES.get(ring).map(|place| &place.owner);
        owner.is_some_and(|owner| {
            owner.compare_exchange(0, fd.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        })
    };
    let ring =
        (0..OUTBOXES).map(|nth| first.wrapping_add(nth) % OUTBOXES).find(|ring| is_closed(*ring) && takes(*ring))?;
    let place = PLACES.get(ring)?;
    let number = memory.load(OutboxWord::Number, Ordering::Relaxed) as usize;
    if abi::ask(fd, (LIBRARY_LEVEL, ASK_RING), [number, ring]) != 0 || !place.enter() {
        place.owner.store(0, Ordering::Relaxed);
        return None;
    }
    *place.sender() = Some(OutboxSender::new(memory, ring));
    place.leave();
    Some(ring as u32)
}

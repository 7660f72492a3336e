//! Send buffers: how many bytes of a socket are on their way, and who is told when that has become less.
//!
//! A packet that a queueing discipline takes is charged to its socket with its *truesize* and credited when its frame
//! goes home: sent and read, or dropped (`sk_wmem_alloc`; `net/core/sock.c sock_wfree`). A socket with [`SNDBUF_DEFAULT`]
//! bytes or more on their way sends no more until half of its buffer is free (`include/net/sock.h sock_writeable`).
//!
//! A credit tells no thread unless it is the one that comes to that half: each way down crosses it once, so that a wake-up
//! is paid for by half a buffer of packets. Who sleeps has looked after it announced itself ([`Parker`](crate::wait::park::Parker),
//! [`Demand`](napier_ring::Demand)), and the thread that crosses asks for sleepers after that: one of the two sees the other.
//!
//! Buffers are known by number, so that a frame can carry one. They are never moved or freed, only used again.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use arc_swap::ArcSwapOption;

use crate::device::OnRoom;
use crate::wait::park::Sleeper;

/// Default of SO_SNDBUF in bytes. Source: `include/net/sock.h SK_WMEM_DEFAULT`, as on a machine with 4 KiB pages.
pub(crate) const SNDBUF_DEFAULT: usize = 212_992;
/// Smallest send buffer in bytes. Source: `include/net/sock.h SOCK_MIN_SNDBUF` (two times 2048 and the size of an sk_buff).
pub(crate) const SNDBUF_MIN: usize = 4608;
/// What a packet is charged beside its frame. Source: `include/linux/skbuff.h SKB_TRUESIZE`, of an sk_buff (256) and its
/// skb_shared_info (320).
pub const OVERHEAD_BYTES: u32 = 576;

/// Buffers of the first chunk; each further one has twice as many.
const FIRST_CHUNK: u32 = 64;
const CHUNKS: usize = 15;
/// Numbers at most: about two million sockets of a name space.
const NUMBERS_MAX: u32 = (FIRST_CHUNK << CHUNKS) - FIRST_CHUNK;
/// Former buffers that are looked at for one that is empty.
const LOOKS_MAX: usize = 8;

/// A socket with a send buffer.
pub(crate) trait BufferOwner: OnRoom + Sleeper {
    /// Half of the buffer is free again: wakes threads and contexts that wait to send.
    fn credited(&self);
}

/// What is on its way for one socket. Senders and completions write to it, and to nothing beside it.
#[repr(align(128))]
#[derive(Default)]
struct Buffer {
    charged: AtomicI64,
    /// SO_SNDBUF.
    limit: AtomicUsize,
    socket: ArcSwapOption<Weak<dyn BufferOwner>>,
}

impl Buffer {
    fn low(&self) -> i64 {
        (self.limit.load(Ordering::Relaxed) / 2).cast_signed() as i64
    }
}

/// The send buffers of a name space, by number.
pub struct SendBuffers {
    chunks: [OnceLock<Box<[Buffer]>>; CHUNKS],
    numbers: Mutex<Numbers>,
}

/// Numbers that are free.
#[derive(Default)]
struct Numbers {
    given: u32,
    /// Of sockets that are closed; packets of theirs may still be on their way.
    closed: VecDeque<u32>,
}

/// A socket's send buffer.
pub(crate) struct SendBuffer {
    all: Arc<SendBuffers>,
    /// 0: it has none, and nothing is charged.
    pub(crate) number: u32,
    /// What a device was asked for: a [`Want`].
    wants: AtomicU8,
}

/// What a sender waits for, and a device was asked to tell it of.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Want {
    Nothing = 0,
    /// That its packets come home: the device is to look after them though no other thread may send.
    Credit = 1,
    /// That the device takes packets.
    Device = 2,
}

impl SendBuffers {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { chunks: [const { OnceLock::new() }; CHUNKS], numbers: Mutex::default() })
    }

    #[inline]
    fn get(&self, number: u32) -> &Buffer {
        let (chunk, at) = place(number);
        &self.chunks[chunk].get().expect("a number that was given out")[at]
    }

    /// A packet of this truesize is on its way.
    #[inline]
    pub fn charge(&self, number: u32, bytes: u32) {
        // Relaxed: a limit, not a hand-over. The frame that carries the number publishes it.
        self.get(number).charged.fetch_add(bytes.into(), Ordering::Relaxed);
    }

    /// Packets of this truesize are not any more. True if the socket is to be [told](Self::tell), by a thread that holds no
    /// lock.
    #[must_use = "a sender may sleep until it is told"]
    #[inline]
    pub fn credit(&self, number: u32, bytes: u32) -> bool {
        let (buffer, bytes) = (self.get(number), i64::from(bytes));
        // Relaxed: whoever tells the socket asks with a fence of its own whether anybody sleeps.
        let before = buffer.charged.fetch_sub(bytes, Ordering::Relaxed);
        let low = buffer.low();
        before > low && before - bytes <= low
    }

    /// Wakes who waits to send on this socket. At most one system call for each sleeper and event context.
    #[cold]
    pub fn tell(&self, number: u32) {
        let socket = self.get(number).socket.load();
        if let Some(socket) = socket.as_deref().and_then(Weak::upgrade) {
            socket.credited();
        }
    }
}

/// Chunk and place of a number, which is not 0.
#[inline]
fn place(number: u32) -> (usize, usize) {
    let n = number - 1 + FIRST_CHUNK;
    let chunk = n.ilog2() - FIRST_CHUNK.ilog2();
    (chunk as usize, (n - (FIRST_CHUNK << chunk)) as usize)
}

impl SendBuffers {
    /// A buffer for a new socket; number 0, without a limit, if there are no more. For programs: it takes a lock.
    pub(crate) fn open(self: &Arc<Self>) -> SendBuffer {
        let number = self.numbers().next(self);
        if number != 0 {
            self.get(number).limit.store(SNDBUF_DEFAULT, Ordering::Relaxed);
        }
        SendBuffer { all: self.clone(), number, wants: AtomicU8::new(Want::Nothing as u8) }
    }

    /// The socket is closed.
    pub(crate) fn close(&self, buffer: &SendBuffer) {
        if buffer.number != 0 {
            self.get(buffer.number).socket.store(None);
            self.numbers().closed.push_back(buffer.number);
        }
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Numbers {
    fn next(&mut self, all: &SendBuffers) -> u32 {
        for _ in 0..self.closed.len().min(LOOKS_MAX) {
            let Some(number) = self.closed.pop_front() else { break };
            // Acquire: pairs with nothing that is read here; what was charged is credited once, and a number of no one is
            // charged by nobody.
            if all.get(number).charged.load(Ordering::Acquire) == 0 {
                return number;
            }
            self.closed.push_back(number);
        }
        if self.given == NUMBERS_MAX {
            return 0;
        }
        self.given += 1;
        let (chunk, _) = place(self.given);
        all.chunks[chunk].get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| Buffer::default()).collect());
        self.given
    }
}

impl SendBuffer {
    /// Whom credits are told to.
    pub(crate) fn belongs_to(&self, socket: Weak<dyn BufferOwner>) {
        if self.number != 0 {
            self.all.get(self.number).socket.store(Some(Arc::new(socket)));
        }
    }

    /// The socket, for those that have a borrow of it only; `None` while it is made or closed.
    pub(crate) fn socket(&self) -> Option<Arc<dyn BufferOwner>> {
        if self.number == 0 {
            return None;
        }
        self.all.get(self.number).socket.load().as_deref().and_then(Weak::upgrade)
    }

    /// Bytes on their way.
    #[inline]
    pub(crate) fn charged(&self) -> usize {
        if self.number == 0 {
            return 0;
        }
        // Relaxed: a limit. Below 0 for a moment if a charge is seen late.
        self.all.get(self.number).charged.load(Ordering::Relaxed).max(0).cast_unsigned() as usize
    }

    pub(crate) fn limit(&self) -> usize {
        if self.number == 0 { SNDBUF_DEFAULT } else { self.all.get(self.number).limit.load(Ordering::Relaxed) }
    }

    pub(crate) fn set_limit(&self, bytes: usize) {
        if self.number != 0 {
            self.all.get(self.number).limit.store(bytes, Ordering::Relaxed);
        }
    }

    /// Whether a packet may be sent (`net/core/sock.c sock_alloc_send_pskb`).
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.charged() < self.limit()
    }

    /// Whether a sender that found no room goes on, and a context reports that it may send.
    pub(crate) fn is_writable(&self) -> bool {
        self.wants.load(Ordering::Relaxed) != Want::Device as u8 && self.has_half()
    }

    fn has_half(&self) -> bool {
        self.charged() <= self.limit() / 2
    }

    /// The device is asked for nothing.
    pub(crate) fn wants_nothing(&self) -> bool {
        self.wants.load(Ordering::Relaxed) == Want::Nothing as u8
    }

    /// The device is asked for this; true if it is not asked for anything yet.
    pub(crate) fn begin_to_want(&self, want: Want) -> bool {
        // Relaxed: whoever answers finds it by way of the device's list.
        self.wants.swap(want as u8, Ordering::Relaxed) == Want::Nothing as u8
    }

    /// Half of it is free: a device that was asked for that is asked for nothing.
    pub(super) fn is_credited(&self) {
        let (credit, nothing) = (Want::Credit as u8, Want::Nothing as u8);
        // Relaxed: what a device was asked for is asked again by whoever finds no room again.
        let _ = self.wants.compare_exchange(credit, nothing, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The device has forgotten whom it was to tell, or could not be asked.
    pub(crate) fn want_nothing(&self) {
        self.wants.store(Want::Nothing as u8, Ordering::Relaxed);
    }

    /// The device has looked after the packets and has room; false if the sender waits for more.
    pub(super) fn is_served(&self) -> bool {
        if self.wants.load(Ordering::Relaxed) == Want::Credit as u8 && !self.has_half() {
            return false;
        }
        self.want_nothing();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_places_of_their_own() {
        let mut seen = std::collections::HashSet::new();
        for number in 1..10_000 {
            let (chunk, at) = place(number);
            assert!(at < (FIRST_CHUNK as usize) << chunk && seen.insert((chunk, at)));
        }
        assert_eq!(place(NUMBERS_MAX).0, CHUNKS - 1);
    }

    #[test]
    fn a_way_down_crosses_the_half_once() {
        let all = SendBuffers::new();
        let buffer = all.open();
        buffer.set_limit(10_000);
        (0..10).for_each(|_| all.charge(buffer.number, 1000));
        assert!(!buffer.has_room());
        let told: Vec<_> = (0..10).map(|_| all.credit(buffer.number, 1000)).collect();
        assert_eq!(told.iter().position(|told| *told), Some(4), "at the half");
        assert_eq!(told.iter().filter(|told| **told).count(), 1);
        assert_eq!(buffer.charged(), 0);
    }

    #[test]
    fn a_number_is_used_again_when_nothing_of_it_is_on_its_way() {
        let all = SendBuffers::new();
        let (first, second) = (all.open(), all.open());
        all.charge(first.number, 100);
        all.close(&first);
        all.close(&second);
        assert_eq!(all.open().number, second.number);
        assert!(![first.number, second.number].contains(&all.open().number));
        let _ = all.credit(first.number, 100);
        assert_eq!(all.open().number, first.number);
    }
}

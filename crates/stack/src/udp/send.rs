//! Sending: headers and payload are built in the transmit slot itself, from a path that was worked out before.
//!
//! A socket remembers its paths: a connected socket one, others a few, by destination (`paths`). A path is good while neither
//! the name space's devices and neighbours nor the socket's own ends have changed; both are one number each to compare.
//! Two threads that send on one socket at the same time do not wait for each other: the second works without the memory.

use std::io;
use std::sync::atomic::Ordering;

use napier_core::time::{Deadline, Instant, Span};
use napier_sys::clock::Clock;

use crate::counters::Counter;
use crate::device::{PacketClass, TxError};
use crate::errno::errno;
use crate::tables::Tables;
use crate::tables::neighbour::Key;
use crate::tables::path::Destination;
use crate::udp::long::send_long;
use crate::udp::paths::{self, Resolved, UdpPath, hold};
use crate::udp::queue::UdpInner;
use crate::udp::segments::send_segments;
use crate::udp::sndbuf::Want;
use crate::udp::wishes::Wish;

/// Times that a blocking sender yields for a full ring before it gives up with ENOBUFS.
const FULL_YIELDS_MAX: u32 = 10_000;
/// Times that a blocking sender yields for a discipline that takes nothing now, or for its packets to come home, before it
/// sleeps.
const LOOKS: u32 = 8;
/// A sleeping sender looks again after this long, also if it was not told that there is room.
const ASK_AGAIN_AFTER: Span = Span { ns: 100_000_000 };

/// A datagram that is not built yet.
#[derive(Copy, Clone)]
pub(super) struct Datagram {
    pub(super) len_max: usize,
    pub(super) departs: Option<Instant>,
}

impl UdpInner {
    /// Sends one datagram to `target`, or to the peer. `build` fills a slice of exactly `len_max` bytes, at most once,
    /// and gives the payload's length.
    pub(crate) fn send(
        &self,
        tables: &Tables,
        target: Option<Destination>,
        len_max: usize,
        departs: Option<Instant>,
        build: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> io::Result<usize> {
        self.check_told()?;
        let packet = Datagram { len_max, departs };
        // Acquire: pairs with the Release in `edit_routes` and `connect` — what was changed before is seen below.
        let now = (tables.generation.load(Ordering::Acquire), self.ends_epoch.load(Ordering::Acquire));
        let Some(mut cache) = self.paths.try_enter() else {
            let target = target.or_else(|| self.peer()).ok_or_else(|| errno(libc::EDESTADDRREQ))?;
            let Resolved { path, unknown, .. } = self.resolve(tables, target)?;
            return self.send_on(tables, &path, unknown, packet, build);
        };
        if cache.made_at != now {
            cache.forget(now);
        }
        let target = match target.or(cache.peer) {
            Some(target) => target,
            None => *cache.peer.insert(self.peer().ok_or_else(|| errno(libc::EDESTADDRREQ))?),
        };
        if let Some(path) = cache.find(target).filter(|path| path.does_for(len_max)) {
            return self.send_on(tables, path, None, packet, build);
        }
        let Resolved { path, unknown, .. } = self.resolve(tables, target)?;
        if unknown.is_some() {
            return self.send_on(tables, &path, unknown, packet, build);
        }
        self.send_on(tables, cache.keep(path), None, packet, build)
    }

    /// As [`send`](Self::send), by what this call wants of the packet: the way is worked out for it alone.
    pub(crate) fn send_wished(
        &self,
        tables: &Tables,
        target: Option<Destination>,
        (payload, departs): (&[u8], Option<Instant>),
        wish: &Wish,
    ) -> io::Result<usize> {
        self.check_told()?;
        let target = target.or_else(|| self.peer()).ok_or_else(|| errno(libc::EDESTADDRREQ))?;
        let Resolved { path, unknown, .. } = self.resolve_for(tables, target, wish)?;
        if path.segment != 0 {
            return send_segments(self, tables, &path, unknown, (payload, departs));
        }
        self.send_on(tables, &path, unknown, Datagram { len_max: payload.len(), departs }, &mut |slot| {
            slot.copy_from_slice(payload);
            payload.len()
        })
    }

    fn peer(&self) -> Option<Destination> {
        let ends = self.ends.load();
        ends.tuple.peer.map(|dst| Destination { dst, scope: ends.peer_scope })
    }

    #[cold]
    fn resolve(&self, tables: &Tables, target: Destination) -> io::Result<Resolved> {
        self.resolve_for(tables, target, &self.wishes.get())
    }

    fn resolve_for(&self, tables: &Tables, target: Destination, wish: &Wish) -> io::Result<Resolved> {
        tables.check_running()?;
        let resolved = {
            let own = (self.ends.load().tuple.local, self.family);
            paths::resolve(&tables.snapshot.load(), own, target, wish)?
        };
        if let Some(key) = resolved.stale {
            tables.used(key);
        }
        Ok(resolved)
    }

    #[inline]
    pub(super) fn send_on(
        &self,
        tables: &Tables,
        path: &UdpPath,
        unknown: Option<Key>,
        packet: Datagram,
        build: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> io::Result<usize> {
        let Datagram { len_max, departs } = packet;
        if len_max > path.payload_max {
            return send_long(self, tables, path, unknown, packet, build);
        }
        let head = path.template.len();
        let mut payload_len = 0;
        let mut fill = |slot: &mut [u8]| {
            let payload = &mut slot[head..head + len_max];
            payload_len = build(payload);
            assert!(payload_len <= len_max, "a datagram longer than the slice that it was built in");
            path.template.finish(slot, payload_len)
        };
        let class = self.class(path, departs);
        match unknown {
            None => {
                if !self.transmit(tables, path, &class, head + len_max, &mut fill)? {
                    return Ok(payload_len);
                }
            }
            Some(key) => hold(tables, class, key, head + len_max, &mut fill)?,
        }
        let v4 = path.target.dst.addr.is_v4();
        tables.counters.count(if v4 { Counter::UdpOutDatagrams } else { Counter::Udp6OutDatagrams });
        Ok(payload_len)
    }

    #[inline]
    pub(super) fn class(&self, path: &UdpPath, departs: Option<Instant>) -> PacketClass {
        PacketClass {
            flow_hash: path.flow_hash,
            priority: self.egress.priority.load(Ordering::Relaxed),
            pacing_rate: self.egress.pacing_rate.load(Ordering::Relaxed),
            departs,
            queue: path.tx_queue,
            charged_to: self.send_buffer.number,
            comes_again: true,
        }
    }

    /// False if the discipline dropped the packet and the socket does not want to know, as UDP sends.
    #[inline]
    pub(super) fn transmit(
        &self,
        tables: &Tables,
        path: &UdpPath,
        class: &PacketClass,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> io::Result<bool> {
        let mut yields = 0;
        while yields < FULL_YIELDS_MAX {
            if !self.send_buffer.has_room() {
                self.wait_for_room(tables, path, class, Want::Credit)?;
                continue;
            }
            match path.interface.egress.transmit(class, len_max, fill) {
                Ok(()) => {
                    if !self.send_buffer.is_writable() && self.nonblocking.now() {
                        self.ask_for_credit(path, class);
                    }
                    return Ok(true);
                }
                Err(TxError::Dropped) => return self.dropped(tables, path),
                Err(TxError::Down) => {
                    return Err(tables.check_running().err().unwrap_or_else(|| errno(libc::ENETDOWN)));
                }
                Err(TxError::Full) if self.nonblocking.now() => {
                    self.ask_device(path, class, Want::Device);
                    return Err(full(tables, path, libc::EAGAIN));
                }
                Err(TxError::Busy) if yields >= LOOKS || self.nonblocking.now() => {
                    yields = 0;
                    self.wait_for_room(tables, path, class, Want::Device)?;
                }
                Err(TxError::Full | TxError::Busy) => {
                    yields += 1;
                    std::thread::yield_now();
                }
            }
        }
        Err(full(tables, path, libc::ENOBUFS))
    }

    /// The discipline has dropped a packet.
    ///
    /// # Errors
    /// ENOBUFS if the socket wants to know.
    #[cold]
    pub(super) fn dropped(&self, tables: &Tables, path: &UdpPath) -> io::Result<bool> {
        let error = full(tables, path, libc::ENOBUFS);
        if self.egress.recverr.load(Ordering::Relaxed) { Err(error) } else { Ok(false) }
    }

    /// More than half of the buffer is used: a context that waits for the socket is to hear when it is not any more.
    #[cold]
    pub(super) fn ask_for_credit(&self, path: &UdpPath, class: &PacketClass) {
        if self.send_buffer.wants_nothing() {
            self.ask_device(path, class, Want::Credit);
        }
    }

    /// The device is to tell the socket, unless it has been asked already.
    fn ask_device(&self, path: &UdpPath, class: &PacketClass, want: Want) {
        let (buffer, egress) = (&self.send_buffer, &path.interface.egress);
        if buffer.begin_to_want(want) && !buffer.socket().is_some_and(|me| egress.await_room(class, me)) {
            buffer.want_nothing();
        }
    }

    /// Waits until more may be sent: by looking a few times, then asleep.
    ///
    /// # Errors
    /// EAGAIN for a socket that does not wait; ESHUTDOWN.
    #[cold]
    fn wait_for_room(&self, tables: &Tables, path: &UdpPath, class: &PacketClass, want: Want) -> io::Result<()> {
        let (buffer, egress) = (&self.send_buffer, &path.interface.egress);
        let nonblocking = self.nonblocking.now();
        let looks = match want {
            Want::Credit if nonblocking => 1,
            Want::Credit => LOOKS,
            Want::Device | Want::Nothing => 0, // it has been looked for
        };
        for _ in 0..looks {
            egress.look_for_room(class);
            if buffer.is_writable() || nonblocking && buffer.has_room() {
                return Ok(());
            }
            if !nonblocking {
                // Whoever enqueues or reads may only need a processor.
                std::thread::yield_now();
            }
        }
        self.ask_device(path, class, want);
        if nonblocking {
            return Err(full(tables, path, libc::EAGAIN));
        }
        let until = Deadline::after(Clock.now(), ASK_AGAIN_AFTER);
        if !self.send_parker.wait(|| buffer.is_writable() || self.is_stopped(), until, &Clock) {
            // A device that has gone down may have forgotten whom it was to tell; it says so when it is asked again.
            buffer.want_nothing();
        }
        tables.check_running()
    }
}

#[cold]
fn full(tables: &Tables, path: &UdpPath, code: i32) -> io::Error {
    let v4 = path.target.dst.addr.is_v4();
    tables.counters.count(if v4 { Counter::UdpSndbufErrors } else { Counter::Udp6SndbufErrors });
    errno(code)
}

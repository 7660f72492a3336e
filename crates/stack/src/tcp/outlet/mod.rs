//! The way out of a connection: where its packets go, and what becomes of those that cannot leave at once.
//!
//! | the device says | the packet | then |
//! |---|---|---|
//! | taken, or dropped by its discipline | gone | an acknowledgement or the retransmission timer |
//! | ring full | kept, in order; nothing else is built meanwhile | tried again with the next packet or tick |
//! | ring full, and the packet only acknowledges | takes the place of one that waits | what it says includes what that said |
//! | ring full, and [`UNSENT_MAX`] wait | lost and counted | the retransmission timer |
//! | down, or no device leads there | lost and counted | the retransmission timer |
//! | neighbour unknown | held as a datagram would be (see `neighbour/pending`) | its answer, or the retransmission timer |

mod frame;
pub(super) mod route;

use std::collections::VecDeque;
use std::mem::offset_of;
use std::sync::Arc;

use crate::counters::Counter;
use crate::device::{OnRoom, PacketClass, TxError};
use crate::tables::neighbour::{HeldPacket, Key};
use crate::tables::{Interface, Tables};
use crate::tcp::workspace::PacketSink;
use crate::wait::deferred::{self, Work};
use crate::wire::{ETH_LEN, IPV6_LEN, flag};
use frame::{Head, build, in_memory};
use route::Route;

/// Frames of a connection that wait for room in the ring. Data is built only when none waits, so these are answers to what
/// the peer sends, who must not be able to fill memory with them.
const UNSENT_MAX: usize = 64;
/// Longest frame of a segment without data.
const BARE_MAX: usize = ETH_LEN + IPV6_LEN + 60;

/// What was seen of the packets that left. The route is the last, for what it ends with is seldom used.
#[repr(C)]
pub(super) struct Outlet {
    /// Whole frames that the ring had no room for.
    unsent: VecDeque<Box<[u8]>>,
    /// Bytes of the longest segment that was sent.
    longest: usize,
    /// End of the sequence space that was sent so far.
    sent_to: Option<u32>,
    /// End of a segment that was sent again since this was cleared.
    pub(super) sent_again: Option<u32>,
    /// The first number that was sent, of the SYN.
    first: u32,
    /// The first acknowledgement that was sent: the number of the peer's first byte.
    first_ack: Option<u32>,
    /// The last.
    acked_to: Option<u32>,
    /// The last of `unsent` is an acknowledgement and nothing else.
    ends_bare: bool,
    /// The last packet carried data, and not the last there was.
    more: bool,
    /// It was shorter than a packet may be.
    short: bool,
    /// Something was sent since this was cleared.
    pub(super) sent: bool,
    /// What was sent again since this was cleared: the first number, and bytes of the packet.
    pub(super) again: Option<(u32, usize)>,
    /// No station answers for the peer's address.
    pub(super) unreachable: bool,
    /// The thread that has the connection has sent, and kicks devices when it has let go.
    pub(super) holds_kicks: bool,
    pub(super) route: Route,
}

impl Outlet {
    /// How much of it a packet touches, from its beginning.
    pub(super) const USED_BYTES: usize = offset_of!(Self, route) + Route::USED_BYTES;

    pub(super) fn new(route: Route) -> Self {
        let unsent = VecDeque::new();
        Self {
            route,
            unsent,
            ends_bare: false,
            sent_to: None,
            longest: 0,
            sent_again: None,
            again: None,
            first: 0,
            first_ack: None,
            acked_to: None,
            more: false,
            short: false,
            sent: false,
            unreachable: false,
            holds_kicks: false,
        }
    }

    /// SND.MAX: behind all that was ever sent.
    pub(super) fn sent_to(&self) -> Option<u32> {
        self.sent_to
    }

    /// Bytes of data in the longest segment that was sent.
    pub(super) fn longest(&self) -> u32 {
        u32::try_from(self.longest).expect("at most 64 KiB")
    }

    /// Segments have at most so many bytes of data from now on; whether longer ones were sent.
    pub(super) fn shorten(&mut self, bytes: usize) -> bool {
        let were_longer = self.longest > bytes;
        self.longest = self.longest.min(bytes);
        were_longer
    }

    /// The number of our SYN, if it has left.
    pub(super) fn first(&self) -> Option<u32> {
        self.sent_to.map(|_| self.first)
    }

    /// The number of the peer's first byte.
    pub(super) fn first_ack(&self) -> Option<u32> {
        self.first_ack
    }

    /// What was acknowledged last.
    pub(super) fn acked_to(&self) -> Option<u32> {
        self.acked_to
    }

    /// Whether frames wait for room in the ring.
    pub(super) fn is_stuck(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Has `waiter` called when what waits can leave; false: it will not be.
    pub(super) fn await_room(&self, waiter: Arc<dyn OnRoom>) -> bool {
        self.route.interface.as_ref().is_some_and(|interface| interface.egress.await_room(&self.route.class, waiter))
    }

    /// Tries again to send what waits.
    #[inline]
    pub(super) fn flush(&mut self, tables: &Tables) {
        if self.is_stuck() {
            self.hold_kicks();
        }
        while let Some(frame) = self.unsent.front() {
            let Some(interface) = &self.route.interface else {
                tables.counters.add(Counter::IpOutNoRoutes, self.unsent.len() as u64);
                self.unsent.clear();
                self.ends_bare = false;
                return;
            };
            let sent = interface.egress.transmit(&self.route.class, frame.len(), &mut |slot| {
                slot[..frame.len()].copy_from_slice(frame);
                frame.len()
            });
            match sent {
                Err(TxError::Full | TxError::Busy) => return,
                Err(TxError::Down) => tables.counters.count(Counter::TcpTxDrops),
                Ok(()) | Err(TxError::Dropped) => {}
            }
            self.unsent.pop_front();
            self.ends_bare &= !self.unsent.is_empty();
        }
    }

    #[inline]
    fn hold_kicks(&mut self) {
        if !std::mem::replace(&mut self.holds_kicks, true) {
            deferred::hold(Work::Kicks);
        }
    }

    /// Whether the last packet ended before the data did, with room left in it.
    #[inline]
    pub(super) fn cut_short(&mut self) -> bool {
        std::mem::take(&mut self.short)
    }

    pub(super) fn sink<'a>(&'a mut self, tables: &'a Tables) -> Departures<'a> {
        Departures { tables, outlet: self }
    }

    fn note(&mut self, tables: &Tables, head: Head) {
        self.sent = true;
        self.more = head.payload > 0 && head.flags & (flag::PSH | flag::FIN) == 0;
        self.short = self.more && head.len < self.route.mtu();
        let occupied = u32::from(head.flags & (flag::SYN | flag::FIN) != 0);
        let end = head.seq.wrapping_add(u32::try_from(head.payload).expect("at most 64 KiB") + occupied);
        if head.flags & flag::RST != 0 {
            tables.counters.count(Counter::TcpOutRsts);
        } else if head.flags & flag::ACK != 0 {
            self.first_ack.get_or_insert(head.ack);
            self.acked_to = Some(head.ack);
        }
        let before = self.sent_to.is_some_and(|to| head.seq.wrapping_sub(to).cast_signed() < 0);
        self.longest = self.longest.max(head.payload);
        if before && end != head.seq && head.flags & flag::RST == 0 {
            self.sent_again = Some(end);
            self.again.get_or_insert((head.seq, head.len));
            return tables.counters.count(Counter::TcpRetransSegs);
        }
        tables.counters.count(Counter::TcpOutSegs);
        match self.sent_to {
            None => (self.first, self.sent_to) = (head.seq, Some(end)),
            Some(to) if end.wrapping_sub(to).cast_signed() > 0 => self.sent_to = Some(end),
            Some(_) => {}
        }
    }
}

/// Sends the packets of one connection.
pub(super) struct Departures<'a> {
    tables: &'a Tables,
    outlet: &'a mut Outlet,
}

impl PacketSink for Departures<'_> {
    fn is_open(&self) -> bool {
        self.outlet.unsent.is_empty()
    }

    fn wants_more(&self) -> bool {
        self.outlet.more
    }

    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) {
        let Self { tables, outlet } = self;
        outlet.hold_kicks();
        outlet.route.refresh(tables);
        let total = ETH_LEN + len;
        let Some(interface) = outlet.route.interface.clone() else {
            tables.counters.count(Counter::IpOutNoRoutes);
            return drop(in_memory(total, &mut |frame| fill(&mut frame[ETH_LEN..])));
        };
        let Some(mac) = outlet.route.mac else {
            let mut head = None;
            let frame = in_memory(total, &mut |frame| head = Some(build(frame, interface.mac, [0; 6], fill)));
            outlet.note(tables, head.expect("built"));
            return outlet.hold(tables, &interface, frame);
        };
        let mut head = None;
        let mut whole = |slot: &mut [u8]| {
            head = Some(build(&mut slot[..total], interface.mac, mac, fill));
            total
        };
        let result = if outlet.unsent.is_empty() {
            interface.egress.transmit(&outlet.route.class, total, &mut whole)
        } else {
            Err(TxError::Full)
        };
        match result {
            Ok(()) | Err(TxError::Dropped) => {}
            Err(TxError::Down) => {
                tables.counters.count(Counter::TcpTxDrops);
                drop(in_memory(total, &mut |frame| _ = whole(frame)));
            }
            Err(TxError::Full | TxError::Busy) => {
                let made =
                    outlet.wait(tables, total, &mut |frame| build(&mut frame[..total], interface.mac, mac, fill));
                head = Some(made);
            }
        }
        outlet.note(tables, head.expect("a device that takes a packet has it built"));
    }
}

impl Outlet {
    /// The ring is full: puts a frame of `total` bytes aside.
    #[cold]
    fn wait(&mut self, tables: &Tables, total: usize, make: &mut dyn FnMut(&mut [u8]) -> Head) -> Head {
        let mut short = [0; BARE_MAX];
        let mut long = Vec::new();
        let frame = if total <= BARE_MAX {
            &mut short[..total]
        } else {
            long.resize(total, 0);
            &mut long[..]
        };
        let head = make(frame);
        let bare = head.payload == 0 && head.flags == flag::ACK;
        tables.counters.count(Counter::TcpTxWaits);
        if bare && self.ends_bare {
            // What was said is said again by this one.
            tables.counters.count(Counter::TcpTxAcksReplaced);
            self.unsent.pop_back();
        }
        if self.unsent.len() >= UNSENT_MAX {
            tables.counters.count(Counter::TcpTxDrops);
            return head;
        }
        self.ends_bare = bare;
        self.unsent.push_back(Box::from(&*frame));
        head
    }

    #[cold]
    fn hold(&mut self, tables: &Tables, interface: &Interface, frame: Box<[u8]>) {
        let addr = self.route.ends().1.addr;
        let key = self.route.next_hop.unwrap_or(Key { ifindex: interface.ifindex, addr });
        let held =
            HeldPacket { frame: frame.into_vec(), class: PacketClass { comes_again: false, ..self.route.class } };
        self.unreachable |= !tables.hold_for(key, held);
    }
}

/// Answers to segments that no connection or listener wants: resets, back to the station that sent the segment.
pub(super) struct ResetSink<'a> {
    pub(super) tables: &'a Tables,
    pub(super) interface: &'a Interface,
    pub(super) mac: [u8; 6],
    pub(super) class: PacketClass,
}

impl PacketSink for ResetSink<'_> {
    fn is_open(&self) -> bool {
        true
    }

    fn wants_more(&self) -> bool {
        false
    }

    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8])) {
        let total = ETH_LEN + len;
        let mut built = false;
        let sent = self.interface.egress.transmit(&self.class, total, &mut |slot| {
            build(&mut slot[..total], self.interface.mac, self.mac, fill);
            built = true;
            total
        });
        if !built {
            drop(in_memory(total, &mut |frame| fill(&mut frame[ETH_LEN..])));
        }
        match sent {
            Ok(()) => {
                self.tables.counters.count(Counter::TcpOutSegs);
                self.tables.counters.count(Counter::TcpOutRsts);
            }
            Err(_) => self.tables.counters.count(Counter::ReplyTxDrops),
        }
    }
}

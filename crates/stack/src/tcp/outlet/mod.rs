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
use crate::tables::{Ingress, Interface, Tables};
use crate::tcp::flow::Flow;
use crate::tcp::machine::Departure;
use crate::wait::deferred::{self, Work};
use crate::wire::{ETH_LEN, IPV6_LEN, flag};
use frame::Heads;
use route::Route;

/// Frames of a connection that wait for room in the ring. Data is built only when none waits, so these are answers to what
/// the peer sends, who must not be able to fill memory with them.
const UNSENT_MAX: usize = 64;
/// Longest frame of a segment without data.
const BARE_MAX: usize = ETH_LEN + IPV6_LEN + 60;

/// What a segment carries, in two parts.
type Data<'a> = (&'a [u8], &'a [u8]);

/// The route is the last, for what it ends with is seldom used.
#[repr(C)]
pub(super) struct Outlet {
    /// Whole frames that the ring had no room for.
    unsent: VecDeque<Box<[u8]>>,
    /// The last of `unsent` is an acknowledgement and nothing else.
    ends_bare: bool,
    /// No station answers for the peer's address.
    pub(super) unreachable: bool,
    /// The thread that has the connection has sent, and kicks devices when it has let go.
    pub(super) holds_kicks: bool,
    /// What was sent again since this was cleared: the first number, and bytes of the packet.
    pub(super) again: Option<(u32, u32)>,
    pub(super) route: Route,
}

impl Outlet {
    /// How much of it a packet touches, from its beginning.
    pub(super) const USED_BYTES: usize = offset_of!(Self, route) + Route::USED_BYTES;

    pub(super) fn new(route: Route) -> Self {
        Self { unsent: VecDeque::new(), ends_bare: false, unreachable: false, holds_kicks: false, again: None, route }
    }

    /// Whether frames wait for room in the ring.
    #[inline]
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
            self.flush_waiting(tables);
        }
    }

    #[cold]
    fn flush_waiting(&mut self, tables: &Tables) {
        self.hold_kicks();
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

    /// Sends a segment, or keeps it until there is room.
    pub(super) fn send(&mut self, tables: &Tables, departure: &Departure, data: Data<'_>) {
        self.hold_kicks();
        self.route.refresh(tables);
        if departure.len > 0 && !departure.again {
            self.route.leaves(departure.seq);
        }
        let total = self.route.heads.frame_bytes(departure);
        self.note(tables, departure, total);
        let Some(interface) = &self.route.interface else {
            return tables.counters.count(Counter::IpOutNoRoutes);
        };
        if self.route.mac.is_none() {
            return self.hold(tables, &interface.clone(), departure, data);
        }
        let heads = &self.route.heads;
        let result = if self.unsent.is_empty() {
            interface.egress.transmit(&self.route.class, total, &mut |slot| {
                heads.write(departure, data, &mut slot[..total]);
                total
            })
        } else {
            Err(TxError::Full)
        };
        match result {
            Ok(()) | Err(TxError::Dropped) => {}
            Err(TxError::Down) => tables.counters.count(Counter::TcpTxDrops),
            Err(TxError::Full | TxError::Busy) => self.wait(tables, total, departure, data),
        }
    }

    #[inline]
    fn note(&mut self, tables: &Tables, departure: &Departure, total: usize) {
        if departure.flags & flag::RST != 0 {
            tables.counters.count(Counter::TcpOutRsts);
        }
        if departure.again {
            // The MTU bounds a packet.
            self.again.get_or_insert((departure.seq.0, (total - ETH_LEN) as u32));
            return tables.counters.count(Counter::TcpRetransSegs);
        }
        tables.counters.count(Counter::TcpOutSegs);
    }

    /// The ring is full: puts a frame of `total` bytes aside.
    #[cold]
    fn wait(&mut self, tables: &Tables, total: usize, departure: &Departure, data: Data<'_>) {
        let mut short = [0; BARE_MAX];
        let mut long = Vec::new();
        let frame = if total <= BARE_MAX {
            &mut short[..total]
        } else {
            long.resize(total, 0);
            &mut long[..]
        };
        self.route.heads.write(departure, data, frame);
        tables.counters.count(Counter::TcpTxWaits);
        if departure.is_bare() && self.ends_bare {
            // What was said is said again by this one.
            tables.counters.count(Counter::TcpTxAcksReplaced);
            self.unsent.pop_back();
        }
        if self.unsent.len() >= UNSENT_MAX {
            return tables.counters.count(Counter::TcpTxDrops);
        }
        self.ends_bare = departure.is_bare();
        self.unsent.push_back(Box::from(&*frame));
    }

    #[cold]
    fn hold(&mut self, tables: &Tables, interface: &Interface, departure: &Departure, data: Data<'_>) {
        let mut frame = vec![0; self.route.heads.frame_bytes(departure)];
        self.route.heads.write(departure, data, &mut frame);
        let addr = self.route.ends().1.addr;
        let key = self.route.next_hop.unwrap_or(Key { ifindex: interface.ifindex, addr });
        let held = HeldPacket { frame, class: PacketClass { comes_again: false, ..self.route.class } };
        self.unreachable |= !tables.hold_for(key, held);
    }
}

/// Sends a segment of no connection, or of one that is over, to the station that `frame` came from, which is whole.
#[cold]
pub(super) fn send_back(at: &Ingress<'_>, frame: &[u8], flow: Flow, departure: &Departure) {
    let Ingress { tables, interface, .. } = *at;
    let mac = frame[6..12].try_into().expect("a whole Ethernet header");
    let heads = Heads::new(interface.mac, mac, flow.local, flow.peer);
    let total = heads.frame_bytes(departure);
    let hash = interface.egress.rss_hash(&flow.local.socket_addr(0), &flow.peer.socket_addr(0));
    let sent = interface.egress.transmit(&PacketClass::of_flow(hash), total, &mut |slot| {
        heads.write(departure, (&[], &[]), &mut slot[..total]);
        total
    });
    match sent {
        Ok(()) => {
            tables.counters.count(Counter::TcpOutSegs);
            if departure.flags & flag::RST != 0 {
                tables.counters.count(Counter::TcpOutRsts);
            }
        }
        Err(_) => tables.counters.count(Counter::ReplyTxDrops),
    }
}

//! How datagrams of a poll come into the queues of their sockets.
//!
//! A frame is put into its socket's queue at once. What belongs to a socket and not to a packet (charging bytes,
//! telling event contexts, waking a sleeper) is done once per round for each socket that got something. A round is
//! [`ROUND_PKTS`] frames or the end of the pass, whichever comes first, as `net/core/gro.c gro_normal_one` hands over
//! in batches of `gro_normal_batch` = 8.
//!
//! Edge-triggered waiters need a report *after* each arrival, and reports may merge: a reader that was told early, read
//! everything and found the queue empty must be told again about a frame that came later in the same pass. Reporting
//! only when a push finds the queue empty would miss that a reader already took the list but has not yet seen its end;
//! reporting at the end of each round covers every frame by a report that comes after it. The price is a report about
//! frames that a fast reader has already taken; an event context looks again before it returns the socket.
//!
//! Telling is not calling: who sleeps on the processor of the poll is called when that is over ([`napier_core::waking`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::gro::GRO_NORMAL_BATCH;

use super::queue::UdpInner;
use crate::counters::{Counter, Counters};
use crate::event::Interest;
use crate::host::Deliveries;
use crate::tables::Tables;
use crate::wait::park::{Sleeper, Whom};

/// Frames after which sockets are told.
const ROUND_PKTS: usize = GRO_NORMAL_BATCH as usize;

/// The sockets that got something in this round, and what the poll has delivered.
pub(crate) struct Round<'v> {
    /// Each socket once.
    touched: [Touched<'v>; ROUND_PKTS],
    sockets: usize,
    round_pkts: usize,
    /// Good datagrams, added to the shared counters at the end.
    udp4: u64,
    udp6: u64,
    napi_id: u32,
    tables: &'v Tables,
    journal: Option<&'v dyn Deliveries>,
}

/// A socket that got something.
#[derive(Copy, Clone, Default)]
struct Touched<'v> {
    socket: Option<&'v UdpInner>,
    /// To be charged.
    bytes: usize,
    packets: u32,
}

impl<'v> Round<'v> {
    /// The first round of a poll of instance `napi_id`.
    #[inline]
    pub(crate) fn new(napi_id: u32, tables: &'v Tables) -> Self {
        Self {
            touched: [Touched::default(); ROUND_PKTS],
            sockets: 0,
            round_pkts: 0,
            udp4: 0,
            udp6: 0,
            napi_id,
            tables,
            journal: None,
        }
    }

    /// Records who gets how many packets.
    #[inline]
    pub(crate) fn journal(&mut self, journal: Option<&'v dyn Deliveries>) {
        self.journal = journal;
    }

    /// Makes room for a datagram, or for several that are merged; false if there is none.
    #[inline]
    pub(crate) fn book(&mut self, socket: &'v UdpInner, truesize: usize, more: u32) -> bool {
        let at = self.slot_of(socket);
        let Touched { bytes, packets, .. } = self.touched[at];
        if !socket.has_room(bytes, truesize) {
            return false;
        }
        self.touched[at] = Touched { socket: Some(socket), bytes: bytes + truesize, packets: packets + more };
        self.sockets = self.sockets.max(at + 1);
        socket.record(self.napi_id);
        true
    }

    /// What was booked is in its socket's queue.
    #[inline]
    pub(crate) fn booked(&mut self, v4: bool, packets: u32) {
        *(if v4 { &mut self.udp4 } else { &mut self.udp6 }) += u64::from(packets);
        self.round_pkts += packets as usize;
        if self.round_pkts >= ROUND_PKTS {
            self.end();
        }
    }

    /// The socket's place among those of this round, or the next free one; there is always one, because a round is over
    /// after as many frames as there are places.
    #[inline]
    fn slot_of(&self, socket: &UdpInner) -> usize {
        let same = |touched: &Touched<'_>| touched.socket.is_some_and(|t| std::ptr::eq(t, socket));
        self.touched[..self.sockets].iter().position(same).unwrap_or(self.sockets)
    }

    /// Charges and tells the sockets of this round.
    pub(crate) fn end(&mut self) {
        for touched in &mut self.touched[..self.sockets] {
            let Touched { socket: Some(socket), bytes, packets } = std::mem::take(touched) else { continue };
            socket.charge(bytes);
            if let Some(journal) = self.journal {
                journal.delivered(self.napi_id, socket.own_addr(), packets);
            }
            // Relaxed: the id is a hint that orders nothing.
            socket.source.notify(socket.napi_id.load(Ordering::Relaxed), Interest::IN);
            let sleeper = || socket.send_buffer.socket().map(|socket| socket as Arc<dyn Sleeper>);
            socket.parker.wake_told(&*self.tables.host, &sleeper, Whom::Reader);
        }
        self.sockets = 0;
        self.round_pkts = 0;
    }

    /// Adds what was delivered to the counters.
    #[inline]
    pub(crate) fn count(&self, counters: &Counters) {
        let Self { udp4, udp6, .. } = *self;
        if udp4 != 0 {
            counters.add(Counter::IpInReceives, udp4);
            counters.add(Counter::IpInDelivers, udp4);
            counters.add(Counter::UdpInDatagrams, udp4);
        }
        if udp6 != 0 {
            counters.add(Counter::Ip6InReceives, udp6);
            counters.add(Counter::Ip6InDelivers, udp6);
            counters.add(Counter::Udp6InDatagrams, udp6);
        }
    }
}

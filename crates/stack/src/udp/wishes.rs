//! What a socket, or one call, wants of its packets: service, hops, source, interface, and what becomes of long ones; and what it
//! needs to know of those that come.
//!
//! A path is worked out for it and remembered with its headers; a change makes the socket's paths to be worked out again.
//! So no packet looks at it.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use napier_core::fragments::MtuDiscovery;

use crate::tables::path::Destination;
use crate::wire::addr::Addr;
use crate::wire::template::TTL;

/// What a socket needs to be done with each datagram that comes, as bits.
pub(crate) struct Needs;

impl Needs {
    /// `UDP_GRO`: datagrams of a flow are merged.
    pub(crate) const MERGED: u8 = 1;
    /// IPv4 addresses are shown mapped.
    pub(crate) const MAPPED: u8 = 2;
    /// `SO_TIMESTAMPNS`.
    pub(crate) const STAMPED: u8 = 4;
    /// `SO_BINDTOIFINDEX`: what comes in by another interface is not for it.
    pub(crate) const BOUND: u8 = 8;
}

/// Those of a socket; hardly ever written.
pub(crate) struct Wishes {
    /// Over IPv4, and over IPv6.
    pub(super) tos: [AtomicU8; 2],
    pub(super) hops: [AtomicU8; 2],
    discovery: AtomicU8,
    /// `UDP_SEGMENT`; 0: none.
    segment: AtomicU16,
    /// 0: any.
    ifindex: AtomicU32,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            tos: [const { AtomicU8::new(0) }; 2],
            hops: [const { AtomicU8::new(TTL) }; 2],
            discovery: AtomicU8::new(MtuDiscovery::Want as u8),
            segment: AtomicU16::new(0),
            ifindex: AtomicU32::new(0),
        }
    }
}

/// Those of one packet.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Wish {
    /// Over IPv4, and over IPv6.
    tos: [u8; 2],
    hops: [u8; 2],
    pub(super) discovery: MtuDiscovery,
    /// The source address, if it is not the socket's or what the way has.
    pub(super) src: Option<Addr>,
    /// Bytes of the datagrams that a buffer is cut into; 0: it is one.
    pub(super) segment: u16,
    ifindex: u32,
}

impl Wishes {
    /// What the socket wants now.
    pub(crate) fn get(&self) -> Wish {
        // Relaxed, all: settings that order nothing.
        let both = |values: &[AtomicU8; 2]| [0, 1].map(|at: usize| values[at].load(Ordering::Relaxed));
        Wish {
            tos: both(&self.tos),
            hops: both(&self.hops),
            discovery: self.discovery(),
            src: None,
            segment: self.segment(),
            ifindex: self.ifindex(),
        }
    }

    pub(super) fn discovery(&self) -> MtuDiscovery {
        match self.discovery.load(Ordering::Relaxed) {
            0 => MtuDiscovery::Dont,
            1 => MtuDiscovery::Want,
            2 => MtuDiscovery::Do,
            _ => MtuDiscovery::Probe,
        }
    }

    pub(super) fn set_discovery(&self, discovery: MtuDiscovery) {
        self.discovery.store(discovery as u8, Ordering::Relaxed);
    }

    pub(super) fn segment(&self) -> u16 {
        self.segment.load(Ordering::Relaxed)
    }

    pub(super) fn set_segment(&self, bytes: u16) {
        self.segment.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn ifindex(&self) -> u32 {
        self.ifindex.load(Ordering::Relaxed)
    }

    pub(super) fn set_ifindex(&self, ifindex: u32) {
        self.ifindex.store(ifindex, Ordering::Relaxed);
    }

    /// Whether what comes in by an interface is for the socket.
    pub(crate) fn takes_from(&self, ifindex: u32) -> bool {
        [0, ifindex].contains(&self.ifindex())
    }

    /// A destination by the socket's interface, if it is bound to one.
    pub(super) fn by_its_interface(&self, target: Destination) -> Destination {
        self.get().by_its_interface(target)
    }
}

impl Wish {
    /// Service and hops over IPv4, or over IPv6.
    pub(super) fn marks(&self, v4: bool) -> (u8, u8) {
        let family = usize::from(!v4);
        (self.tos[family], self.hops[family])
    }

    pub(super) fn by_its_interface(&self, target: Destination) -> Destination {
        let scope = if self.ifindex == 0 { target.scope } else { self.ifindex };
        Destination { scope, ..target }
    }

    /// Cut into datagrams of so many bytes, if a call says how many.
    pub(super) fn in_segments(mut self, bytes: Option<u16>) -> Self {
        self.segment = bytes.unwrap_or(self.segment);
        self
    }

    /// With what one call wants instead.
    pub(super) fn with(mut self, tos: Option<u8>, hops: Option<u8>, src: Option<Addr>, ifindex: u32) -> Self {
        self.tos = tos.map_or(self.tos, |tos| [tos; 2]);
        self.hops = hops.map_or(self.hops, |hops| [hops; 2]);
        self.src = src;
        self.ifindex = if ifindex == 0 { self.ifindex } else { ifindex };
        self
    }
}

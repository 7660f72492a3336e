//! Datagrams between programs on one engine, by its own addresses: nothing of them is on the wire. Each socket has a queue, whose thread hears of it.
//!
//! One lock is held at a time but for that of a queue, which is taken under the table's.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use crate::near::{NearBell, locked, plain};

/// Bytes that wait at a socket, with [`OVERHEAD_BYTES`] for each datagram; what is sent beyond is lost. Source: `net.core.rmem_default`.
const WAITING_BYTES_MAX: usize = 212_992;
const OVERHEAD_BYTES: usize = 768;

/// The sockets for datagrams of all programs of an engine, by port.
#[derive(Default)]
pub(crate) struct NearDatagrams {
    table: Mutex<HashMap<u16, Vec<Arc<NearDatagramPlace>>>>,
}

struct NearDatagramPlace {
    address: SocketAddr,
    only_v6: bool,
    queue: Mutex<NearQueue>,
    token: u64,
    bell: Arc<NearBell>,
}

#[derive(Default)]
struct NearQueue {
    /// It hears this one alone.
    peer: Option<SocketAddr>,
    waiting: VecDeque<NearDatagram>,
    bytes: usize,
    is_closed: bool,
}

/// A datagram on its way.
pub(crate) struct NearDatagram {
    pub(crate) from: SocketAddr,
    pub(crate) to: IpAddr,
    pub(crate) payload: Box<[u8]>,
}

impl NearDatagramPlace {
    /// How well it is meant, as the kernel weighs it: its peer, its address, a wildcard. Source: `net/ipv4/udp.c` `compute_score`.
    fn suits(&self, from: SocketAddr, to: IpAddr) -> Option<u8> {
        let of_address = match self.address.ip() {
            own if own == to => 1,
            own if own.is_unspecified() && own.is_ipv4() == to.is_ipv4() => 0,
            own if own.is_unspecified() && own.is_ipv6() && !self.only_v6 => 0,
            _ => return None,
        };
        match locked(&self.queue).peer {
            None => Some(of_address),
            Some(peer) if peer == from => Some(of_address + 2),
            Some(_) => None,
        }
    }
}

impl NearDatagrams {
    /// Takes datagrams to an address, which are told by the bell with this token.
    pub(crate) fn bind(
        self: &Arc<Self>,
        address: SocketAddr,
        only_v6: bool,
        token: u64,
        bell: &Arc<NearBell>,
    ) -> NearSocket {
        let (address, queue, bell) = (plain(address), Mutex::default(), bell.clone());
        let place = Arc::new(NearDatagramPlace { address, only_v6, queue, token, bell });
        locked(&self.table).entry(address.port()).or_default().push(place.clone());
        NearSocket { near: self.clone(), place }
    }
}

/// Of a socket for datagrams: it takes none any more when it is dropped.
pub(crate) struct NearSocket {
    near: Arc<NearDatagrams>,
    place: Arc<NearDatagramPlace>,
}

impl NearSocket {
    /// Hears a peer alone from now on, or all.
    pub(crate) fn connect(&self, peer: Option<SocketAddr>) {
        locked(&self.place.queue).peer = peer.map(plain);
    }

    /// Sends one to an own address of the engine. One that finds the queue full is lost.
    ///
    /// # Errors
    /// `ECONNREFUSED`: no socket is there.
    pub(crate) fn send(&self, to: SocketAddr, payload: &[u8]) -> Result<(), i32> {
        let (own, to) = (self.place.address, plain(to));
        // `net/ipv6/udp.c udpv6_sendmsg`: an address of IPv6 sends none of IPv4, and no socket of IPv4 one of IPv6.
        let has_v6_alone = self.place.only_v6 || own.is_ipv6() && !own.ip().is_unspecified();
        if if to.is_ipv4() { has_v6_alone } else { own.is_ipv4() } {
            return Err(libc::ENETUNREACH);
        }
        let from = SocketAddr::new(if own.ip().is_unspecified() { to.ip() } else { own.ip() }, own.port());
        let found = {
            let table = locked(&self.near.table);
            let all = table.get(&to.port()).into_iter().flatten();
            let suiting = all.filter_map(|place| Some((place.suits(from, to.ip())?, place)));
            suiting.max_by_key(|(score, _)| *score).map(|(_, place)| place.clone())
        };
        let place = found.ok_or(libc::ECONNREFUSED)?;
        {
            let mut queue = locked(&place.queue);
            let bytes = payload.len() + OVERHEAD_BYTES;
            let has_room = queue.bytes + bytes <= WAITING_BYTES_MAX && !queue.is_closed;
            if !(has_room && place.bell.has_room_for(bytes)) {
                return Ok(());
            }
            queue.bytes += bytes;
            queue.waiting.push_back(NearDatagram { from, to: to.ip(), payload: payload.into() });
        }
        place.bell.ring(place.token);
        Ok(())
    }

    /// The next one.
    pub(crate) fn receive(&self) -> Option<NearDatagram> {
        let mut queue = locked(&self.place.queue);
        let next = queue.waiting.pop_front()?;
        let bytes = next.payload.len() + OVERHEAD_BYTES;
        queue.bytes -= bytes;
        self.place.bell.have_left(bytes);
        Some(next)
    }

    /// One that was received, and has no room yet. It is lost if others have taken its place meanwhile.
    pub(crate) fn put_back(&self, datagram: NearDatagram) {
        let bytes = datagram.payload.len() + OVERHEAD_BYTES;
        if self.place.bell.has_room_for(bytes) {
            let mut queue = locked(&self.place.queue);
            queue.bytes += bytes;
            queue.waiting.push_front(datagram);
        }
    }
}

impl Drop for NearSocket {
    fn drop(&mut self) {
        {
            let mut queue = locked(&self.place.queue);
            queue.is_closed = true;
            queue.waiting.clear();
            self.place.bell.have_left(std::mem::take(&mut queue.bytes));
        }
        let mut table = locked(&self.near.table);
        let port = self.place.address.port();
        if let Some(all) = table.get_mut(&port) {
            all.retain(|place| !Arc::ptr_eq(place, &self.place));
            if all.is_empty() {
                table.remove(&port);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_datagram_goes_to_the_socket_that_it_is_meant_for() {
        let (near, bell) = (Arc::new(NearDatagrams::default()), Arc::new(NearBell::new().expect("a descriptor")));
        let bind = |address: &str, token| near.bind(at(address), false, token, &bell);
        let (any, one, sender) = (bind("0.0.0.0:7", 1), bind("192.0.2.1:7", 2), bind("0.0.0.0:9", 3));
        assert_eq!(sender.send(at("192.0.2.1:8"), b"x"), Err(libc::ECONNREFUSED));
        sender.send(at("192.0.2.1:7"), b"one").expect("it is there");
        sender.send(at("[::ffff:192.0.2.2]:7"), b"any").expect("it is there");
        let got = one.receive().expect("it came");
        assert_eq!((&got.payload[..], got.from), (&b"one"[..], at("192.0.2.1:9")));
        assert_eq!(any.receive().expect("it came").payload[..], *b"any");
        assert_eq!(bell.heard().len(), 2);
        // One that has another peer hears nothing of this one.
        one.connect(Some(at("192.0.2.9:9")));
        sender.send(at("192.0.2.1:7"), b"x").expect("the wildcard");
        assert!(one.receive().is_none() && any.receive().is_some());
        drop((any, one));
        assert_eq!(sender.send(at("192.0.2.1:7"), b"x"), Err(libc::ECONNREFUSED));
    }

    #[test]
    fn a_queue_has_a_bound() {
        let (near, bell) = (Arc::new(NearDatagrams::default()), Arc::new(NearBell::new().expect("a descriptor")));
        let socket = near.bind(at("192.0.2.1:7"), false, 1, &bell);
        for _ in 0..1000 {
            socket.send(at("192.0.2.1:7"), &[0; 1000]).expect("it is there");
        }
        let got = std::iter::from_fn(|| socket.receive()).count();
        assert_eq!(got, WAITING_BYTES_MAX / (1000 + OVERHEAD_BYTES));
        socket.put_back(NearDatagram { from: at("192.0.2.1:7"), to: at("192.0.2.1:7").ip(), payload: Box::new([]) });
        assert!(socket.receive().is_some() && socket.receive().is_none());
    }
}

//! Those who wait for no one: datagrams at a rate to one socket. What the ring or the socket has no room for is lost, and no one sends it
//! again, so that a server that falls behind is offered as much as before.

use std::collections::VecDeque;

use napier_core::time::{Deadline, Instant, Span};
use napier_rng::Xoshiro256PlusPlus;
use napier_rng::load::Load;
use rand::RngExt;

use crate::machine::peers::Peers;
use crate::machine::peers::chance::minus_ln;
use crate::machine::peers::clients::Clients;
use crate::machine::sim::event::Ev;
use napier_scenario::{DropReason, SocketIx};

/// Small datagrams that a socket holds: `net.core.rmem_default`, and what is charged for one of up to 256 bytes. Source: `include/net/sock.h
/// SK_RMEM_MAX`, `include/linux/skbuff.h SKB_TRUESIZE`.
pub(crate) const SOCKET_PACKETS: u32 = 212_992 / 768;

/// The datagrams of a run. All go one way, one behind the other: the wire, the ring, the socket.
#[derive(Debug)]
pub(crate) struct Datagrams {
    of: Clients,
    rng: Xoshiro256PlusPlus,
    /// When those were sent that are on the wire.
    wire: VecDeque<Instant>,
    /// When that was sent which is in a frame.
    of_frame: Vec<Instant>,
    /// When those were sent that a program has taken and that are not back; and places in it that are free.
    taken: Vec<Instant>,
    free: Vec<usize>,
    pub(crate) sent: u64,
    /// So many when counting began.
    sent_before: u64,
    pub(crate) entered: u64,
    /// The ring had no room.
    pub(crate) lost: u64,
    in_programs: u64,
    on_way_back: u64,
    answered: u64,
    pub(crate) service_ns: u64,
    /// Answers count from here on.
    from: Instant,
    /// From send to answer, in the order of the answers, and what of it was the way there and back.
    pub(crate) latency_ns: Vec<u64>,
    pub(crate) way_ns: Vec<u64>,
    /// Waits of the program that returned, and the events that they brought.
    pub(crate) waits: u64,
    pub(crate) events: u64,
}

impl Datagrams {
    /// Those of clients at a rate; how many connections these have is nothing to one socket.
    pub(crate) fn new(of: Clients, seed: u64) -> Self {
        Self {
            of,
            rng: napier_rng::stream(seed, "datagrams"),
            wire: VecDeque::new(),
            of_frame: Vec::new(),
            taken: Vec::new(),
            free: Vec::new(),
            sent: 0,
            sent_before: 0,
            entered: 0,
            lost: 0,
            in_programs: 0,
            on_way_back: 0,
            answered: 0,
            service_ns: 0,
            from: Instant::from_ns(u64::MAX),
            latency_ns: Vec::new(),
            way_ns: Vec::new(),
            waits: 0,
            events: 0,
        }
    }

    /// Counting begins.
    pub(crate) fn count_from(&mut self, from: Instant) {
        (self.from, self.sent_before) = (from, self.sent);
    }

    /// How many were sent since.
    pub(crate) const fn offered(&self) -> u64 {
        self.sent - self.sent_before
    }

    /// Where they all are: on the wire, in programs, on the way back, back. What is in rings and sockets, or was lost there, others know.
    pub(crate) fn places(&self) -> [u64; 4] {
        [self.wire.len() as u64, self.in_programs, self.on_way_back, self.answered]
    }

    fn exponential(&mut self, mean_ns: f64) -> Span {
        let even: f64 = self.rng.random_range(f64::EPSILON..1.0);
        Span::from_ns((minus_ln(even) * mean_ns) as u64)
    }

    fn gap(&mut self) -> Span {
        let Load::Rps(rate_rps) = self.of.load else { unreachable!("datagrams come at a rate") };
        self.exponential(1e9 / rate_rps.max(1) as f64)
    }

    /// A program takes one.
    fn takes(&mut self, frame: u32) -> usize {
        let sent = self.of_frame[frame as usize];
        self.in_programs += 1;
        match self.free.pop() {
            Some(at) => {
                self.taken[at] = sent;
                at
            }
            None => {
                self.taken.push(sent);
                self.taken.len() - 1
            }
        }
    }

    pub(crate) fn draw(&mut self, points_ns: &[u64]) -> u64 {
        let ns = points_ns[self.rng.random_range(0..points_ns.len())];
        self.service_ns += ns;
        ns
    }
}

impl Peers {
    /// The first is sent.
    pub(crate) fn begin_datagrams(&mut self, mut datagrams: Datagrams) {
        let at = self.now + datagrams.gap();
        self.datagrams = Some(Box::new(datagrams));
        self.push_at(at, Ev::Ask { connection: 0 });
    }

    /// One is sent, and the next will be.
    pub(crate) fn send_datagram(&mut self) {
        let now = self.now;
        let Some(datagrams) = &mut self.datagrams else { return };
        datagrams.sent += 1;
        datagrams.wire.push_back(now);
        let (to_server, next) = (datagrams.of.to_server, now + datagrams.gap());
        self.push(Deadline::after(now, to_server), Ev::Frame { connection: 0, is_ack: false });
        self.push_at(next, Ev::Ask { connection: 0 });
    }

    /// One is at the server's ring.
    pub(crate) fn datagram_arrives(&mut self) {
        let Some(datagrams) = &mut self.datagrams else { return };
        let sent = datagrams.wire.pop_front().expect("it was on the wire");
        let bytes = u64::from(datagrams.of.request_bytes);
        let napi = self.socks[0].napi;
        self.napis[napi].wire_bytes += bytes;
        let entered = self.put_in_rx_ring(napi, Some(SocketIx(0)), false);
        let frame = self.napis[napi].ring.back().map(|packet| packet.frame as usize);
        let Some(datagrams) = &mut self.datagrams else { return };
        let Some(frame) = frame.filter(|_| entered) else {
            datagrams.lost += 1;
            return;
        };
        datagrams.entered += 1;
        if datagrams.of_frame.len() <= frame {
            datagrams.of_frame.resize(frame + 1, Instant::ZERO);
        }
        datagrams.of_frame[frame] = sent;
    }

    /// A program takes one out of the socket, if there is one; its number.
    pub(crate) fn take_datagram(&mut self, socket: usize) -> Option<usize> {
        let frame = self.socks[socket].queue.front()?.0;
        self.take_packet(socket);
        Some(self.datagrams.as_mut()?.takes(frame))
    }

    /// The program has answered one.
    pub(crate) fn answer_datagram(&mut self, nth: usize) {
        let now = self.now;
        let Some(datagrams) = &mut self.datagrams else { return };
        datagrams.in_programs -= 1;
        datagrams.on_way_back += 1;
        let noise = datagrams.exponential(datagrams.of.to_client_noise.ns as f64);
        let back = Span::from_ns(datagrams.of.to_client.ns + noise.ns);
        if now + back >= datagrams.from {
            datagrams.way_ns.push(datagrams.of.to_server.ns + back.ns);
            datagrams.latency_ns.push((now - datagrams.taken[nth]).ns + back.ns);
        }
        datagrams.free.push(nth);
        self.push_at(now + back, Ev::Answered { connection: 0 });
    }

    /// An answer is back.
    pub(crate) fn datagram_is_back(&mut self) {
        let Some(datagrams) = &mut self.datagrams else { return };
        datagrams.on_way_back -= 1;
        datagrams.answered += 1;
    }

    /// Datagrams that a socket had no room for.
    pub(crate) fn lost_at_sockets(&self) -> u64 {
        self.drops[DropReason::SocketFull as usize]
    }
}

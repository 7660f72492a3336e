//! What comes beside the engine's socket: at the twin, and from other programs on the engine.

use std::net::{IpAddr, SocketAddr};

use napier_ring::record::{HAS_PEER, HEAD_BYTES, PAYLOAD_BYTES_MAX, RecordHead, RecordKind};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, recvfrom};

use super::heads::{bytes_of, peer_of, tell};
use super::{DatagramFlow, DatagramTurn, Datagrams, TURN_MAX};
use crate::near_datagrams::NearSocket;

impl Datagrams {
    /// What arrives at the twin.
    pub(super) fn inward_of_twin(&mut self, turn: &mut DatagramTurn<'_>) -> DatagramFlow {
        for _ in 0..TURN_MAX {
            let Some(twin) = self.twin.as_ref().filter(|_| !self.is_full) else { return DatagramFlow::Idle };
            let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
            let (len, from) = match recvfrom(twin, &mut turn.record[HEAD_BYTES..], flags) {
                Ok((len, _, from)) => (len, from),
                Err(Errno::AGAIN) => return DatagramFlow::Idle,
                // Told once: an error of a datagram that the twin has sent.
                Err(Errno::INTR) => continue,
                Err(error) => {
                    tell(turn.own, error.raw_os_error());
                    continue;
                }
            };
            let from = from.and_then(|from| SocketAddr::try_from(from).ok());
            let mut head = RecordHead::new(RecordKind::Datagram);
            if let Some(from) = from {
                (head.flags, head.peer) = (HAS_PEER, peer_of(from));
            }
            match self.hand_in(turn, &head, len.min(PAYLOAD_BYTES_MAX)) {
                Ok(()) => {}
                Err(flow) => return flow,
            }
            // An error that came meanwhile is told first: then once more.
            let take = |twin| recv(twin, &mut [0_u8; 0], RecvFlags::DONTWAIT);
            if let Some(Err(error)) = self.twin.as_ref().map(take) {
                self.tell_of(turn.own, error.raw_os_error());
                let _ = self.twin.as_ref().map(take);
            }
        }
        DatagramFlow::More
    }

    /// What other programs on the engine send.
    pub(super) fn inward_of_near(&mut self, turn: &mut DatagramTurn<'_>) -> DatagramFlow {
        for _ in 0..TURN_MAX {
            let next = self.near.as_ref().filter(|_| !self.is_full).and_then(NearSocket::receive);
            let Some(next) = next else { return DatagramFlow::Idle };
            let shown = |ip: IpAddr| match ip {
                IpAddr::V4(four) if self.is_v6 => four.to_ipv6_mapped().into(),
                ip => ip,
            };
            let mut head = RecordHead::new(RecordKind::Datagram);
            let from = SocketAddr::new(shown(next.from.ip()), next.from.port());
            (head.flags, head.peer, head.own) = (HAS_PEER | self.tells, peer_of(from), bytes_of(shown(next.to)));
            // As over loopback.
            head.ttl = 64;
            let len = next.payload.len().min(PAYLOAD_BYTES_MAX);
            turn.record[HEAD_BYTES..HEAD_BYTES + len].copy_from_slice(&next.payload[..len]);
            if let Err(flow) = self.hand_in(turn, &head, len) {
                if let Some(near) = &self.near {
                    near.put_back(next);
                }
                return flow;
            }
        }
        DatagramFlow::More
    }
}

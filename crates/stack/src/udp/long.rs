//! Datagrams that are longer than a packet of the path: cut into fragments, or refused (`napier_core::fragments`).
//!
//! They are rare, and built in memory of their own first. The pieces go one after the other by the same transmit queue; a
//! non-blocking sender that finds no room after the first has lost the datagram (ENOBUFS): EAGAIN would have it send the first again.

use std::io;
use std::sync::atomic::Ordering;

use napier_core::fragments::cuts;

use crate::counters::Counter;
use crate::errno::errno;
use crate::event::Interest;
use crate::tables::Tables;
use crate::tables::neighbour::Key;
use crate::udp::errors::SentError;
use crate::udp::paths::{PAYLOAD_MAX, UdpPath, hold};
use crate::udp::queue::UdpInner;
use crate::udp::segments::send_segments;
use crate::udp::send::Datagram;
use crate::wire::fragment::{head_len, write};
use crate::wire::{ETH_LEN, UDP_LEN};

/// Sends a datagram that may be too long for one packet.
#[cold]
pub(super) fn send_long(
    socket: &UdpInner,
    tables: &Tables,
    path: &UdpPath,
    unknown: Option<Key>,
    packet: Datagram,
    build: &mut dyn FnMut(&mut [u8]) -> usize,
) -> io::Result<usize> {
    let Datagram { len_max, departs } = packet;
    if path.segment != 0 && len_max <= PAYLOAD_MAX {
        let mut whole = vec![0; len_max];
        let len = build(&mut whole);
        assert!(len <= len_max, "a datagram longer than the slice that it was built in");
        return send_segments(socket, tables, path, unknown, (&whole[..len], departs));
    }
    if !path.cut || len_max > PAYLOAD_MAX {
        return Err(too_long(socket, path));
    }
    let head = path.template.len();
    let mut whole = vec![0; head + len_max];
    let len = build(&mut whole[head..]);
    assert!(len <= len_max, "a datagram longer than the slice that it was built in");
    if len <= path.payload_max {
        let payload = &whole[head..head + len];
        return socket.send_on(tables, path, unknown, Datagram { len_max: len, departs }, &mut |slot: &mut [u8]| {
            slot.copy_from_slice(payload);
            len
        });
    }
    let end = path.template.finish(&mut whole, len);
    let (whole, class) = (&whole[..end], socket.class(path, departs));
    let v4 = path.target.dst.addr.is_v4();
    let (id, front) = (tables.ident(path.target.dst.addr), head_len(v4));
    let ip_len = head - ETH_LEN - UDP_LEN;
    let room = path.mtu.saturating_sub(front - ETH_LEN);
    if room < 8 {
        return Err(too_long(socket, path));
    }
    let (mut result, mut sent) = (Ok(len), 0);
    for piece in cuts((end - ETH_LEN - ip_len) as u32, room as u32) {
        let mut fill = |slot: &mut [u8]| write(slot, whole, piece, id);
        let bytes = front + piece.len as usize;
        let went = match unknown {
            None => socket.transmit(tables, path, &class, bytes, &mut fill).map(|_| ()),
            Some(key) => hold(tables, class, key, bytes, &mut fill),
        };
        if let Err(error) = went {
            // Without it the others are of no use.
            let again = error.raw_os_error() == Some(libc::EAGAIN);
            result = Err(if again && sent > 0 { errno(libc::ENOBUFS) } else { error });
            break;
        }
        sent += 1;
    }
    use Counter as C;
    let (creates, oks, fails, out) = if v4 {
        (C::IpFragCreates, C::IpFragOks, C::IpFragFails, C::UdpOutDatagrams)
    } else {
        (C::Ip6FragCreates, C::Ip6FragOks, C::Ip6FragFails, C::Udp6OutDatagrams)
    };
    tables.counters.add(creates, sent);
    if result.is_ok() {
        tables.counters.count(oks);
        tables.counters.count(out);
    } else {
        tables.counters.count(fails);
    }
    result
}

/// Source: `net/ipv4/ip_output.c __ip_append_data`, `net/ipv4/ip_sockglue.c ip_local_error`.
fn too_long(socket: &UdpInner, path: &UdpPath) -> io::Error {
    if socket.egress.recverr.load(Ordering::Relaxed) {
        let mtu = u32::try_from(path.mtu).unwrap_or(u32::MAX);
        let to = path.target.dst.shown(socket.family, path.target.scope);
        socket.errors.leave(SentError { errno: libc::EMSGSIZE, by: None, icmp: (0, 0), mtu, to });
        socket.source.notify(socket.napi_id.load(Ordering::Relaxed), Interest::ERR);
    }
    errno(libc::EMSGSIZE)
}

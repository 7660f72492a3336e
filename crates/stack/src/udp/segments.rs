//! One buffer that leaves as several datagrams (`UDP_SEGMENT`): the way is worked out once, the send buffer is looked at once, and the
//! peer is told once.
//!
//! | | |
//! |---|---|
//! | the buffer is longer than any datagram | `EMSGSIZE` |
//! | a segment is longer than a packet of the path: it is not cut into fragments | `EMSGSIZE` |
//! | more than [`SEGMENTS_MAX`] segments | `EINVAL` |
//! | no room for the first | as for one datagram: the sender waits, or `EAGAIN` |
//! | no room for a later one, and the sender does not wait | what has left is what the call gives |
//! | a queueing discipline drops one | counted; with `IP_RECVERR` the call ends with `ENOBUFS` |
//!
//! Source: `net/ipv4/udp.c udp_send_skb`, `udp_cmsg_send`. The kernel takes all of a buffer or nothing, and may lose the rest below.

use std::io;

use napier_core::time::Instant;

use crate::counters::Counter;
use crate::device::TxError;
use crate::errno::errno;
use crate::tables::Tables;
use crate::tables::neighbour::Key;
use crate::udp::paths::{PAYLOAD_MAX, UdpPath, hold};
use crate::udp::queue::UdpInner;
use crate::wait::deferred::{Deferring, Work};

/// Datagrams of one buffer at most. Source: `include/linux/udp.h UDP_MAX_SEGMENTS`.
const SEGMENTS_MAX: usize = 128;

/// Sends `payload` in datagrams of the path's segment size, of which the last may be shorter. Gives the bytes that have left.
///
/// # Errors
/// The table above.
#[cold]
pub(super) fn send_segments(
    socket: &UdpInner,
    tables: &Tables,
    path: &UdpPath,
    unknown: Option<Key>,
    (payload, departs): (&[u8], Option<Instant>),
) -> io::Result<usize> {
    let step = path.segment;
    if payload.len() > PAYLOAD_MAX || step.min(payload.len()) > path.packet_max {
        return Err(errno(libc::EMSGSIZE));
    }
    if payload.len() > step * SEGMENTS_MAX {
        return Err(errno(libc::EINVAL));
    }
    let (head, class) = (path.template.len(), socket.class(path, departs));
    let (mut sent, mut taken, mut result) = (0, 0, Ok(()));
    let nonblocking = socket.nonblocking.now();
    // One empty datagram is one.
    let count = payload.len().div_ceil(step).max(1);
    let mut kicks = None;
    for number in 0..count {
        let segment = &payload[number * step..payload.len().min((number + 1) * step)];
        let len = head + segment.len();
        let mut fill = |slot: &mut [u8]| {
            slot[head..len].copy_from_slice(segment);
            path.template.finish(slot, segment.len())
        };
        let went = if let Some(key) = unknown {
            hold(tables, class, key, len, &mut fill).map(|()| true)
        } else if number == 0 && !socket.send_buffer.has_room() {
            socket.transmit(tables, path, &class, len, &mut fill)
        } else {
            // What is behind the first may go beyond the send buffer's limit, as one packet may, and these are one.
            kicks.get_or_insert_with(|| Deferring::begin(Work::Kicks));
            match path.interface.egress.transmit(&class, len, &mut fill) {
                Ok(()) => Ok(true),
                Err(TxError::Dropped) => socket.dropped(tables, path),
                // The next call has it, if it stays so.
                Err(TxError::Down) if number > 0 => break,
                Err(TxError::Full | TxError::Busy) if number > 0 && nonblocking => break,
                Err(TxError::Down | TxError::Full | TxError::Busy) => {
                    // Peers have to know of what they are to read before that is waited for.
                    kicks = None;
                    socket.transmit(tables, path, &class, len, &mut fill)
                }
            }
        };
        match went {
            Ok(went) => sent += u64::from(went),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
        taken += segment.len();
    }
    drop(kicks);
    if nonblocking && !socket.send_buffer.is_writable() {
        socket.ask_for_credit(path, &class);
    }
    let v4 = path.target.dst.addr.is_v4();
    tables.counters.add(if v4 { Counter::UdpOutDatagrams } else { Counter::Udp6OutDatagrams }, sent);
    result.map(|()| taken)
}

//! memcached over UDP: an eight-byte header before each datagram, and answers split over as many as they need.
//!
//! Source: memcached `doc/protocol.txt`, "UDP protocol".

use super::{Family, Next, Session, Turn};
use crate::{DATAGRAM_BYTES_MAX, FRAME_HEADER_BYTES};

/// Bytes of an answer in one datagram.
const BODY_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - FRAME_HEADER_BYTES;

/// Serves the requests in one datagram, which all have to be in it whole, and hands out the datagrams of the answer.
/// An answer of more than [`OUTPUT_BYTES_HIGH`](super::OUTPUT_BYTES_HIGH) bytes before its last value is refused.
/// `answer` is a buffer that is used again and again, as is `datagram`.
pub fn serve(
    turn: &Turn<'_>,
    request: &[u8],
    answer: &mut Vec<u8>,
    datagram: &mut [u8; DATAGRAM_BYTES_MAX],
    mut send: impl FnMut(&[u8]),
) {
    turn.stats.add(|c| &c.datagrams, 1);
    answer.clear();
    let Some((header, body)) = request.split_first_chunk::<FRAME_HEADER_BYTES>() else { return };
    if header[4..6] != [0, 1] {
        answer.extend_from_slice(b"SERVER_ERROR multi-packet request not supported\r\n");
    } else {
        let mut session = Session::new(Family::Memcached);
        let progress = session.advance(turn, body, answer);
        if matches!(progress.next, Next::Read { .. }) && session.is_amid_request() {
            // The rest of a long get never comes, and half an answer is none.
            answer.clear();
        }
        if progress.next == Next::Write {
            // What is held for a stream is sent on and made room for; here it would all be held at once.
            answer.clear();
            answer.extend_from_slice(b"SERVER_ERROR out of memory writing get response\r\n");
        }
    }
    split(answer, [header[0], header[1]], datagram, &mut send);
}

/// Cuts an answer into datagrams: id, sequence number, number of datagrams, reserved; each 16 bits, big endian.
fn split(answer: &[u8], id: [u8; 2], datagram: &mut [u8; DATAGRAM_BYTES_MAX], send: &mut impl FnMut(&[u8])) {
    let count = u16::try_from(answer.len().div_ceil(BODY_BYTES_MAX)).unwrap_or(u16::MAX);
    for (sequence, body) in answer.chunks(BODY_BYTES_MAX).take(usize::from(count)).enumerate() {
        datagram[..2].copy_from_slice(&id);
        datagram[2..4].copy_from_slice(&(sequence as u16).to_be_bytes());
        datagram[4..6].copy_from_slice(&count.to_be_bytes());
        datagram[6..8].fill(0);
        let end = FRAME_HEADER_BYTES + body.len();
        datagram[FRAME_HEADER_BYTES..end].copy_from_slice(body);
        send(&datagram[..end]);
    }
}

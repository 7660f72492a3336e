//! memcached over UDP: an eight-byte header before each datagram, and answers split over as many as they need.
//!
//! Source: memcached `doc/protocol.txt`, "UDP protocol".

use super::{Family, Next, Session, Turn};
use crate::{DATAGRAM_BYTES_MAX, FRAME_HEADER_BYTES};

/// Bytes of an answer in one datagram.
const BODY_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - FRAME_HEADER_BYTES;

/// Serves the requests in one datagram, which all have to be in it whole, and hands out the datagrams of the answer.
/// An answer of more than [`OUTPUT_BYTES_HIGH`](super::OUTPUT_BYTES_HIGH) bytes before its last value is refused.
/// `answer` is a buffer that is used again and again.
pub fn serve(turn: &Turn<'_>, request: &[u8], answer: &mut Vec<u8>, mut send: impl FnMut(&[u8])) {
    turn.stats.add(|c| &c.datagrams, 1);
    let Some((header, body)) = request.split_first_chunk::<FRAME_HEADER_BYTES>() else { return };
    // The answer stands behind the header of its first datagram, which is mostly its only one.
    answer.clear();
    answer.extend_from_slice(&frame_header([header[0], header[1]], 0, 1));
    if header[4..6] != [0, 1] {
        answer.extend_from_slice(b"SERVER_ERROR multi-packet request not supported\r\n");
    } else {
        let mut session = Session::new(Family::Memcached);
        let progress = session.advance(turn, body, answer);
        if matches!(progress.next, Next::Read { .. }) && session.is_amid_request() {
            // The rest of a long get never comes, and half an answer is none.
            return;
        }
        if progress.next == Next::Write {
            // What is held for a stream is sent on and made room for; here it would all be held at once.
            answer.truncate(FRAME_HEADER_BYTES);
            answer.extend_from_slice(b"SERVER_ERROR out of memory writing get response\r\n");
        }
    }
    match answer.len() {
        FRAME_HEADER_BYTES => {}
        ..=DATAGRAM_BYTES_MAX => send(answer),
        _ => split(answer, &mut send),
    }
}

/// Cuts an answer, behind a header, into datagrams. The header of each overwrites what was sent with the one before it.
#[cold]
fn split(answer: &mut [u8], send: &mut impl FnMut(&[u8])) {
    let id = [answer[0], answer[1]];
    let bodies = (answer.len() - FRAME_HEADER_BYTES).div_ceil(BODY_BYTES_MAX);
    let count = u16::try_from(bodies).unwrap_or(u16::MAX);
    for sequence in 0..count {
        let rest = &mut answer[usize::from(sequence) * BODY_BYTES_MAX..];
        rest[..FRAME_HEADER_BYTES].copy_from_slice(&frame_header(id, sequence, count));
        send(&rest[..rest.len().min(DATAGRAM_BYTES_MAX)]);
    }
}

/// Id, sequence number, number of datagrams, reserved; each 16 bits, big endian.
fn frame_header(id: [u8; 2], sequence: u16, count: u16) -> [u8; FRAME_HEADER_BYTES] {
    let ([sequence, sequence_low], [count, count_low]) = (sequence.to_be_bytes(), count.to_be_bytes());
    [id[0], id[1], sequence, sequence_low, count, count_low, 0, 0]
}

#[cfg(test)]
mod tests;

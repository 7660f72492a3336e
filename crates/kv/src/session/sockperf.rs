//! sockperf's messages: those that want an answer are sent back.
//!
//! A message is a header of 14 bytes and padding: its number (8 bytes), flags (2), and its length with the header (4),
//! all big endian. In a stream the length is the frame; a datagram is one message.
//!
//! Source: sockperf `src/message.h`, and what its version 3.7 sends.

use super::{SessionCall, SessionStep, Turn};
use crate::store::VALUE_BYTES_MAX;

const HEADER_BYTES: usize = 14;
const FLAGS_AT: usize = 8;
const LENGTH_AT: usize = 10;

/// Most bytes of a message. sockperf itself sends at most 65507 over UDP and 65536 over TCP.
const MESSAGE_BYTES_MAX: usize = VALUE_BYTES_MAX;

/// The sender is the client; an answer does not have it.
const FLAG_CLIENT: u16 = 1;
/// An answer is wanted.
const FLAG_PONG: u16 = 2;

/// What a header says.
struct MessageHeader {
    flags: u16,
    message_bytes: usize,
}

impl MessageHeader {
    /// `None` if the length is none that a message has.
    fn of(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let flags = u16::from_be_bytes([bytes[FLAGS_AT], bytes[FLAGS_AT + 1]]);
        let length = bytes.last_chunk().expect("the length comes last in the header");
        const { assert!(LENGTH_AT + size_of::<u32>() == HEADER_BYTES) };
        let message_bytes = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        (HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&message_bytes).then_some(Self { flags, message_bytes })
    }

    fn wants_answer(&self) -> bool {
        self.flags & FLAG_PONG != 0
    }
}

/// Appends the answer to a message.
fn answer(header: &MessageHeader, message: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(message);
    out[start + FLAGS_AT..start + LENGTH_AT].copy_from_slice(&(header.flags & !FLAG_CLIENT).to_be_bytes());
}

pub(super) fn step(call: &mut SessionCall<'_, '_>, input: &[u8]) -> SessionStep {
    let more = |bytes| if call.is_starved { SessionStep::Close } else { SessionStep::More(bytes) };
    let Some(header) = input.first_chunk() else { return more(HEADER_BYTES) };
    let Some(header) = MessageHeader::of(header) else {
        // The end of this message, and so the start of the next one, is not known.
        call.turn.stats.add(|c| &c.refused, 1);
        return SessionStep::Close;
    };
    let Some(message) = input.get(..header.message_bytes) else { return more(header.message_bytes) };
    call.turn.stats.add(|c| &c.requests, 1);
    if header.wants_answer() {
        answer(&header, message, call.out);
    }
    SessionStep::Done(message.len())
}

/// Writes the answer to the message in a datagram to `out`, whose old content goes; it stays empty if no answer is
/// wanted. A datagram that is no message of its length is dropped and counted as refused.
pub fn answer_datagram(turn: &Turn<'_>, datagram: &[u8], out: &mut Vec<u8>) {
    turn.stats.add(|c| &c.datagrams, 1);
    out.clear();
    let header = datagram.first_chunk().and_then(MessageHeader::of);
    let Some(header) = header.filter(|header| header.message_bytes == datagram.len()) else {
        turn.stats.add(|c| &c.refused, 1);
        return;
    };
    turn.stats.add(|c| &c.requests, 1);
    if header.wants_answer() {
        answer(&header, datagram, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Family, Next, Server, Session};
    use super::*;

    fn message(flags: u16, length: u32, padding: usize) -> Vec<u8> {
        let mut bytes = Vec::from(7_u64.to_be_bytes());
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend((0..padding).map(|index| index as u8));
        bytes
    }

    fn turn(server: &Server) -> Turn<'_> {
        Turn { server, stats: server.worker(0), now_ms: 0 }
    }

    #[test]
    fn a_message_comes_back_without_the_clients_bit() {
        for (flags, answered) in [(3, Some(2)), (7, Some(6)), (2, Some(2)), (1, None), (5, None), (0, None)] {
            let server = Server::new(0, 1, 0);
            let request = message(flags, 20, 6);
            let mut out = Vec::new();
            answer_datagram(&turn(&server), &request, &mut out);
            assert_eq!(out, answered.map_or_else(Vec::new, |flags| message(flags, 20, 6)), "flags {flags}");
            assert_eq!((server.totals().requests, server.totals().refused), (1, 0));
        }
    }

    #[test]
    fn a_datagram_of_another_length_than_it_says_is_dropped_and_counted() {
        let wrong =
            [message(3, 20, 5), message(3, 20, 7), message(3, 13, 0), message(3, 0, 0), message(3, u32::MAX, 0)];
        for datagram in wrong.iter().map(Vec::as_slice).chain([&[][..], &[0; 13]]) {
            let server = Server::new(0, 1, 0);
            let mut out = vec![1];
            answer_datagram(&turn(&server), datagram, &mut out);
            assert!(out.is_empty(), "{datagram:?}");
            assert_eq!((server.totals().requests, server.totals().refused), (0, 1), "{datagram:?}");
        }
    }

    #[test]
    fn a_stream_is_cut_by_the_lengths_wherever_it_is_split() {
        let requests = [message(3, 14, 0), message(1, 30, 16), message(7, 15, 1)].concat();
        let answers = [message(2, 14, 0), message(6, 15, 1)].concat();
        for split in 0..=requests.len() {
            let server = Server::new(0, 1, 0);
            let (mut session, mut out) = (Session::new(Family::Sockperf), Vec::new());
            let first = session.advance(&turn(&server), &requests[..split], &mut out);
            assert!(matches!(first.next, Next::Read { .. }), "{split}");
            let second = session.advance(&turn(&server), &requests[first.used..], &mut out);
            assert_eq!((first.used + second.used, &out), (requests.len(), &answers), "{split}");
        }
    }

    #[test]
    fn a_stream_with_a_bad_length_is_closed() {
        for length in [0, 13, MESSAGE_BYTES_MAX as u32 + 1, u32::MAX] {
            let server = Server::new(0, 1, 0);
            let (mut session, mut out) = (Session::new(Family::Sockperf), Vec::new());
            let input = [message(3, 14, 0), message(3, length, 0)].concat();
            let progress = session.advance(&turn(&server), &input, &mut out);
            // What came before it is answered.
            assert_eq!((progress.next, &out), (Next::Close, &message(2, 14, 0)), "{length}");
            assert_eq!(server.totals().refused, 1);
        }
    }
}

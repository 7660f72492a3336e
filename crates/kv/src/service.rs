//! What a worker does with a datagram: parse, look up or store, answer. One call, no state of its own.

use super::protocol::{self, Command, Refusal, Request, RequestError};
use super::table::{StoreError, Table};

/// Serves the request in `datagram` and writes the answer into `out`, which holds at least
/// [`DATAGRAM_BYTES_MAX`](super::DATAGRAM_BYTES_MAX) bytes. Returns its length in bytes; 0 means that nothing is to be
/// sent (`noreply`, or a datagram without an id to answer to). Hostile datagrams get memcached's error lines.
///
/// # Panics
/// If `out` is shorter than that.
pub fn serve(table: &Table, datagram: &[u8], out: &mut [u8]) -> usize {
    assert!(out.len() >= super::DATAGRAM_BYTES_MAX, "the buffer for answers holds a whole datagram");
    let answer = match protocol::parse_request(datagram) {
        Ok(Request { id, command: Command::Get { key } }) => table
            .get(key, |flags, value| protocol::write_value(out, id, key, flags, value))
            .unwrap_or_else(|| protocol::write_end(out, id)),
        Ok(Request { id, command: Command::Set { key, flags, value, noreply } }) => {
            let stored = table.set(key, flags, value);
            if noreply {
                return 0;
            }
            match stored {
                Ok(()) => protocol::write_stored(out, id),
                Err(error) => protocol::write_refusal(out, id, refusal(error)),
            }
        }
        Err(RequestError::Refused { id, refusal }) => protocol::write_refusal(out, id, refusal),
        Err(RequestError::NoFrameHeader { .. }) => return 0,
    };
    answer.expect("the table keeps only what fits one datagram")
}

fn refusal(error: StoreError) -> Refusal {
    match error {
        StoreError::TooLarge { .. } => Refusal::TooLarge,
        StoreError::BadKey { .. } => Refusal::BadLine,
        StoreError::Full => Refusal::OutOfMemory,
    }
}

#[cfg(test)]
mod tests;

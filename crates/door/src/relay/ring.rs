//! The program's side of a relay: its ring, if it has one, and the pair. What is in the ring is older than what is in the pair
//! (`napier_ring::outbox`).

use std::ops::Range;
use std::os::fd::BorrowedFd;

use napier_ring::SharedOutbox;
use napier_ring::outbox::{BadOutbox, OUTBOX_BYTES};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::{CHUNK_BYTES, Relay, Room};

const _: () = assert!(CHUNK_BYTES >= 2 * OUTBOX_BYTES, "a whole ring and as much of the pair are one chunk");

/// What the program gave.
pub(super) enum FromProgram {
    /// Bytes of the scratch.
    Bytes(Range<usize>),
    /// A signal came between.
    Again,
    Nothing,
    /// It has closed its socket with bytes unread, or says what cannot be of its ring.
    Closed,
}

impl Relay {
    /// The program's library puts bytes there from now on.
    pub(crate) fn use_ring(&mut self, outbox: SharedOutbox) {
        self.outbox = Some(outbox);
    }

    pub(crate) fn has_ring(&self) -> bool {
        self.outbox.is_some()
    }

    /// Whether the library still uses its ring.
    pub(crate) fn is_fast(&self) -> bool {
        self.outbox.as_ref().is_some_and(|outbox| outbox.left().is_none())
    }

    /// Why the library has left its ring for good, told once.
    pub(crate) fn has_left(&mut self) -> Option<&'static str> {
        let why = self.outbox.as_ref().filter(|_| !self.has_told)?.left()?;
        self.has_told = true;
        Some(why)
    }

    /// Takes bytes of the program, the oldest first.
    pub(super) fn take_from_program(
        &mut self,
        own: BorrowedFd<'_>,
        scratch: &mut [u8; CHUNK_BYTES],
        room: &mut Room,
    ) -> FromProgram {
        let taken = self.take_from_ring_or_pair(own, scratch, room);
        taken.unwrap_or_else(|BadOutbox| {
            self.reset_on_close();
            FromProgram::Closed
        })
    }

    fn take_from_ring_or_pair(
        &mut self,
        own: BorrowedFd<'_>,
        scratch: &mut [u8; CHUNK_BYTES],
        room: &mut Room,
    ) -> Result<FromProgram, BadOutbox> {
        if self.program_ended {
            return Ok(FromProgram::Nothing);
        }
        let chunk = room.chunk();
        if let Some(outbox) = &mut self.outbox {
            let count = outbox.receive(&mut scratch[..chunk])?;
            if count > 0 {
                room.from_programs[0] += count as u64;
                return Ok(FromProgram::Bytes(0..count));
            }
        }
        if !self.pair.readable {
            return Ok(FromProgram::Nothing);
        }
        // Where there is a ring, the first half is for what it may have got meanwhile.
        let from = if self.outbox.is_some() { OUTBOX_BYTES } else { 0 };
        let into = &mut scratch[from..CHUNK_BYTES.min(from + chunk)];
        let received = match recv(own, into, RecvFlags::DONTWAIT) {
            Ok((count, _)) => count,
            Err(Errno::AGAIN) => {
                self.pair.readable = false;
                return Ok(FromProgram::Nothing);
            }
            Err(Errno::INTR) => return Ok(FromProgram::Again),
            // The program has closed it with bytes unread: so does TCP then (`net/ipv4/tcp.c` `__tcp_close`).
            Err(_) => {
                self.reset_on_close();
                return Ok(FromProgram::Closed);
            }
        };
        let before = match &mut self.outbox {
            Some(outbox) => {
                let by_pair = u32::try_from(received).expect("less than a chunk");
                let before = outbox.receive_before(&mut scratch[..from], by_pair)?;
                room.from_programs[0] += before as u64;
                room.from_programs[1] += received as u64;
                before
            }
            None => 0,
        };
        // The end is found again when the ring is empty.
        if received + before == 0 {
            self.program_ended = true;
            self.far.end_sending();
            return Ok(FromProgram::Nothing);
        }
        Ok(FromProgram::Bytes(from - before..from + received))
    }
}

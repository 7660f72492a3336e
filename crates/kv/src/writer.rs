//! Writes text into a buffer of fixed length, and remembers if it did not fit.

use super::FRAME_HEADER_BYTES;

/// The buffer is too short for what was to be written; nothing may be sent of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the datagram needs {needed_bytes} bytes and the buffer has {available_bytes}; give a longer buffer")]
pub struct NoRoom {
    /// Bytes that the whole datagram needs.
    pub needed_bytes: usize,
    /// Bytes that the buffer has.
    pub available_bytes: usize,
}

pub(super) struct Writer<'a> {
    out: &'a mut [u8],
    /// Bytes asked for so far; more than `out.len()` means that it did not fit.
    at: usize,
}

impl<'a> Writer<'a> {
    /// Starts a datagram: its frame header says request `id`, first and only datagram.
    pub(super) fn datagram(out: &'a mut [u8], id: u16) -> Self {
        let mut header = [0; FRAME_HEADER_BYTES];
        header[..2].copy_from_slice(&id.to_be_bytes());
        header[4..6].copy_from_slice(&1_u16.to_be_bytes());
        Self { out, at: 0 }.put(&header)
    }

    pub(super) fn put(mut self, bytes: &[u8]) -> Self {
        if let Some(room) = self.out.get_mut(self.at..self.at + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.at += bytes.len();
        self
    }

    pub(super) fn decimal(self, mut number: u32) -> Self {
        let mut digits = [0; 10];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return self.put(&digits[first..]);
            }
        }
    }

    /// Length of the datagram in bytes.
    pub(super) fn finish(self) -> Result<usize, NoRoom> {
        if self.at <= self.out.len() {
            Ok(self.at)
        } else {
            Err(NoRoom { needed_bytes: self.at, available_bytes: self.out.len() })
        }
    }
}

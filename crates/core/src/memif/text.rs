//! Text in messages: a field of fixed length, ended by a NUL if it is shorter.

use core::fmt::{self, Write};

/// At most `N - 1` bytes of text as memif carries it.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    /// The text, cut after `N - 1` bytes or at its first NUL.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self::from_bytes(text.as_bytes())
    }

    /// What a peer sent: bytes up to the first NUL, of at most `N - 1`.
    #[must_use]
    pub fn from_bytes(from: &[u8]) -> Self {
        let len = from.iter().take(N - 1).position(|&byte| byte == 0).unwrap_or(from.len().min(N - 1));
        let mut bytes = [0; N];
        bytes[..len].copy_from_slice(&from[..len]);
        Self { bytes, len }
    }

    /// The field: the bytes and NULs up to its end.
    #[must_use]
    pub fn field(&self) -> &[u8; N] {
        &self.bytes
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Shows printable ASCII; any other byte is a question mark, for a peer may send anything.
impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes[..self.len].iter().try_for_each(|&byte| {
            let printable = byte == b' ' || byte.is_ascii_graphic();
            f.write_char(if printable { char::from(byte) } else { '?' })
        })
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Formats into a text; what does not fit is cut.
impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = (N - 1).saturating_sub(self.len);
        let taken = &more.as_bytes()[..more.len().min(room)];
        self.bytes[self.len..self.len + taken.len()].copy_from_slice(taken);
        self.len += taken.len();
        Ok(())
    }
}

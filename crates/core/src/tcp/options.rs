//! Options of a TCP header (RFC 9293 section 3.1): what comes is read once, what is wrong is skipped.
//!
//! | kind | option | read | written |
//! |---|---|---|---|
//! | 0, 1 | end, no operation | yes | as padding |
//! | 2 | maximum segment size | with SYN | with SYN |
//! | 3 | window scale, at most 14 (RFC 7323 section 2.3) | with SYN | with SYN |
//! | 4 | selective acknowledgements permitted (RFC 2018 section 2) | with SYN | with SYN |
//! | 5 | selective acknowledgements (RFC 2018 section 3) | without SYN | as many blocks as there is room for |
//! | 8 | timestamps (RFC 7323 section 3) | yes | yes, if both ends want them |
//! | others | | skipped by their length | no |

use crate::tcp::ranges::SackBlock;
use crate::tcp::seq::Seq;
use crate::time::Span;

/// Most bytes of options.
pub const OPTIONS_MAX: usize = 40;
/// Most blocks of selective acknowledgements in one header (RFC 2018 section 3).
pub const BLOCKS_MAX: usize = 4;
/// Largest shift of a window (RFC 7323 section 2.3).
pub const SCALE_MAX: u8 = 14;
/// Bytes of the timestamps with their padding.
pub const STAMPS_LEN: usize = 12;

/// How long a timestamp is believed (RFC 7323 section 5.5).
pub const STAMP_FOR: Span = Span::from_secs(24 * 24 * 3600);

/// Both numbers of the timestamps option.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// The sender's clock.
    pub value: u32,
    /// What it heard last of the receiver's.
    pub echo: u32,
}

impl Stamps {
    /// Whether the sender's clock is behind `recent`, which it showed for the last time `since` ago (RFC 7323 section 5.3). A tick back is none, for
    /// a peer that reads its clock before it sends (`TCP_PAWS_WINDOW`).
    #[inline]
    #[must_use]
    pub fn is_outdated(self, recent: u32, since: Span) -> bool {
        Seq(self.value).is_before(Seq(recent) - 1) && since < STAMP_FOR
    }
}

/// What a SYN says besides.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct SynOptions {
    /// Maximum segment size.
    pub segment_bytes: Option<u16>,
    /// Window scale.
    pub scale: Option<u8>,
    /// Selective acknowledgements are welcome.
    pub selective: bool,
}

/// The options of one header.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// What only a SYN says.
    pub syn: SynOptions,
    /// Timestamps.
    pub stamps: Option<Stamps>,
    /// Selective acknowledgements, in their order.
    pub blocks: [SackBlock; BLOCKS_MAX],
    /// How many there are.
    pub count: u8,
}

/// No-operation twice, then the timestamps: the way in which all write it (RFC 7323 appendix A).
const STAMPS_HEAD: [u8; 4] = [1, 1, 8, 10];

impl Options {
    /// Reads the bytes behind the first 20 of a header. `syn`: the segment has SYN.
    #[inline]
    #[must_use]
    pub fn read(bytes: &[u8], syn: bool) -> Self {
        match bytes {
            [] => Self::default(),
            [1, 1, 8, 10, v0, v1, v2, v3, e0, e1, e2, e3] => Self {
                stamps: Some(Stamps {
                    value: u32::from_be_bytes([*v0, *v1, *v2, *v3]),
                    echo: u32::from_be_bytes([*e0, *e1, *e2, *e3]),
                }),
                ..Self::default()
            },
            _ => Self::read_any(bytes, syn),
        }
    }

    fn read_any(mut rest: &[u8], syn: bool) -> Self {
        let mut options = Self::default();
        loop {
            let (kind, len) = match *rest {
                [] | [0, ..] | [_] => return options,
                [1, ..] => {
                    rest = &rest[1..];
                    continue;
                }
                [kind, len, ..] => (kind, usize::from(len)),
            };
            if len < 2 || len > rest.len() {
                return options;
            }
            let (option, after) = rest.split_at(len);
            rest = after;
            match (kind, &option[2..]) {
                (2, &[high, low]) if syn => options.syn.segment_bytes = Some(u16::from_be_bytes([high, low])),
                (3, &[scale]) if syn => options.syn.scale = Some(scale.min(SCALE_MAX)),
                (4, []) if syn => options.syn.selective = true,
                (5, blocks) if !syn && blocks.len() % 8 == 0 => options.take_blocks(blocks),
                (8, &[v0, v1, v2, v3, e0, e1, e2, e3]) => {
                    let (value, echo) = (u32::from_be_bytes([v0, v1, v2, v3]), u32::from_be_bytes([e0, e1, e2, e3]));
                    options.stamps = Some(Stamps { value, echo });
                }
                _ => {}
            }
        }
    }

    fn take_blocks(&mut self, bytes: &[u8]) {
        let (blocks, _) = bytes.as_chunks::<8>();
        for ([s0, s1, s2, s3, e0, e1, e2, e3], place) in blocks.iter().zip(&mut self.blocks) {
            let start = Seq(u32::from_be_bytes([*s0, *s1, *s2, *s3]));
            *place = SackBlock { start, end: Seq(u32::from_be_bytes([*e0, *e1, *e2, *e3])) };
        }
        self.count = blocks.len().min(BLOCKS_MAX) as u8;
    }

    /// The selective acknowledgements.
    #[inline]
    #[must_use]
    pub fn blocks(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// Options as they stand in a header: a multiple of four bytes.
#[derive(Copy, Clone, Debug)]
pub struct Written {
    bytes: [u8; OPTIONS_MAX],
    len: u8,
}

impl Default for Written {
    fn default() -> Self {
        Self { bytes: [0; OPTIONS_MAX], len: 0 }
    }
}

impl Written {
    /// The bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// How many there are.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// There are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = self.len();
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }

    /// Adds timestamps.
    #[inline]
    pub fn stamps(&mut self, stamps: Stamps) {
        let at = self.len();
        let place = &mut self.bytes[at..at + STAMPS_LEN];
        place[..4].copy_from_slice(&STAMPS_HEAD);
        place[4..8].copy_from_slice(&stamps.value.to_be_bytes());
        place[8..].copy_from_slice(&stamps.echo.to_be_bytes());
        self.len += STAMPS_LEN as u8;
    }

    /// Adds what a SYN says, each padded to four bytes.
    pub fn syn(&mut self, syn: &SynOptions) {
        if let Some(bytes) = syn.segment_bytes {
            let [high, low] = bytes.to_be_bytes();
            self.put(&[2, 4, high, low]);
        }
        if syn.selective {
            self.put(&[1, 1, 4, 2]);
        }
        if let Some(scale) = syn.scale {
            self.put(&[1, 3, 3, scale]);
        }
    }

    /// Adds as many of the blocks as there is room for.
    pub fn blocks(&mut self, blocks: impl Iterator<Item = SackBlock>) {
        let head = self.len();
        let room = (OPTIONS_MAX - head).saturating_sub(4) / 8;
        let mut count = 0;
        for block in blocks.take(room) {
            if count == 0 {
                self.put(&[1, 1, 5, 2]);
            }
            self.put(&block.start.0.to_be_bytes());
            self.put(&block.end.0.to_be_bytes());
            count += 1;
        }
        if count > 0 {
            self.bytes[head + 3] = 2 + 8 * count;
        }
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;

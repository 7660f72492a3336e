//! Messages on a stream: of a length that both ends know, or behind a head that says it.
//!
//! A connection carries one message at a time each way, so what is read never belongs to two. The head is 64 bytes:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | `NPST` |
//! | 4 | 0 = read, 1 = write, 2 = answer |
//! | 5 | 1 = bytes follow: those of a write, and of the answer to a read |
//! | 8..12 | bytes that are read or written, little endian |
//! | 16..24 | the request's number, little endian; an answer has that of its request |
//!
//! The rest is zero.

use std::io;

use napier_kv::serve::net::Net;

/// Bytes of a head.
pub(super) const HEAD_BYTES: usize = 64;
/// Bytes that are read or written in one call at most.
const PAGE_BYTES: usize = 64 << 10;
/// Most bytes of one message behind its head.
pub const MESSAGE_BYTES_MAX: u32 = 16 << 20;

const MAGIC: [u8; 4] = *b"NPST";

/// What a message is about.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Read,
    Write,
    Answer,
}

/// The front of a message of the store.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) op: Op,
    /// Bytes that are read or written.
    pub(super) bytes: u32,
    /// Of the request.
    pub(super) number: u64,
    /// Whether it is the answer to a read, which has the bytes behind it.
    pub(super) carries: bool,
}

impl Head {
    /// A request.
    pub(super) fn request(op: Op, bytes: u32, number: u64) -> Self {
        Self { op, bytes, number, carries: op == Op::Write }
    }

    /// The answer to this request.
    pub(super) fn answer(self) -> Self {
        Self { op: Op::Answer, carries: self.op == Op::Read, ..self }
    }

    /// Bytes of the whole message.
    pub(super) fn message_bytes(self) -> usize {
        HEAD_BYTES + if self.carries { self.bytes as usize } else { 0 }
    }

    fn encode(self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&MAGIC);
        head[4] = match self.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Answer => 2,
        };
        head[5] = u8::from(self.carries);
        head[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        head[16..24].copy_from_slice(&self.number.to_le_bytes());
        head
    }

    /// Checks what a peer has sent.
    fn decode(head: &[u8; HEAD_BYTES]) -> io::Result<Self> {
        let bytes = u32::from_le_bytes(head[8..12].try_into().expect("four bytes"));
        let number = u64::from_le_bytes(head[16..24].try_into().expect("eight bytes"));
        let carries = head[5] == 1;
        let op = match (head[4], carries) {
            (0, false) => Op::Read,
            (1, true) => Op::Write,
            (2, _) => Op::Answer,
            _ => return Err(not_ours()),
        };
        if head[..4] != MAGIC || bytes > MESSAGE_BYTES_MAX || head[5] > 1 {
            return Err(not_ours());
        }
        Ok(Self { op, bytes, number, carries })
    }
}

fn not_ours() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a peer sent what is no message of this experiment")
}

/// Room for what is read and written; the bytes behind heads are whatever is in it.
pub(super) fn page() -> Vec<u8> {
    vec![7; PAGE_BYTES]
}

/// A message on its way out.
#[derive(Default)]
pub(super) struct Outgoing {
    head: Option<[u8; HEAD_BYTES]>,
    total: usize,
    sent: usize,
}

impl Outgoing {
    /// So many bytes without a head.
    pub(super) fn plain(total: usize) -> Self {
        Self { head: None, total, sent: 0 }
    }

    pub(super) fn headed(head: Head) -> Self {
        Self { head: Some(head.encode()), total: head.message_bytes(), sent: 0 }
    }

    /// Whether a part of it is still here.
    pub(super) fn waits(&self) -> bool {
        self.sent < self.total
    }

    /// Writes as far as there is room. Whether all of it has gone.
    pub(super) fn write<N: Net>(&mut self, net: &N, stream: &N::Stream, page: &mut [u8]) -> io::Result<bool> {
        while self.waits() {
            let chunk = match &self.head {
                Some(head) if self.sent < HEAD_BYTES => {
                    page[..HEAD_BYTES].copy_from_slice(head);
                    &page[self.sent..self.total.min(page.len())]
                }
                _ => &page[..(self.total - self.sent).min(page.len())],
            };
            match net.write(stream, chunk) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// How long a message is.
#[derive(Copy, Clone, Debug)]
pub(super) enum MessageShape {
    /// Always so many bytes.
    Plain(usize),
    /// As its head says.
    Headed,
}

/// A message on its way in.
pub(super) struct Incoming {
    shape: MessageShape,
    head: [u8; HEAD_BYTES],
    got: usize,
}

/// What a read has brought.
pub(super) enum Arrived {
    /// The end of the message is still to come.
    Part,
    /// All of it, with its head if it has one.
    Whole(Option<Head>),
    /// The peer has closed.
    End,
}

impl Incoming {
    pub(super) fn new(shape: MessageShape) -> Self {
        Self { shape, head: [0; HEAD_BYTES], got: 0 }
    }

    /// Reads once: a message of many pages does not keep others waiting.
    pub(super) fn read<N: Net>(&mut self, net: &N, stream: &N::Stream, page: &mut [u8]) -> io::Result<Arrived> {
        match net.read(stream, page) {
            Ok(0) => Ok(Arrived::End),
            Ok(count) => self.take(&page[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(Arrived::Part)
            }
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<Arrived> {
        let (total, head) = match self.shape {
            MessageShape::Plain(total) => (total, None),
            MessageShape::Headed => {
                if self.got < HEAD_BYTES {
                    let count = bytes.len().min(HEAD_BYTES - self.got);
                    self.head[self.got..self.got + count].copy_from_slice(&bytes[..count]);
                    if self.got + count < HEAD_BYTES {
                        self.got += count;
                        return Ok(Arrived::Part);
                    }
                }
                let head = Head::decode(&self.head)?;
                (head.message_bytes(), Some(head))
            }
        };
        self.got += bytes.len();
        match self.got.cmp(&total) {
            std::cmp::Ordering::Less => Ok(Arrived::Part),
            std::cmp::Ordering::Equal => {
                self.got = 0;
                Ok(Arrived::Whole(head))
            }
            std::cmp::Ordering::Greater => Err(not_ours()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(incoming: &mut Incoming, bytes: &[u8], step: usize) -> Option<Option<Head>> {
        let mut found = None;
        for part in bytes.chunks(step) {
            assert!(found.is_none(), "a message ends with its last byte");
            if let Arrived::Whole(head) = incoming.take(part).unwrap() {
                found = Some(head);
            }
        }
        found
    }

    #[test]
    fn a_message_is_whole_however_it_is_cut() {
        for op in [Op::Read, Op::Write] {
            let request = Head::request(op, 1000, 77);
            for head in [request, request.answer()] {
                let mut bytes = head.encode().to_vec();
                bytes.resize(head.message_bytes(), 7);
                for step in [1, 63, 64, 65, 5000] {
                    let mut incoming = Incoming::new(MessageShape::Headed);
                    assert_eq!(whole(&mut incoming, &bytes, step), Some(Some(head)));
                    assert_eq!(whole(&mut incoming, &bytes, step), Some(Some(head)), "and the next one");
                }
            }
        }
        assert_eq!(whole(&mut Incoming::new(MessageShape::Plain(10)), &[0; 10], 3), Some(None));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let good = Head::request(Op::Read, 4096, 1).encode();
        for (at, byte) in [(0, b'X'), (4, 3), (5, 1), (5, 2), (11, 0xff)] {
            let mut bad = good;
            bad[at] = byte;
            assert!(Incoming::new(MessageShape::Headed).take(&bad).is_err(), "byte {at}");
        }
        assert!(Incoming::new(MessageShape::Plain(10)).take(&[0; 11]).is_err());
    }
}

//! Requests to a server from a file of captured packets: `pcap` and `pcapng`, as `tcpdump -w`, `dumpcap` and this program write them. Of each packet
//! its headers alone are looked at, so 128 bytes of each (`tcpdump -s 128`) are enough. Source: draft-ietf-opsawg-pcap,
//! draft-ietf-opsawg-pcapng, the list of link types of tcpdump.org; RFC 791, RFC 8200, RFC 9293.

mod frame;

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};

use napier_core::time::Span;

use frame::{Endpoint, Link, Segment};

/// A packet or block is not larger.
const BLOCK_MAX: usize = 1 << 22;
/// Packets with data that are kept; of a larger file the first ones are.
const SEGMENTS_MAX: usize = 8_000_000;

/// Requests of a file.
#[derive(Clone, PartialEq, Debug)]
pub struct CapturedRequests {
    /// When each came since the first packet, and its connection.
    pub requests: Vec<(Span, u32)>,
    /// From the first packet to the last.
    pub length: Span,
    /// The port that they came to.
    pub port: u16,
    /// Answers are in the file too, so that what comes before one is one request; else each packet with data is.
    pub has_answers: bool,
    /// Packets of the file.
    pub packets: u64,
    /// Of these, neither TCP nor UDP over IP.
    pub others: u64,
    /// The file ends in the middle, or has more packets than are kept.
    pub is_cut: bool,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("it is no file of packets: give one that `tcpdump -w FILE` wrote (pcap or pcapng)")]
    NotOne,
    /// A link type that is not known here.
    #[error("its packets are of link type {0}, which is not read here: capture on an Ethernet interface, or on `any`")]
    Link(u32),
    /// No packet with data to that port.
    #[error("of its {packets} packets none brings data to {}", port.map_or_else(|| "a port".to_owned(), |port| format!("port {port}: give the server's --port")))]
    NoRequests {
        /// Packets of the file.
        packets: u64,
        /// As asked.
        port: Option<u16>,
    },
}

/// Reads the requests to a port; without one, to the port of the endpoint with most others.
///
/// # Errors
/// [`PcapError`].
pub fn requests(file: &mut dyn Read, port: Option<u16>) -> Result<CapturedRequests, PcapError> {
    let mut packets = Packets::default();
    packets.is_cut = match read_all(file, &mut packets) {
        Err(PcapError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof && packets.seen > 0 => true,
        read => read? || packets.segments.len() == SEGMENTS_MAX,
    };
    packets.requests(port)
}

/// Packets with data, in the order of the file.
#[derive(Default)]
struct Packets {
    seen: u64,
    others: u64,
    is_cut: bool,
    endpoints: HashMap<Endpoint, u32>,
    segments: Vec<KeptSegment>,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// One of them: from and to which endpoint.
#[derive(Clone, Copy)]
struct KeptSegment {
    at_ns: u64,
    from: u32,
    to: u32,
}

impl Packets {
    fn add(&mut self, at_ns: u64, link: Link, bytes: &[u8], length: usize) {
        self.seen += 1;
        self.first_ns = Some(self.first_ns.map_or(at_ns, |first| first.min(at_ns)));
        self.last_ns = self.last_ns.max(at_ns);
        let Some(Segment { from, to, data }) = Segment::parse(link, bytes, length) else {
            self.others += 1;
            return;
        };
        if data > 0 && self.segments.len() < SEGMENTS_MAX {
            let mut number = |endpoint| {
                let next = self.endpoints.len() as u32;
                *self.endpoints.entry(endpoint).or_insert(next)
            };
            self.segments.push(KeptSegment { at_ns, from: number(from), to: number(to) });
        }
    }

    /// The endpoint with most others, of those with as many the one with the smaller port.
    fn busiest(&self) -> Option<u16> {
        let mut others: HashMap<u32, HashSet<u32>> = HashMap::new();
        for KeptSegment { from, to, .. } in &self.segments {
            others.entry(*to).or_default().insert(*from);
            others.entry(*from).or_default().insert(*to);
        }
        let rank = |(endpoint, number): &(&Endpoint, &u32)| {
            (others.get(number).map_or(0, HashSet::len), std::cmp::Reverse(endpoint.port))
        };
        self.endpoints.iter().max_by_key(rank).map(|(endpoint, _)| endpoint.port)
    }

    fn requests(mut self, asked: Option<u16>) -> Result<CapturedRequests, PcapError> {
        let none = PcapError::NoRequests { packets: self.seen, port: asked };
        let (Some(port), Some(first_ns)) = (asked.or_else(|| self.busiest()), self.first_ns) else { return Err(none) };
        let mut is_server = vec![false; self.endpoints.len()];
        for (endpoint, number) in &self.endpoints {
            is_server[*number as usize] = endpoint.port == port;
        }
        // Files of several processors are not in order.
        self.segments.sort_by_key(|one| one.at_ns);
        let of = |number: u32| is_server[number as usize];
        let has_answers = self.segments.iter().any(|one| of(one.from) && !of(one.to));
        let (mut connections, mut waiting, mut requests) = (HashMap::new(), HashSet::new(), Vec::new());
        for KeptSegment { at_ns, from, to } in self.segments {
            match (of(to), of(from)) {
                (true, false) => {
                    let next = connections.len() as u32;
                    let connection = *connections.entry((from, to)).or_insert(next);
                    if waiting.insert((from, to)) || !has_answers {
                        requests.push((Span::from_ns(at_ns - first_ns), connection));
                    }
                }
                (false, true) => _ = waiting.remove(&(to, from)),
                (true, true) | (false, false) => {}
            }
        }
        if requests.is_empty() {
            return Err(none);
        }
        let length = Span::from_ns(self.last_ns - first_ns);
        let (packets, others, is_cut) = (self.seen, self.others, self.is_cut);
        Ok(CapturedRequests { requests, length, port, has_answers, packets, others, is_cut })
    }
}

/// Numbers as a file writes them.
#[derive(Clone, Copy)]
struct Order {
    is_big: bool,
}

impl Order {
    fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let two = *bytes.get(at..)?.first_chunk()?;
        Some(if self.is_big { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) })
    }

    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let four = *bytes.get(at..)?.first_chunk()?;
        Some(if self.is_big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
    }
}

/// Reads all packets; whether the file was cut.
fn read_all(file: &mut dyn Read, packets: &mut Packets) -> Result<bool, PcapError> {
    let mut magic = [0; 4];
    file.read_exact(&mut magic).map_err(|_| PcapError::NotOne)?;
    let order = |is_big| Order { is_big };
    match u32::from_le_bytes(magic) {
        0xa1b2_c3d4 => pcap(file, packets, order(false), 1000),
        0xa1b2_3c4d => pcap(file, packets, order(false), 1),
        0xd4c3_b2a1 => pcap(file, packets, order(true), 1000),
        0x4d3c_b2a1 => pcap(file, packets, order(true), 1),
        SECTION => pcapng(file, packets),
        _ => Err(PcapError::NotOne),
    }
}

/// Whether what a file begins with says that it is one of packets.
#[must_use]
pub fn is_one(bytes: &[u8]) -> bool {
    let magic = bytes.first_chunk().map(|magic| u32::from_le_bytes(*magic));
    magic.is_some_and(|magic| [0xa1b2_c3d4, 0xa1b2_3c4d, 0xd4c3_b2a1, 0x4d3c_b2a1, SECTION].contains(&magic))
}

/// Fills a buffer; false if the file ends before its first byte.
fn fill(file: &mut dyn Read, buffer: &mut [u8]) -> io::Result<bool> {
    let count = loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if count == 0 && !buffer.is_empty() {
        return Ok(false);
    }
    file.read_exact(&mut buffer[count..]).map(|()| true)
}

fn pcap(file: &mut dyn Read, packets: &mut Packets, order: Order, unit_ns: u64) -> Result<bool, PcapError> {
    let mut head = [0; 20];
    file.read_exact(&mut head)?;
    let link = Link::of(order.u32(&head, 16).ok_or(PcapError::NotOne)? & 0xffff)?;
    let (mut record, mut bytes) = ([0; 16], Vec::new());
    while packets.segments.len() < SEGMENTS_MAX {
        if !fill(file, &mut record)? {
            return Ok(false);
        }
        let word = |at| order.u32(&record, at).ok_or(PcapError::NotOne);
        let at_ns = u64::from(word(0)?) * 1_000_000_000 + u64::from(word(4)?) * unit_ns;
        let captured = word(8)? as usize;
        if captured > BLOCK_MAX {
            return Err(PcapError::NotOne);
        }
        bytes.resize(captured, 0);
        file.read_exact(&mut bytes)?;
        packets.add(at_ns, link, &bytes, word(12)? as usize);
    }
    Ok(true)
}

/// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;

/// An interface of a section: its link type, and ticks of its times in a second.
struct CaptureLink {
    link: Link,
    ticks_per_s: u128,
}

fn pcapng(file: &mut dyn Read, packets: &mut Packets) -> Result<bool, PcapError> {
    let (mut order, mut interfaces, mut kind) = (Order { is_big: false }, Vec::new(), SECTION.to_le_bytes());
    let mut body = Vec::new();
    loop {
        let mut length = [0; 4];
        file.read_exact(&mut length)?;
        let mut begin = 0;
        let is_section = u32::from_le_bytes(kind) == SECTION;
        if is_section {
            let mut magic = [0; 4];
            file.read_exact(&mut magic)?;
            order.is_big = match u32::from_le_bytes(magic) {
                0x1a2b_3c4d => false,
                0x4d3c_2b1a => true,
                _ => return Err(PcapError::NotOne),
            };
            (begin, interfaces) = (4, Vec::new());
        }
        let length = order.u32(&length, 0).unwrap_or(0) as usize;
        // Its type, its length and, for a section, its magic number are read; its length comes once more at its end.
        let rest =
            length.checked_sub(8 + begin).filter(|rest| (4..=BLOCK_MAX).contains(rest)).ok_or(PcapError::NotOne)?;
        body.resize(rest, 0);
        file.read_exact(&mut body)?;
        body.truncate(rest - 4);
        match order.u32(&kind, 0) {
            _ if is_section => {}
            Some(INTERFACE) => interfaces.push(interface(order, &body).ok_or(PcapError::NotOne)??),
            Some(PACKET) => packet(order, &body, &interfaces, packets).ok_or(PcapError::NotOne)?,
            _ => {}
        }
        if packets.segments.len() == SEGMENTS_MAX {
            return Ok(true);
        }
        if !fill(file, &mut kind)? {
            return Ok(false);
        }
    }
}

fn interface(order: Order, body: &[u8]) -> Option<Result<CaptureLink, PcapError>> {
    /// `if_tsresol`.
    const RESOLUTION: u16 = 9;
    let link = Link::of(order.u16(body, 0)?.into());
    let (mut at, mut ticks_per_s) = (8, 1_000_000);
    while let (Some(code), Some(length)) = (order.u16(body, at), order.u16(body, at + 2)) {
        if code == 0 {
            break;
        }
        if let (RESOLUTION, Some(power)) = (code, body.get(at + 4)) {
            let base: u128 = if power & 0x80 == 0 { 10 } else { 2 };
            ticks_per_s = base.checked_pow(u32::from(power & 0x7f)).filter(|ticks| *ticks < 1 << 64)?;
        }
        at += 4 + usize::from(length).next_multiple_of(4);
    }
    Some(link.map(|link| CaptureLink { link, ticks_per_s }))
}

/// `None` for what is no packet of this section.
fn packet(order: Order, body: &[u8], interfaces: &[CaptureLink], packets: &mut Packets) -> Option<()> {
    let word = |at| order.u32(body, at);
    let CaptureLink { link, ticks_per_s } = interfaces.get(word(0)? as usize)?;
    let ticks = u128::from(word(4)?) << 32 | u128::from(word(8)?);
    let at_ns = u64::try_from(ticks * 1_000_000_000 / ticks_per_s).ok()?;
    let bytes = body.get(20..20 + word(12)? as usize)?;
    packets.add(at_ns, *link, bytes, word(16)? as usize);
    Some(())
}

#[cfg(test)]
mod tests;

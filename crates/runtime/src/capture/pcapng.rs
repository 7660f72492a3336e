//! Blocks of a pcapng file. Source: draft-ietf-opsawg-pcapng, sections 4.1, 4.2, 4.3, 4.6 and 3.5; numbers in
//! little-endian order, as the section header says.
//!
//! ```text
//! section header | interface description | enhanced packet ... | interface statistics
//! ```
//!
//! Each function appends one whole block, padded to 32 bits, with its length at both ends. Written here because it is
//! little, must reach the file block by block, and `epb_queue` is not among the options of the usual crates' writers.

/// `LINKTYPE_ETHERNET`.
const LINKTYPE_ETHERNET: u16 = 1;
/// The only interface of a section.
const INTERFACE: u32 = 0;

/// Which way a frame went.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    /// Received.
    In = 1,
    /// Transmitted.
    Out = 2,
}

/// One frame of an enhanced packet block, without its bytes.
#[derive(Copy, Clone, Debug)]
pub(super) struct CapturedPacket {
    /// Since 1970.
    pub(super) at_ns: u64,
    /// Bytes of the frame on the wire.
    pub(super) length: u32,
    pub(super) direction: Direction,
    pub(super) queue: u32,
    /// Frames dropped between the one before on this queue in this direction and this one.
    pub(super) lost: u32,
}

/// What an interface statistics block says.
#[derive(Copy, Clone, Debug)]
pub(super) struct Statistics {
    /// Begin and end of the capture, ns since 1970.
    pub(super) begun_ns: u64,
    pub(super) ended_ns: u64,
    /// Frames seen.
    pub(super) seen: u64,
    /// Of these, frames that are not in the file.
    pub(super) dropped: u64,
}

/// Begins a section.
pub(super) fn section_header(out: &mut Vec<u8>) {
    block(out, 0x0a0d_0d0a, |out| {
        put32(out, 0x1a2b_3c4d);
        out.extend(1_u16.to_le_bytes()); // version 1.0
        out.extend(0_u16.to_le_bytes());
        out.extend(u64::MAX.to_le_bytes()); // the length is not known yet
        option(out, 3, std::env::consts::OS.as_bytes());
        option(out, 4, concat!("napier ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(out, 0, &[]);
    });
}

/// Describes the section's one interface; times are in ns.
pub(super) fn interface_description(out: &mut Vec<u8>, name: &str, mac: [u8; 6], snaplen: u32) {
    block(out, 1, |out| {
        out.extend(LINKTYPE_ETHERNET.to_le_bytes());
        out.extend(0_u16.to_le_bytes());
        put32(out, snaplen);
        option(out, 2, name.as_bytes());
        option(out, 6, &mac);
        option(out, 9, &[9]); // 10^-9 s
        option(out, 0, &[]);
    });
}

/// One frame; `bytes` appends its first bytes.
pub(super) fn enhanced_packet(
    out: &mut Vec<u8>,
    packet: &CapturedPacket,
    captured: u32,
    bytes: impl FnOnce(&mut Vec<u8>),
) {
    block(out, 6, |out| {
        put32(out, INTERFACE);
        put_time(out, packet.at_ns);
        put32(out, captured);
        put32(out, packet.length);
        bytes(out);
        pad(out);
        option(out, 2, &(packet.direction as u32).to_le_bytes());
        if packet.lost > 0 {
            option(out, 4, &u64::from(packet.lost).to_le_bytes());
        }
        option(out, 6, &packet.queue.to_le_bytes());
        option(out, 0, &[]);
    });
}

/// What became of the capture, at its end.
pub(super) fn interface_statistics(out: &mut Vec<u8>, statistics: &Statistics) {
    block(out, 5, |out| {
        put32(out, INTERFACE);
        put_time(out, statistics.ended_ns);
        for (code, time) in [(2, statistics.begun_ns), (3, statistics.ended_ns)] {
            let mut halves = Vec::with_capacity(8);
            put_time(&mut halves, time);
            option(out, code, &halves);
        }
        option(out, 4, &statistics.seen.to_le_bytes());
        option(out, 5, &statistics.dropped.to_le_bytes());
        option(out, 0, &[]);
    });
}

fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    assert!(out.len().is_multiple_of(4), "blocks end at 32 bits");
    let begin = out.len();
    put32(out, kind);
    put32(out, 0);
    body(out);
    assert!(out.len().is_multiple_of(4), "bodies are padded");
    let length = (out.len() + 4 - begin) as u32; // a frame and a few options
    out[begin + 4..begin + 8].copy_from_slice(&length.to_le_bytes());
    put32(out, length);
}

/// Code, length, value, padding; code 0 ends the options.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes()); // names and numbers
    out.extend(value);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend(value.to_le_bytes());
}

/// The upper half comes first, in either byte order.
fn put_time(out: &mut Vec<u8>, ns: u64) {
    put32(out, (ns >> 32) as u32);
    put32(out, ns as u32);
}

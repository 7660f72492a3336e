//! Whole frames of a hostile peer, through a name space with sockets: for the fuzzer, and to replay its corpus.
//!
//! A script is a byte of switches, then frames, each behind its length in two bytes, low byte first.
//!
//! | bit of the first byte | |
//! |---|---|
//! | 0 | a TCP listener, whose connections are read and written |
//! | 1 | checksums are mended, so that what is behind them is reached |
//! | 2 | acknowledgement numbers are mended: of what was sent last |
//! | 3 | frames of a poll may be merged |

use std::io::{Read as _, Write as _};

use napier_core::completion::Flush;
use napier_sys::clock::Clock;

use crate::UdpSocket;
use crate::options::SocketOption;
use crate::pass::merge::Merging;
use crate::tcp::{TcpListener, TcpStream};
use crate::testing::{IFINDEX, NAPI, Rig, at};
use crate::wire::checksum::Sum;
use crate::wire::{ETH_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, PROTO_TCP};

const LISTEN: u8 = 1;
const MEND_SUMS: u8 = 2;
const MEND_ACKS: u8 = 4;
const MERGE: u8 = 8;

/// Frames of one poll.
const BURST: usize = 4;
/// A frame of the rig has this many bytes at most.
const FRAME_MAX: usize = 1514;

/// Plays a script.
///
/// # Panics
/// If a frame finds a mistake of ours, or a frame is lost.
pub fn fuzz_frames(script: &[u8]) {
    let Some((&switches, rest)) = script.split_first() else { return };
    let mut rig = Rig::new();
    let sockets = ["0.0.0.0:7", "[::]:7", "0.0.0.0:9"].map(|addr| {
        let builder = UdpSocket::builder().nonblocking(true).only_v6(true);
        let socket = builder.bind(&rig.ns, at(addr)).expect("a free place");
        // A question that is out, of each family.
        let _ = socket.send_to(b"?", at(if addr.starts_with('[') { "[fd00::2]:1" } else { "10.0.0.2:1" }));
        socket
    });
    sockets[2].setsockopt(SocketOption::UdpGro, 1).expect("a flag");
    let listener = (switches & LISTEN != 0)
        .then(|| TcpListener::builder().nonblocking(true).rcvbuf(4096).sndbuf(4096).bind(&rig.ns, at("0.0.0.0:80")));
    let listener = listener.and_then(Result::ok);
    let mut streams = Vec::new();
    let mut merging = Merging::default();
    merging.switch(switches & MERGE != 0);
    let mut acknowledges = 0;
    let mut frames = Frames(rest);
    loop {
        let burst: Vec<Vec<u8>> = frames.by_ref().take(BURST).map(|f| mended(f, switches, acknowledges)).collect();
        if burst.is_empty() {
            break;
        }
        poll(&mut rig, &mut merging, &burst);
        serve(&sockets, listener.as_ref(), &mut streams);
        acknowledges = rig.sent().iter().filter_map(|frame| acknowledged(frame)).next_back().unwrap_or(acknowledges);
    }
    drop((streams, listener, sockets));
    let faults = rig.ns.counters().tcp_faults;
    assert_eq!(faults, 0, "the protocol machine met a case that it does not know");
    rig.assert_home(0);
}

/// One poll, as the owner of an instance makes it, and a flush.
fn poll(rig: &mut Rig, merging: &mut Merging, burst: &[Vec<u8>]) {
    let view = rig.ns.view();
    let mut pass = view.pass(NAPI, IFINDEX).expect("the device is there");
    pass.merge_into(merging);
    for bytes in burst {
        let mut frame = rig.pool.alloc().expect("a free frame");
        rig.host.frames.data_mut(&mut frame)[..bytes.len()].copy_from_slice(bytes);
        pass.receive(frame, u32::try_from(bytes.len()).expect("short"));
    }
    pass.end();
    let mut pass = view.pass(NAPI, IFINDEX).expect("the device is there");
    pass.flush(merging, Flush::All, Clock.now());
    pass.end();
}

/// Programs that take what came and answer.
fn serve(sockets: &[UdpSocket], listener: Option<&TcpListener>, streams: &mut Vec<TcpStream>) {
    let mut buffer = [0; 4096];
    for socket in sockets {
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(b"answer", from);
        }
    }
    while let Some((stream, _)) = listener.and_then(|listener| listener.accept().ok()) {
        stream.set_nonblocking(true).expect("a flag");
        streams.push(stream);
    }
    for mut stream in streams.iter() {
        if let Ok(count) = stream.read(&mut buffer) {
            let _ = stream.write(&buffer[..count]);
        }
    }
}

struct Frames<'s>(&'s [u8]);

impl<'s> Iterator for Frames<'s> {
    type Item = &'s [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let (len, rest) = self.0.split_first_chunk()?;
        let len = usize::from(u16::from_le_bytes(*len)).min(FRAME_MAX).min(rest.len());
        let (frame, rest) = rest.split_at(len);
        self.0 = rest;
        Some(frame)
    }
}

/// Where the parts of a packet are, if it is long enough: the addresses, the protocol, its header, the end.
fn parts(frame: &[u8]) -> Option<(std::ops::Range<usize>, u8, usize, usize)> {
    let ip = frame.get(ETH_LEN..)?;
    match *frame[..ETH_LEN].last_chunk::<2>()? {
        ETHERTYPE_IPV4 if ip.len() >= 20 => {
            let at = usize::from(ip[0] & 0xf) * 4;
            let end = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            (at >= 20 && at <= end && end <= ip.len()).then(|| (12..20, ip[9], at, end))
        }
        ETHERTYPE_IPV6 if ip.len() >= 40 => {
            let end = 40 + usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            (end <= ip.len()).then(|| (8..40, ip[6], 40, end))
        }
        _ => None,
    }
}

/// The frame with the numbers right that a fuzzer cannot guess.
fn mended(frame: &[u8], switches: u8, acknowledges: u32) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let Some((addresses, protocol, at, end)) = parts(&frame) else { return frame };
    let ip = &mut frame[ETH_LEN..];
    if switches & MEND_ACKS != 0 && protocol == PROTO_TCP && end >= at + 20 {
        ip[at + 8..at + 12].copy_from_slice(&acknowledges.to_be_bytes());
    }
    let field = match protocol {
        PROTO_TCP => 16,
        17 => 6,
        1 | 58 => 2,
        _ => return frame,
    };
    if switches & MEND_SUMS == 0 || end < at + field + 2 {
        return frame;
    }
    let v6 = addresses.start == 8;
    if !v6 {
        ip[10..12].fill(0);
        let sum = Sum::ZERO.bytes(&ip[..at]).field();
        ip[10..12].copy_from_slice(&sum);
    }
    ip[at + field..at + field + 2].fill(0);
    let length = u16::try_from(end - at).expect("a short frame");
    let pseudo = Sum::ZERO.bytes(&ip[addresses]).number(u16::from(protocol)).number(length);
    let begin = if protocol == 1 { Sum::ZERO } else { pseudo };
    let sum = begin.bytes(&ip[at..end]).field();
    ip[at + field..at + field + 2].copy_from_slice(&sum);
    frame
}

/// What acknowledges a segment of ours; nothing if the frame is none.
fn acknowledged(frame: &[u8]) -> Option<u32> {
    let (_, protocol, at, end) = parts(frame)?;
    let tcp = frame[ETH_LEN..].get(at..end).filter(|tcp| protocol == PROTO_TCP && tcp.len() >= 20)?;
    let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    let payload = tcp.len().saturating_sub(usize::from(tcp[12] >> 4) * 4);
    let occupied = u32::from(tcp[13] & 3 != 0);
    Some(sequence.wrapping_add(u32::try_from(payload).ok()?).wrapping_add(occupied))
}

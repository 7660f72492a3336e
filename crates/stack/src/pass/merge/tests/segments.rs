//! Segments of TCP: what goes up is what came.

use super::*;
use crate::wire::headers;

/// A TCP segment from port `5000 + flow` of the peer.
struct Sent {
    flow: u16,
    seq: u32,
    ack: u32,
    window: u16,
    flags: u8,
    payload: Vec<u8>,
}

const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

impl Sent {
    fn frame(&self, v4: bool) -> Vec<u8> {
        let (us, peer) = if v4 { ("10.0.0.1", "10.0.0.2") } else { ("[fd00::1]", "[fd00::2]") };
        // A datagram with as many bytes as the segment has lends its headers.
        let mut segment = vec![0; 12 + self.payload.len()];
        segment[4] = 5 << 4;
        segment[5] = self.flags;
        segment[6..8].copy_from_slice(&self.window.to_be_bytes());
        segment[12..].copy_from_slice(&self.payload);
        let mut frame = udp(&format!("{peer}:{}", 5000 + self.flow), &format!("{us}:4000"), &segment);
        let (protocol, tcp) = if v4 { (23, 34) } else { (20, 54) };
        frame[protocol] = 6;
        frame[tcp + 4..tcp + 8].copy_from_slice(&self.seq.to_be_bytes());
        frame[tcp + 8..tcp + 12].copy_from_slice(&self.ack.to_be_bytes());
        let addresses = if v4 { 26..34 } else { 22..54 };
        let length = (frame.len() - tcp) as u16;
        let sum = Sum::ZERO.bytes(&frame[addresses]).number(6).number(length).bytes(&frame[tcp..]).field();
        frame[tcp + 16..tcp + 18].copy_from_slice(&sum);
        seal(frame)
    }
}

/// What went up of a flow: each byte with its place in the stream, and the headers that it came with.
type Bytes = Vec<(u32, u8, u32, u16)>;

/// Takes a merged segment apart, and checks what its headers say of it.
fn note(frame: &[u8], segment: &wire::Segment, up: &mut [Bytes], pushed: &mut u32) {
    let v4 = frame[14] >> 4 == 4;
    let ip = &frame[14..segment.end];
    let tcp = if v4 {
        assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
        assert!(Sum::ZERO.bytes(&ip[..20]).is_valid());
        &ip[20..]
    } else {
        assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])), ip.len() - 40);
        &ip[40..]
    };
    assert_eq!(u16::from_be_bytes([tcp[0], tcp[1]]), segment.src.port);
    assert_eq!(tcp[13] & 0x3f, segment.flags);
    *pushed += u32::from(segment.flags & PSH != 0);
    let number = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
    let window = u16::from_be_bytes([tcp[14], tcp[15]]);
    for (at, byte) in (0..).zip(&tcp[20..]) {
        up[usize::from(segment.src.port - 5000)].push((number(4).wrapping_add(at), *byte, number(8), window));
    }
}

/// Everything that is held goes up.
fn flush_all(merging: &mut Merging, now: u64, up: &mut impl FnMut(Bundle, &mut Vec<u8>)) {
    let Merging { gro, room, .. } = merging;
    gro.flush(Flush::All, now, BATCH, &mut |list| list.for_each(|bundle| up(bundle, room)));
}

/// Where a flow is: sequence number, acknowledgement, window.
type Stream = (u32, u32, u16);

/// The next segment of a flow. What follows it is lost, comes again or tells of something now and then.
fn next(flow: usize, stream: &mut Stream, draw: &mut impl FnMut(u64) -> u64) -> Sent {
    let (seq, ack, window) = stream;
    let length = if draw(6) == 0 { draw(60) as usize } else { 60 };
    let mut segment = Sent {
        flow: flow as u16,
        seq: *seq,
        ack: *ack,
        window: *window,
        flags: ACK | if draw(10) == 0 { PSH } else { 0 },
        payload: (0..length).map(|at| (*seq as usize + at) as u8).collect(),
    };
    match draw(20) {
        0 => *seq = seq.wrapping_add(7),
        1 => segment.seq = segment.seq.wrapping_sub(30),
        2 => *ack += 1,
        3 => *window ^= 1,
        _ => *seq = seq.wrapping_add(length as u32),
    }
    segment
}

/// Whatever segments come, in whatever order: what goes up is the same bytes at the same places of the same streams, with
/// the same acknowledgements, in the order in which they came.
#[test]
fn segments_in_are_segments_out() {
    let mut joined = 0;
    for seed in 1..40_u64 {
        let mut random = seed;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let v4 = seed % 2 == 0;
        let mut rig = Rig::new();
        let frames = rig.host.frames.clone();
        let mut merging = Merging::default();
        let mut streams: Vec<Stream> = (0..12).map(|flow| (u32::MAX - 300 * flow, 1, 500)).collect();
        let (mut expected, mut up): (Vec<Bytes>, Vec<Bytes>) = (vec![Vec::new(); 12], vec![Vec::new(); 12]);
        let (mut pushes, mut pushed) = (0, 0);
        let mut deliver = |bundle: Bundle, room: &mut Vec<u8>| {
            let merged = bundle.into_segment(&frames, room);
            note(room, &merged, &mut up, &mut pushed);
        };
        for _ in 0..600 {
            let flow = draw(12) as usize;
            let segment = next(flow, &mut streams[flow], &mut draw);
            pushes += u32::from(segment.flags & PSH != 0);
            let places = (0..)
                .zip(&segment.payload)
                .map(|(at, byte)| (segment.seq.wrapping_add(at), *byte, segment.ack, segment.window));
            expected[flow].extend(places);
            let bytes = segment.frame(v4);
            let mut frame = rig.pool.alloc().unwrap();
            frames.data_mut(&mut frame)[..bytes.len()].copy_from_slice(&bytes);
            let Ok(wire::Packet::Tcp(parsed)) = wire::parse(&bytes, OUR_MAC) else { panic!("it is whole") };
            let (headers, payload) = headers::tcp(&bytes, &parsed);
            frames.set_meta(&mut frame, Meta::of_segment(payload, 2048, v4).bits());
            let now = draw(3);
            merging.receive(Bundle::new(headers, frame, 2048), now, &frames, &mut deliver);
            if draw(30) == 0 {
                flush_all(&mut merging, now, &mut deliver);
            }
        }
        joined += merging.take_joined();
        flush_all(&mut merging, 0, &mut deliver);
        assert_eq!(up, expected, "seed {seed}");
        assert_eq!(pushed, pushes, "each push ends a segment, seed {seed}");
        rig.assert_home(0);
    }
    assert!(joined > 1000, "{joined}");
}

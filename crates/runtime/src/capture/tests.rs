use std::collections::VecDeque;
use std::sync::Arc;

use super::pcapng::{self, CapturedPacket, Direction, Statistics};
use crate::port::tap::{self, Counters, Tap};

/// The blocks, byte by byte, as the draft's figures have them.
#[test]
fn blocks_are_those_of_the_draft() {
    let mut out = Vec::new();
    pcapng::interface_description(&mut out, "eth0a", [2, 0, 0, 0, 0, 1], 96);
    #[rustfmt::skip]
    let expected = [
        1, 0, 0, 0, 56, 0, 0, 0,                                // type, length
        1, 0, 0, 0, 96, 0, 0, 0,                                // Ethernet, snaplen
        2, 0, 5, 0, b'e', b't', b'h', b'0', b'a', 0, 0, 0,      // if_name, padded
        6, 0, 6, 0, 2, 0, 0, 0, 0, 1, 0, 0,                     // if_MACaddr
        9, 0, 1, 0, 9, 0, 0, 0,                                 // if_tsresol: ns
        0, 0, 0, 0, 56, 0, 0, 0,                                // end of options, length
    ];
    assert_eq!(out, expected);

    out.clear();
    let packet =
        CapturedPacket { at_ns: 0x0102_0304_0506_0708, length: 1500, direction: Direction::Out, queue: 3, lost: 2 };
    pcapng::enhanced_packet(&mut out, &packet, 5, |out| out.extend([9; 5]));
    #[rustfmt::skip]
    let expected = [
        6, 0, 0, 0, 72, 0, 0, 0,
        0, 0, 0, 0,                                             // interface
        4, 3, 2, 1, 8, 7, 6, 5,                                 // time, upper half first
        5, 0, 0, 0, 0xdc, 5, 0, 0,                              // captured, original
        9, 9, 9, 9, 9, 0, 0, 0,
        2, 0, 4, 0, 2, 0, 0, 0,                                 // epb_flags: outbound
        4, 0, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0,                     // epb_dropcount
        6, 0, 4, 0, 3, 0, 0, 0,                                 // epb_queue
        0, 0, 0, 0, 72, 0, 0, 0,
    ];
    assert_eq!(out, expected);

    out.clear();
    pcapng::section_header(&mut out);
    assert_eq!(out[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert_eq!(out[8..24], [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!(out[4..8], out[out.len() - 4..]);

    out.clear();
    pcapng::interface_statistics(&mut out, &Statistics { begun_ns: 1, ended_ns: 2, seen: 7, dropped: 5 });
    #[rustfmt::skip]
    let expected = [
        5, 0, 0, 0, 76, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0,                     // interface, time
        2, 0, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0,                     // isb_starttime
        3, 0, 8, 0, 0, 0, 0, 0, 2, 0, 0, 0,                     // isb_endtime
        4, 0, 8, 0, 7, 0, 0, 0, 0, 0, 0, 0,                     // isb_ifrecv
        5, 0, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0,                     // isb_ifdrop
        0, 0, 0, 0, 76, 0, 0, 0,
    ];
    assert_eq!(out, expected);
}

/// Frames of every length come out as they went in, cut at the length asked for, whatever the ring's state; what has no
/// room is counted, and the next record tells of it.
#[test]
fn records_are_frames_cut_and_drops_are_counted() {
    for snaplen in [0_u32, 1, 8, 60, 1 << 18] {
        let counters = Arc::new(Counters::default());
        let (sink, mut source) = tap::ring(512, snaplen, counters.clone());
        let tap = Tap::new();
        tap.record(&[1; 60]);
        tap.attach(sink);
        assert!(tap.is_on());
        let (mut expected, mut lost, mut dropped, mut out) = (VecDeque::new(), 0, 0, Vec::new());
        for length in 1..200_usize {
            let frame: Vec<u8> = (0..length).map(|at| (at * 7 + length) as u8).collect();
            let before = counters.get().1;
            tap.record(&frame);
            if counters.get().1 == before {
                expected.push_back((frame, std::mem::take(&mut lost)));
            } else {
                (lost, dropped) = (lost + 1, dropped + 1);
            }
            // Taken more slowly than put in, so that the ring fills now and then.
            if length % 3 == 0 {
                while expected.len() > 1 {
                    let (frame, lost) = expected.pop_front().unwrap();
                    let head = source.peek().unwrap();
                    assert_eq!(source.peek(), Some(head), "a look takes nothing");
                    let cut = length_cut(&frame, snaplen);
                    assert_eq!((head.length as usize, head.captured as usize), (frame.len(), cut));
                    assert_eq!(head.lost, lost);
                    out.clear();
                    source.take(&mut out);
                    assert_eq!(out, frame[..cut]);
                }
            }
        }
        assert_eq!(counters.get(), (0, dropped));
        assert_eq!(dropped > 0, snaplen > 60, "snaplen {snaplen}");
        tap.detach();
        assert!(!tap.is_on());
        tap.record(&[1; 60]);
        while source.peek().is_some() {
            source.take(&mut out);
            expected.pop_front().expect("nothing but what was recorded");
        }
        assert!(expected.is_empty(), "what was recorded is there after the end");
    }
}

fn length_cut(frame: &[u8], snaplen: u32) -> usize {
    frame.len().min(snaplen as usize)
}

/// Times never go back, and a record of one thread is whole when another reads it.
#[test]
fn a_reader_beside_the_recorder_sees_whole_records() {
    let counters = Arc::new(Counters::default());
    let (sink, mut source) = tap::ring(4096, 1 << 18, counters.clone());
    let tap = Tap::new();
    tap.attach(sink);
    const FRAMES: u64 = 20_000;
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            for number in 0..FRAMES {
                let length = 8 + (number % 90) as usize;
                let mut frame = [number as u8; 100];
                frame[..8].copy_from_slice(&number.to_le_bytes());
                tap.record(&frame[..length]);
            }
            tap.detach();
        });
        let (mut next, mut seen, mut at_ns, mut out) = (0, 0, 0, Vec::new());
        loop {
            let ended = done.is_finished();
            while let Some(head) = source.peek() {
                out.clear();
                source.take(&mut out);
                let number = u64::from_le_bytes(*out.first_chunk().unwrap());
                assert_eq!(number, next + u64::from(head.lost));
                assert!(out[8..].iter().all(|byte| *byte == number as u8));
                assert_eq!(out.len() as u64, 8 + number % 90);
                assert!(head.at_ns >= at_ns);
                (next, seen, at_ns) = (number + 1, seen + 1, head.at_ns);
            }
            if ended {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!(seen + counters.get().1, FRAMES);
    });
}

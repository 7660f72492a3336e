//! Between two links sits somebody who loses, doubles and reorders frames, by seed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use napier_runtime::device::LinkConfig;
use napier_runtime::engine::Engine;
use napier_runtime::raw::RawPort;
use napier_runtime::socket::{NetNs, TcpListener, TcpStream};

use crate::common::{Dice, PATIENCE, end, eventually};

const LEFT: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
const LEFT_MAC: [u8; 6] = [2, 0, 0, 0x78, 0, 1];
const RIGHT_MAC: [u8; 6] = [2, 0, 0, 0x78, 0, 2];

/// What befalls a frame, in per mille each.
#[derive(Copy, Clone)]
struct Misfortunes {
    lost: u64,
    doubled: u64,
    delayed: u64,
    damaged: u64,
}

/// Runs `work` with the name spaces at both ends of a bad line.
fn on_a_bad_line(seed: u64, misfortunes: Misfortunes, work: impl FnOnce(&NetNs, &NetNs)) {
    let engine = Engine::builder().start().unwrap();
    let (left, middle, right) = (engine.namespace(), engine.namespace(), engine.namespace());
    let link = |outer, inner: &str, last| {
        let inner = end(inner, &middle, [2, 0, 0, 0, 9, last], &[]);
        engine.add_link(&LinkConfig::default(), outer, inner).unwrap()
    };
    let (a, near) = link(end("left", &left, LEFT_MAC, &[(LEFT.into(), 24)]), "near", 1);
    let (b, far) = link(end("right", &right, RIGHT_MAC, &[(RIGHT.into(), 24)]), "far", 2);
    left.neighbour_add(a.ifindex(), RIGHT.into(), RIGHT_MAC).unwrap();
    right.neighbour_add(b.ifindex(), LEFT.into(), LEFT_MAC).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let (near, far) = (&near, &far);
        scope.spawn(move || {
            let (near, far) = (RawPort::bind(near, 0).unwrap(), RawPort::bind(far, 0).unwrap());
            let mut dice = Dice(seed);
            let mut late = [Vec::new(), Vec::new()];
            while !over.load(Ordering::Acquire) {
                let moved = carry(&near, &far, &mut dice, misfortunes, &mut late[0])
                    + carry(&far, &near, &mut dice, misfortunes, &mut late[1]);
                if moved == 0 {
                    near.wait(Some(Duration::from_micros(200)));
                }
            }
        });
        // The middle ends also if the work panics, or the scope would never end.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let _end = End(over);
        work(&left, &right);
    });
    for device in [&a, &b, &near, &far] {
        eventually("every frame is back", || device.frames_out() == 0);
    }
}

/// Carries what has come from one port to the other; gives how many frames came.
fn carry(from: &RawPort, to: &RawPort, dice: &mut Dice, bad: Misfortunes, late: &mut Vec<Vec<u8>>) -> usize {
    let mut frames = Vec::new();
    if !from.recv() {
        frames.append(late);
    }
    let count = from.drain(usize::MAX, |frame| {
        let mut frame = frame.to_vec();
        let fate = dice.roll(1000);
        if fate < bad.lost {
            return;
        }
        if dice.roll(1000) < bad.damaged {
            let at = dice.roll(frame.len() as u64) as usize;
            frame[at] ^= 1 << dice.roll(8);
        }
        if dice.roll(1000) < bad.doubled {
            frames.push(frame.clone());
        }
        if dice.roll(1000) < bad.delayed {
            late.push(frame);
        } else {
            frames.push(frame);
            // What was held back comes after others.
            if dice.roll(3) == 0 {
                frames.append(late);
            }
        }
    });
    for frame in &frames {
        // A full ring is one more way to lose a frame.
        let _ = to.build(frame.len(), |slot| {
            slot[..frame.len()].copy_from_slice(frame);
            frame.len()
        });
    }
    to.flush();
    count
}

fn transfer(left: &NetNs, right: &NetNs, bytes: usize) {
    let server = SocketAddr::new(RIGHT.into(), 7000);
    let listener = TcpListener::builder().rcvbuf(32_768).bind(right, server).unwrap();
    let pattern = |at: usize| (at * 13 + at / 257) as u8;
    let sent: Vec<u8> = (0..bytes).map(pattern).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut got = Vec::new();
            (&stream).read_to_end(&mut got).unwrap();
            assert!(got == sent, "{} of {bytes} bytes came, or others", got.len());
            (&stream).write_all(&got).unwrap();
        });
        let stream = TcpStream::connect(left, server).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        (&stream).write_all(&sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        (&stream).read_to_end(&mut got).unwrap();
        assert!(got == sent, "{} of {bytes} bytes came back, or others", got.len());
    });
}

#[test]
fn a_good_middle_changes_nothing() {
    let none = Misfortunes { lost: 0, doubled: 0, delayed: 0, damaged: 0 };
    on_a_bad_line(1, none, |left, right| transfer(left, right, 200_000));
}

#[test]
fn lost_frames_are_sent_again() {
    let mut again = 0;
    for seed in 0..3 {
        let bad = Misfortunes { lost: 40, doubled: 0, delayed: 0, damaged: 0 };
        on_a_bad_line(seed, bad, |left, right| {
            transfer(left, right, 60_000);
            again += left.counters().tcp_retrans_segs + right.counters().tcp_retrans_segs;
        });
    }
    assert!(again > 0, "of some 600 frames none was sent again");
}

#[test]
fn doubled_and_reordered_frames_do_no_harm() {
    for seed in 10..13 {
        let bad = Misfortunes { lost: 0, doubled: 100, delayed: 200, damaged: 0 };
        on_a_bad_line(seed, bad, |left, right| transfer(left, right, 100_000));
    }
}

#[test]
fn damaged_frames_are_noticed() {
    for seed in 20..23 {
        let bad = Misfortunes { lost: 5, doubled: 30, delayed: 50, damaged: 20 };
        on_a_bad_line(seed, bad, |left, right| transfer(left, right, 60_000));
    }
}

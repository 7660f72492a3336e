//! Captures on a link under traffic: the file holds what the device says it received and sent, frame by frame.

use std::path::{Path, PathBuf};
use std::process::Command;

use napier_runtime::capture::{CaptureConfig, CaptureError, CaptureStats};
use napier_runtime::device::LinkConfig;
use napier_runtime::raw::RawPort;
use napier_runtime::socket::UdpSocket;
use napier_runtime::tx::QdiscConfig;

use crate::common::modes::{Mode, echo, echo_raw, round_trips, stop};
use crate::common::pcapng::{Packet, Section, read};
use crate::common::{PEER_V4, PEER_V6, Pair, TESTED_V4, TESTED_V6, eventually, v4, v6};

const IN: u32 = 1;
const OUT: u32 = 2;

/// A file that is removed at the end.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("napier-{}-{name}.pcapng", std::process::id())))
    }

    fn config(&self) -> CaptureConfig {
        CaptureConfig::new(&self.0)
    }

    fn read(&self) -> Vec<Section> {
        read(&std::fs::read(&self.0).unwrap())
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn count(packets: &[Packet], direction: u32) -> u64 {
    packets.iter().filter(|packet| packet.direction == direction).count() as u64
}

fn frames(packets: &[Packet], direction: u32, queue: u32) -> Vec<&[u8]> {
    let of = packets.iter().filter(|packet| (packet.direction, packet.queue) == (direction, queue));
    of.map(|packet| &packet.bytes[..]).collect()
}

/// Both ends of a link with two queues, each way of sending: what one end sent is what the other received, queue by queue
/// and in the same order, and the figures are those of the device.
#[test]
fn both_ends_see_the_same_frames() {
    let disciplines = [QdiscConfig::Noqueue, QdiscConfig::PfifoFast { limit_pkts: 1000 }];
    for (round, config) in disciplines.into_iter().enumerate() {
        let files = [Temp::new(&format!("tested{round}")), Temp::new(&format!("peer{round}"))];
        let pair = Pair::new(&LinkConfig { queues: 2, ..LinkConfig::default() });
        for device in [&pair.tested, &pair.peer] {
            for queue in 0..2 {
                device.set_qdisc(queue, &config).unwrap();
            }
        }
        let before = [pair.tested.stats(), pair.peer.stats()];
        let captures =
            [pair.tested.capture(&files[0].config()).unwrap(), pair.peer.capture(&files[1].config()).unwrap()];
        for (server, client) in [(v4(TESTED_V4, 4000), v4(PEER_V4, 0)), (v6(TESTED_V6, 4000), v6(PEER_V6, 0))] {
            let thread = echo(&pair.engine, Mode::Softirq, UdpSocket::bind(&pair.tested_ns, server).unwrap());
            for _ in 0..8 {
                round_trips(&UdpSocket::bind(&pair.peer_ns, client).unwrap(), server, 200, 16);
            }
            stop(&UdpSocket::bind(&pair.peer_ns, client).unwrap(), server, thread);
        }
        // What a round of an instance received is counted at its end, after the receiver was woken.
        eventually("each packet is counted at both ends", || {
            let (tested, peer) = (pair.tested.stats(), pair.peer.stats());
            (tested.rx_packets, peer.rx_packets) == (peer.tx_packets, tested.tx_packets)
        });
        let stats = captures.map(|capture| capture.finish().unwrap());
        let after = [pair.tested.stats(), pair.peer.stats()];
        let sections = files.each_ref().map(|file| {
            let mut sections = file.read();
            assert_eq!(sections.len(), 1);
            sections.remove(0)
        });
        for (at, name) in ["tested", "peer"].into_iter().enumerate() {
            let Section { if_name, snaplen, packets, statistics } = &sections[at];
            assert_eq!((if_name.as_str(), *snaplen), (name, 0));
            assert_eq!(count(packets, IN), after[at].rx_packets - before[at].rx_packets);
            assert_eq!(count(packets, OUT), after[at].tx_packets - before[at].tx_packets);
            assert_eq!(stats[at], CaptureStats { written: packets.len() as u64, dropped: 0 });
            assert_eq!(*statistics, Some((packets.len() as u64, 0)));
            assert!(packets.iter().all(|packet| packet.lost == 0 && packet.length as usize == packet.bytes.len()));
            let year_2020_ns = 1_577_836_800_000_000_000;
            assert!(packets[0].at_ns > year_2020_ns);
        }
        let [tested, peer] = &sections;
        for (queue, direction) in [(0, IN), (0, OUT), (1, IN), (1, OUT)] {
            let of = |packet: &&Packet| (packet.queue, packet.direction) == (queue, direction);
            assert!(tested.packets.iter().filter(of).is_sorted_by_key(|packet| packet.at_ns), "oldest first");
        }
        for queue in 0..2 {
            assert!(!frames(&tested.packets, IN, queue).is_empty(), "sixteen flows use both queues");
            assert_eq!(frames(&tested.packets, IN, queue), frames(&peer.packets, OUT, queue));
            assert_eq!(frames(&tested.packets, OUT, queue), frames(&peer.packets, IN, queue));
        }
    }
}

/// A raw port's frames are captured as well, those that it sends on among them, and cut where that was asked for.
#[test]
fn raw_ports_are_captured() {
    let file = Temp::new("raw");
    let pair = Pair::new(&LinkConfig::default());
    let capture = pair.tested.capture(&CaptureConfig { snaplen: 42, ..file.config() }).unwrap();
    let server = v4(TESTED_V4, 4000);
    let thread = echo_raw(RawPort::bind(&pair.tested, 0).unwrap());
    let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    round_trips(&client, server, 500, 16);
    stop(&client, server, thread);
    let stats = capture.finish().unwrap();
    let section = file.read().remove(0);
    assert_eq!((stats.written, stats.dropped, section.snaplen), (1002, 0, 42));
    assert_eq!((count(&section.packets, IN), count(&section.packets, OUT)), (501, 501));
    assert!(section.packets.iter().all(|packet| (packet.length, packet.bytes.len()) == (50, 42)));
}

/// A ring with room for one frame loses most of a burst, counts every one, and the device delivers all the same.
#[test]
fn a_small_ring_drops_frames_of_the_capture_only() {
    let file = Temp::new("small");
    let pair = Pair::new(&LinkConfig::default());
    let capture = pair.tested.capture(&CaptureConfig { ring_bytes: 128, ..file.config() }).unwrap();
    let server = v4(TESTED_V4, 4000);
    let thread = echo(&pair.engine, Mode::Softirq, UdpSocket::bind(&pair.tested_ns, server).unwrap());
    let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    round_trips(&client, server, 5000, 64);
    stop(&client, server, thread);
    let stats = capture.finish().unwrap();
    assert_eq!(stats.written + stats.dropped, 2 * 5001);
    assert!(stats.dropped > 0 && stats.written > 0, "{stats:?}");
    let section = file.read().remove(0);
    assert_eq!(section.packets.len() as u64, stats.written);
    assert_eq!(section.statistics, Some((2 * 5001, stats.dropped)));
    assert!(section.packets.iter().map(|packet| packet.lost).sum::<u64>() <= stats.dropped);
}

/// Beginning and ending under traffic loses no packet, in no way of receiving; one file can have them all.
#[test]
fn captures_come_and_go_under_traffic() {
    let file = Temp::new("comes-and-goes");
    let pair = Pair::new(&LinkConfig { queues: 2, ..LinkConfig::default() });
    for (at, mode) in Mode::ALL.into_iter().filter(|mode| *mode != Mode::SeparatePoller).enumerate() {
        pair.set_all(&pair.tested, &mode.settings());
        let server = v4(TESTED_V4, 4000);
        let thread = echo(&pair.engine, mode, UdpSocket::bind(&pair.tested_ns, server).unwrap());
        let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (pair, file, done) = (&pair, &file, &done);
            scope.spawn(move || {
                // Two at least: this thread may be stopped for as long as the traffic takes.
                for number in 0.. {
                    if number > 1 && done.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    let config = CaptureConfig { append: at > 0 || number > 0, ..file.config() };
                    let capture = pair.tested.capture(&config).unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    assert_eq!(capture.finish().unwrap().dropped, 0);
                }
            });
            round_trips(&client, server, 3000, 16);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        stop(&client, server, thread);
    }
    let sections = file.read();
    assert!(sections.len() > 8 && sections.iter().any(|section| !section.packets.is_empty()));
    for section in sections {
        let (seen, dropped) = section.statistics.expect("every section ended");
        assert_eq!((section.packets.len() as u64, 0), (seen, dropped));
    }
}

#[test]
fn what_cannot_be_captured_is_refused() {
    let file = Temp::new("refused");
    let pair = Pair::new(&LinkConfig::default());
    let capture = pair.tested.capture(&file.config()).unwrap();
    assert!(matches!(pair.tested.capture(&file.config()), Err(CaptureError::Busy { device }) if device == "tested"));
    for ring_bytes in [0, 63, (1 << 30) + 1] {
        let config = CaptureConfig { ring_bytes, ..file.config() };
        assert!(matches!(pair.peer.capture(&config), Err(CaptureError::RingBytes { .. })));
    }
    drop(capture);
    let nowhere = CaptureConfig::new("/nonexistent/file.pcapng");
    assert!(matches!(pair.tested.capture(&nowhere), Err(CaptureError::File { .. })));
    drop(pair.tested.capture(&file.config()).unwrap());
    let section = file.read().remove(0);
    assert_eq!((section.packets.len(), section.statistics), (0, Some((0, 0))));
}

/// A file that takes nothing any more: the traffic goes on, and what was lost is counted and said.
#[test]
fn a_file_without_room_is_told_of() {
    if !Path::new("/dev/full").exists() {
        napier_testkit::skip!("a_file_without_room_is_told_of", "there is no /dev/full");
        return;
    }
    let pair = Pair::new(&LinkConfig::default());
    assert!(matches!(pair.tested.capture(&CaptureConfig::new("/dev/full")), Err(CaptureError::File { .. })));
    // A pipe whose reader goes away takes the head of the section and then nothing more.
    let (reader, writer) = std::io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
    let capture = pair.tested.capture(&CaptureConfig::new(path)).unwrap();
    drop((reader, writer));
    let server = v4(TESTED_V4, 4000);
    let thread = echo(&pair.engine, Mode::Softirq, UdpSocket::bind(&pair.tested_ns, server).unwrap());
    let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    round_trips(&client, server, 1000, 16);
    stop(&client, server, thread);
    crate::common::eventually("what cannot be written is dropped", || capture.stats().dropped == 2 * 1001);
    assert_eq!(capture.stats().written, 0);
    assert!(capture.failure().is_some_and(|said| said.contains("os error")), "it is said while the capture goes on");
    assert!(matches!(capture.finish(), Err(CaptureError::File { .. })));
}

/// The reader that everybody has: it finds nothing to complain of, and every field.
#[test]
fn tshark_reads_the_file() {
    if Command::new("tshark").arg("--version").output().is_err() {
        napier_testkit::skip!("tshark_reads_the_file", "tshark is not installed");
        return;
    }
    let file = Temp::new("tshark");
    let pair = Pair::new(&LinkConfig { queues: 2, ..LinkConfig::default() });
    for append in [false, true] {
        let capture = pair.tested.capture(&CaptureConfig { append, ..file.config() }).unwrap();
        let server = v4(TESTED_V4, 4000);
        let thread = echo(&pair.engine, Mode::Softirq, UdpSocket::bind(&pair.tested_ns, server).unwrap());
        let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
        round_trips(&client, server, 50, 4);
        stop(&client, server, thread);
        capture.finish().unwrap();
    }
    let fields = ["frame.interface_name", "frame.packet_flags_direction", "frame.interface_queue", "frame.time_epoch"];
    let fields = fields.iter().chain(&["udp.length", "udp.checksum.status"]).flat_map(|field| ["-e", field]);
    let options = ["-n", "-T", "fields", "-o", "udp.check_checksum:TRUE", "-r"];
    let output = Command::new("tshark").args(options).arg(&file.0).args(fields).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    // It says so when it is run by root; anything else is about the file.
    let complaint: Vec<&str> = complaint.lines().filter(|line| !line.contains("Running as user")).collect();
    assert!(output.status.success() && complaint.is_empty(), "{complaint:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let packets: Vec<Packet> = file.read().into_iter().flat_map(|section| section.packets).collect();
    assert_eq!((lines.lines().count(), packets.len()), (204, 204));
    for (line, packet) in lines.lines().zip(&packets) {
        let fields: Vec<&str> = line.split('\t').collect();
        let (seconds, ns) = (packet.at_ns / 1_000_000_000, packet.at_ns % 1_000_000_000);
        let expected = [
            "tested".to_owned(),
            format!("0x{:08x}", packet.direction),
            packet.queue.to_string(),
            format!("{seconds}.{ns:09}"),
            "16".to_owned(),
        ];
        assert_eq!(fields[..5], expected);
        assert_eq!(fields[5], "1", "its checksum is good");
    }
}

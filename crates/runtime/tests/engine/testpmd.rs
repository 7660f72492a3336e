//! DPDK's testpmd as memif peer, in both roles: millions of packets each way, a SIGKILL in the middle, a new peer.
//!
//! Needs `dpdk-testpmd` with the memif driver (Debian: apt-get install dpdk-dev librte-net-memif23) and two processors.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use napier_runtime::available_cpus;
use napier_runtime::control::NapiSet;
use napier_runtime::device::{DeviceHandle, MemifConfig, MemifRole};
use napier_runtime::engine::Engine;
use napier_runtime::raw::{RawBusyPoll, RawPort};

use crate::common::{TESTED_MAC, end, eventually};

/// Packets each way with one peer; two peers for each of two roles, so ten million in all.
const PACKETS: u64 = 2_500_000;
/// Packets on their way at any time. Fewer than any ring has slots, so that testpmd drops none.
const WINDOW: u64 = 512;
const BATCH: u64 = 32;
const FRAME_BYTES: usize = 64;
/// testpmd takes its time to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);

/// One testpmd at a time: it keeps a processor busy.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Testpmd {
    child: Child,
    log: PathBuf,
}

impl Testpmd {
    /// Starts one that sends back what it receives; `None` if there is none to start.
    fn start(role: &str, socket: &str, folder: &Path, number: u32) -> Option<Self> {
        let log = folder.join(format!("log-{number}"));
        let output = File::create(&log).unwrap();
        let cpus = available_cpus();
        let lcores = format!("{},{}", cpus[0], cpus[1]);
        let vdev = format!("net_memif0,role={role},id=0,socket={socket},socket-abstract=no,rsize=10,bsize=2048");
        let prefix = format!("napier-{}-{number}", std::process::id());
        let eal = ["-l", &lcores, "--no-huge", "-m", "256", "--no-pci", "--no-telemetry", "--file-prefix", &prefix];
        let app = [
            "--forward-mode=io",
            "--nb-cores=1",
            "--burst=32",
            "--total-num-mbufs=8192",
            "--auto-start",
            "--no-flush-rx",
        ];
        let child = Command::new("dpdk-testpmd")
            .args(eal)
            .args(["--vdev", &vdev, "--"])
            .args(app)
            // Without a terminal it ends at the end of its input; with a period it only shows its counters.
            .args(["--stats-period", "60"])
            .env("RUNTIME_DIRECTORY", folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn();
        match child {
            Ok(child) => Some(Self { child, log }),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("testpmd does not start: {error}"),
        }
    }

    fn connected(&mut self, device: &DeviceHandle) {
        let until = Instant::now() + PATIENCE;
        while !device.link_state().carrier {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < until, "no testpmd ({ended:?}): {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // SIGKILL, whatever it is doing.
        self.child.kill().expect("not waited for yet");
        self.child.wait().expect("it was ours");
    }
}

/// What went out and what came back, numbered in order.
#[derive(Default)]
struct Traffic {
    sent: u64,
    received: u64,
    /// Packets that went down with a peer.
    lost: u64,
}

impl Traffic {
    fn in_flight(&self) -> u64 {
        self.sent - self.received - self.lost
    }

    /// One batch out if the window allows it, and whatever has come back in.
    fn turn(&mut self, port: &RawPort, send: bool) {
        if send && self.in_flight() + BATCH <= WINDOW {
            for _ in 0..BATCH {
                let number = self.sent;
                let built = port.build(FRAME_BYTES, |frame| {
                    frame[..12].copy_from_slice(b"\x02napi\x01\x02napi\x02");
                    frame[12..20].copy_from_slice(&number.to_le_bytes());
                    frame[20..FRAME_BYTES].fill(number as u8);
                    FRAME_BYTES
                });
                if built.is_err() {
                    break;
                }
                self.sent += 1;
            }
            port.flush();
        }
        port.recv();
        port.drain(64, |frame| {
            let number = self.received + self.lost;
            assert_eq!(frame.len(), FRAME_BYTES);
            assert_eq!(frame[12..20], number.to_le_bytes(), "out of order");
            assert!(frame[20..].iter().all(|&byte| byte == number as u8), "packet {number} came back changed");
            self.received += 1;
        });
    }

    /// `PACKETS` more each way, and everything that was sent is back.
    fn exchange(&mut self, port: &RawPort, testpmd: &Testpmd) {
        let until = self.received + PACKETS;
        let mut progress = (self.received, Instant::now());
        while self.received < until || self.in_flight() > 0 {
            self.turn(port, self.received + self.in_flight() < until);
            if self.received > progress.0 + 10_000 {
                progress = (self.received, Instant::now());
            }
            assert!(progress.1.elapsed() < PATIENCE, "stalled at {}: {}", self.received, testpmd.said());
        }
    }
}

fn exchange_with_testpmd(ours: MemifRole, test: &str) {
    if available_cpus().len() < 2 {
        return skipped(test, "testpmd polls on a processor of its own, and there is one");
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = napier_testkit::Folder::new(&format!("testpmd-{ours:?}"));
    let socket = folder.file("memif.sock");
    let theirs = if ours == MemifRole::Server { "client" } else { "server" };

    let engine = Engine::builder().start().unwrap();
    let config = MemifConfig { retry: Duration::from_millis(50), ..MemifConfig::new(ours, &socket) };
    let device = engine.add_memif(config, end("memif0", &engine.namespace(), TESTED_MAC, &[])).unwrap();
    let mut traffic = Traffic::default();
    for number in 0..2 {
        let Some(mut testpmd) = Testpmd::start(theirs, &socket, &folder, number) else {
            return skipped(
                test,
                "dpdk-testpmd is not installed (Debian: apt-get install dpdk-dev librte-net-memif23)",
            );
        };
        testpmd.connected(&device);
        let id = Some(u64::from(device.napi_id(0)));
        let for_long =
            NapiSet { id, defer_hard_irqs: Some(1), gro_flush_timeout: Some(1_000_000_000), ..NapiSet::default() };
        engine.napi_set(for_long).unwrap();
        let port = RawPort::bind(&device, 0).unwrap();
        port.set_busy_poll(RawBusyPoll { usecs: 50, prefer: true, budget: 64 });
        traffic.exchange(&port, &testpmd);
        // Packets are on their way when it is killed.
        traffic.turn(&port, true);
        assert!(traffic.sent > traffic.received, "a batch was sent");
        drop(testpmd);
        eventually("the peer is gone", || {
            traffic.turn(&port, true);
            !device.link_state().carrier
        });
        traffic.turn(&port, false);
        traffic.lost = traffic.sent - traffic.received;
        if theirs == "server" {
            // A killed server leaves its socket behind, and testpmd does not remove it.
            std::fs::remove_file(&socket).unwrap();
        }
    }
    eventually("every frame is back", || device.frames_out() == 0);
    let stats = device.stats();
    assert!(traffic.received >= 2 * PACKETS && traffic.lost <= 2 * (WINDOW + BATCH));
    assert_eq!((stats.tx_packets, stats.rx_packets), (traffic.sent, traffic.received));
    assert_eq!((stats.rx_no_frame, stats.rx_bad_descriptors, stats.tx_bad_descriptors), (0, 0, 0));
    assert_eq!((stats.rx_index_errors, stats.tx_index_errors, device.link_state().losses), (0, 0, 2));
}

fn skipped(test: &str, why: &str) {
    napier_testkit::skip!(test, "{why}");
}

#[test]
fn testpmd_as_client() {
    exchange_with_testpmd(MemifRole::Server, "testpmd_as_client");
}

#[test]
fn testpmd_as_server() {
    exchange_with_testpmd(MemifRole::Client, "testpmd_as_server");
}

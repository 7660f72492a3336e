//! No memory is allocated for a packet: not by the program's threads, not by the engine's, in no way of receiving.
#![allow(unsafe_code)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::modes::{Mode, echo, echo_raw, stop};
use common::{PATIENCE, PEER_V4, PEER_V6, Pair, TESTED_V4, TESTED_V6, eventually, v4, v6};
use napier_runtime::capture::CaptureConfig;
use napier_runtime::control::NapiSet;
use napier_runtime::device::LinkConfig;
use napier_runtime::engine::ThreadRole;
use napier_runtime::raw::{RawBusyPoll, RawPort};
use napier_runtime::socket::{SocketOption, UdpSocket};
use napier_runtime::tx::{FqConfig, QdiscConfig, TxVariant};

/// Counts what the whole process allocates while `COUNTING`.
struct Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Who allocated first: what the failure shows.
static FIRST: Mutex<Option<Backtrace>> = Mutex::new(None);

fn count() {
    if COUNTING.load(Ordering::Relaxed) && ALLOCATIONS.fetch_add(1, Ordering::Relaxed) == 0 {
        // Its own allocations are not counted: the run has failed.
        COUNTING.store(false, Ordering::Relaxed);
        *FIRST.lock().unwrap() = Some(Backtrace::force_capture());
    }
}

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the block came from `System`, for this type hands out no other.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WARM_UP: u64 = 1_000;
const COUNTED: u64 = 3_000;
const WINDOW: u64 = 16;
/// Runs, of which one has to do without memory. More than there are threads that may take some once.
const RUNS: u32 = 10;

/// Round trips without any bookkeeping that would need memory.
fn run(client: &UdpSocket, server: SocketAddr, count: u64) {
    let (mut sent, mut done) = (0, 0);
    let mut buffer = [0; 64];
    while done < count {
        while sent < count && sent - done < WINDOW {
            client.send_to(&sent.to_le_bytes(), server).unwrap();
            sent += 1;
        }
        assert_eq!(client.recv(&mut buffer).expect("an answer"), 8);
        done += 1;
    }
}

/// Threads allocate when they start; waits until the pool's have started.
fn settle(pair: &Pair, mode: Mode) {
    let started = || pair.engine.thread_times().iter().filter(|thread| thread.role == ThreadRole::Worker).count();
    eventually("every worker has started", || mode != Mode::Workqueue || started() == 2);
}

/// `COUNTED` round trips, in which the process allocates nothing.
fn round_trips(client: &UdpSocket, server: SocketAddr, case: &str) {
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    run(client, server, WARM_UP);
    // The first sleep of a thread on an engine takes memory; so everybody has slept before.
    std::thread::sleep(Duration::from_millis(20));
    run(client, server, 1);
    nothing_is_allocated(case, || run(client, server, COUNTED));
}

/// Fails if each of some runs allocates. What is taken once may not have been while all warmed up: a thread had no reason to sleep, or began late.
fn nothing_is_allocated(case: &str, mut work: impl FnMut()) {
    let mut first = None;
    for _ in 0..RUNS {
        if allocations(&mut work) == 0 {
            return;
        }
        first = Some(take_first());
    }
    panic!("{case}:\n{}", first.expect("a run"));
}

/// Who allocated first in a run that did.
fn take_first() -> Backtrace {
    // It may have been another thread, that is still about to say so.
    eventually("the allocation is described", || FIRST.lock().unwrap().is_some());
    FIRST.lock().unwrap().take().expect("just seen")
}

/// How often `work` allocates; the first one is described in `FIRST` and ends the count.
fn allocations(work: impl FnOnce()) -> u64 {
    ALLOCATIONS.store(0, Ordering::SeqCst);
    COUNTING.store(true, Ordering::SeqCst);
    work();
    COUNTING.store(false, Ordering::SeqCst);
    ALLOCATIONS.load(Ordering::SeqCst)
}

fn by_sockets(mode: Mode) {
    let pair = Pair::new(&LinkConfig::default());
    pair.set_all(&pair.tested, &mode.settings());
    settle(&pair, mode);
    for (server, client) in [(v4(TESTED_V4, 4000), v4(PEER_V4, 5000)), (v6(TESTED_V6, 4000), v6(PEER_V6, 5000))] {
        let thread = echo(&pair.engine, mode, UdpSocket::bind(&pair.tested_ns, server).unwrap());
        let client = UdpSocket::bind(&pair.peer_ns, client).unwrap();
        round_trips(&client, server, &format!("{mode:?}, {server}"));
        stop(&client, server, thread);
    }
}

fn by_raw_ports(mode: Mode) {
    let pair = Pair::new(&LinkConfig::default());
    pair.set_all(&pair.tested, &mode.settings());
    settle(&pair, mode);
    let port = RawPort::bind(&pair.tested, 0).unwrap();
    port.set_busy_poll(mode.busy_read());
    let end = Arc::new(AtomicBool::new(false));
    let poller = (mode == Mode::SeparatePoller).then(|| {
        let (poller, end) = (port.poller(), end.clone());
        std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                poller.poll(RawBusyPoll { usecs: 50, prefer: true, budget: 64 });
                std::thread::yield_now();
            }
        })
    });
    let thread = echo_raw(port);
    let (server, client) = (v4(TESTED_V4, 4000), UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap());
    round_trips(&client, server, &format!("{mode:?}, raw port"));
    stop(&client, server, thread);
    end.store(true, Ordering::Relaxed);
    if let Some(poller) = poller {
        poller.join().unwrap();
    }
}

/// Both ends transmit by way of a discipline; its memory grows with the traffic of the warm-up and is kept.
fn by_disciplines(variant: TxVariant) {
    for qdisc in [QdiscConfig::pfifo(), QdiscConfig::pfifo_fast(), QdiscConfig::Fq(FqConfig::default())] {
        let pair = Pair::new(&LinkConfig::default());
        for device in [&pair.tested, &pair.peer] {
            device.set_qdisc(0, &qdisc).unwrap();
            device.set_tx_variant(0, variant).unwrap();
        }
        let server = v4(TESTED_V4, 4000);
        let thread = echo(&pair.engine, Mode::Softirq, UdpSocket::bind(&pair.tested_ns, server).unwrap());
        let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
        round_trips(&client, server, &format!("{variant:?}, {qdisc:?}"));
        stop(&client, server, thread);
    }
}

/// Datagrams that are held and merged, and that are captured all the while.
fn merged() {
    let pair = Pair::new(&LinkConfig::default());
    let server = UdpSocket::bind(&pair.tested_ns, v4(TESTED_V4, 4000)).unwrap();
    server.setsockopt(SocketOption::UdpGro, 1).unwrap();
    // So that a packet waits for those of the next poll.
    let set = NapiSet { gro_flush_timeout: Some(200_000), ..NapiSet::default() };
    pair.set_all(&pair.tested, &set);
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    let capture = pair.tested.capture(&CaptureConfig::new("/dev/null")).unwrap();
    let mut buffer = [0; 1024];
    let mut run = |count: u64| {
        for _ in 0..count / WINDOW {
            for number in 0..WINDOW {
                client.send_to(&number.to_le_bytes(), v4(TESTED_V4, 4000)).unwrap();
            }
            let mut came = 0;
            while came < WINDOW {
                came += u64::from(server.recv_merged(&mut buffer).expect("they were sent").segments);
            }
        }
    };
    run(WARM_UP);
    nothing_is_allocated("merged and captured", || run(COUNTED));
    assert!(pair.tested.napi_stats(0).gro_merged > 0);
    capture.finish().unwrap();
}

/// One test, for the count is one for the process.
#[test]
fn packets_need_no_allocation() {
    assert!(allocations(|| drop(std::hint::black_box(Box::new(1)))) > 0, "the count works");
    drop(take_first());
    for mode in Mode::ALL {
        println!("{mode:?}");
        by_raw_ports(mode);
        if mode != Mode::SeparatePoller {
            by_sockets(mode);
        }
    }
    merged();
    for variant in TxVariant::ALL {
        println!("{variant:?}");
        by_disciplines(variant);
    }
}

//! The examples between two processes, over a socket in a folder of its own.

#[path = "../examples/dpdk.rs"]
mod dpdk;
#[path = "../examples/echo.rs"]
mod echo;
#[path = "../examples/receiver.rs"]
mod receiver;
#[path = "../examples/sender.rs"]
mod sender;

use std::io::ErrorKind;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use napier_memif::{
    Disconnect, InterfaceConfig, InterfaceId, Memif, MemifEvent, MemifPackets, MemifReceiver, MemifSender, Secret,
};
use napier_testkit::Folder;

/// What this program is to do when it is started as the other process: `sender SOCKET COUNT` or `echo SOCKET QUEUES`.
const TASK: &str = "NAPIER_MEMIF_TASK";
const COUNT: u64 = 5_000;

/// This program as another process.
fn other_process(task: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new(program).args(["--exact", "the_other_process", "--nocapture"]).env(TASK, task).spawn().unwrap()
}

#[test]
fn the_other_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<&str> = task.split(' ').collect();
    match words.as_slice() {
        // The receiver goes when it has them all, which may be before this side sees it.
        ["sender", socket, count] => drop(sender::run(socket, count.parse().unwrap())),
        ["echo", socket, queues] => assert!(echo::run(socket, queues.parse().unwrap()).unwrap() > 0),
        other => panic!("no such task: {other:?}"),
    }
}

#[test]
fn a_receiver_that_sleeps_gets_all_that_a_sender_sends() {
    let folder = Folder::new("receiver");
    let socket = folder.file("memif.sock");
    let mut child = other_process(&format!("sender {socket} {COUNT}"));
    let (packets, bytes) = receiver::run(&socket, COUNT).unwrap();
    assert_eq!((packets, bytes), (COUNT, 64 * COUNT));
    assert!(child.wait().unwrap().success());
}

/// Waits for an event that is wanted; others are passed over, at most a hundred.
fn wait_for<T>(memif: &mut Memif, mut wanted: impl FnMut(MemifEvent) -> Option<T>) -> T {
    for _ in 0..100 {
        if let Some(found) = memif.poll(Some(napier_testkit::PATIENCE)).and_then(&mut wanted) {
            return found;
        }
    }
    panic!("it did not come");
}

type Queues = (InterfaceId, Vec<MemifReceiver>, Vec<MemifSender>);

fn connected(event: MemifEvent) -> Option<Queues> {
    match event {
        MemifEvent::Connected { interface, receivers, senders, .. } => Some((interface, receivers, senders)),
        _ => None,
    }
}

#[test]
fn each_queue_is_echoed() {
    let folder = Folder::new("echo");
    let socket = folder.file("memif.sock");
    let mut child = other_process(&format!("echo {socket} 2"));
    let mut memif = Memif::new().unwrap();
    let retry = Duration::from_millis(10);
    memif.add("client", InterfaceConfig { queues: 2, retry, ..InterfaceConfig::client(&socket) }).unwrap();
    let (_, mut receivers, mut senders) = wait_for(&mut memif, connected);
    assert_eq!((receivers.len(), senders.len()), (2, 2));
    let mut packets = MemifPackets::new(16, 2048);
    for (number, (receiver, sender)) in receivers.iter_mut().zip(&mut senders).enumerate() {
        let packet = [[1; 6].as_slice(), &[2; 6], &[number as u8; 50]].concat();
        assert_eq!(sender.send([packet.as_slice()]).packets, 1);
        napier_testkit::eventually("the packet is back", || receiver.receive(&mut packets) == 1);
        let back = packets.iter().next().unwrap();
        assert_eq!(back, [[2; 6].as_slice(), &[1; 6], &[number as u8; 50]].concat());
    }
    drop(memif);
    assert!(!receivers[0].is_connected() && !senders[0].is_connected());
    assert!(child.wait().unwrap().success());
}

#[test]
fn both_sides_are_told_why_and_a_client_comes_back() {
    let folder = Folder::new("again");
    let socket = folder.file("memif.sock");
    let secret = Secret::new(b"open sesame");
    let retry = Duration::from_millis(10);
    let mut client = Memif::new().unwrap();
    client.add("client", InterfaceConfig { secret, retry, ..InterfaceConfig::client(&socket) }).unwrap();
    let why = |event| match event {
        MemifEvent::Disconnected { why, .. } => Some(why),
        _ => None,
    };
    assert!(matches!(wait_for(&mut client, why), Disconnect::NotThere { .. }));
    for _ in 0..3 {
        let mut server = Memif::new().unwrap();
        let id = server.add("server", InterfaceConfig { secret, ..InterfaceConfig::server(&socket) }).unwrap();
        let other = std::thread::spawn(move || {
            wait_for(&mut client, connected);
            client
        });
        let (interface, ..) = wait_for(&mut server, connected);
        assert_eq!(interface, id);
        client = other.join().unwrap();
        drop(server);
        assert!(matches!(wait_for(&mut client, why), Disconnect::ByPeer(_) | Disconnect::Gone));
    }
    let mut server = Memif::new().unwrap();
    server
        .add("server", InterfaceConfig { secret: Secret::new(b"another"), ..InterfaceConfig::server(&socket) })
        .unwrap();
    let asks = std::thread::spawn(move || {
        let refused = |event| matches!(why(event), Some(Disconnect::ByPeer(_))).then_some(());
        wait_for(&mut client, refused);
    });
    let told = |event| match event {
        MemifEvent::Refused { why, .. } => Some(why),
        _ => None,
    };
    assert!(wait_for(&mut server, told).contains("secret"));
    asks.join().unwrap();
}

#[test]
fn a_removed_interface_tells_its_peer_and_gives_its_number_back() {
    let folder = Folder::new("removed");
    let socket = folder.file("memif.sock");
    let retry = Duration::from_millis(10);
    let (mut server, mut client) = (Memif::new().unwrap(), Memif::new().unwrap());
    let kept = server.add("kept", InterfaceConfig { id: 1, ..InterfaceConfig::server(&socket) }).unwrap();
    client.add("client", InterfaceConfig { retry, ..InterfaceConfig::client(&socket) }).unwrap();
    let mut ends = None;
    for _ in 0..3 {
        let served = server.add("served", InterfaceConfig::server(&socket)).unwrap();
        let (mut here, mut there) = (None, None);
        napier_testkit::eventually("both sides have a peer", || {
            here = server.poll(Some(Duration::ZERO)).and_then(connected).or(here.take());
            there = client.poll(Some(Duration::from_millis(1))).and_then(connected).or(there.take());
            here.is_some() && there.is_some()
        });
        assert!(server.remove(served) && !server.remove(served));
        let why = |event| match event {
            MemifEvent::Disconnected { why, .. } => Some(why),
            _ => None,
        };
        assert!(matches!(wait_for(&mut client, why), Disconnect::ByPeer(_)));
        assert!(matches!(server.poll(Some(Duration::ZERO)).and_then(why), Some(Disconnect::Closing)));
        ends = here;
    }
    let (_, receivers, _) = ends.expect("three times");
    assert!(!receivers[0].is_connected());
    assert!(server.remove(kept) && !std::path::Path::new(&socket).exists(), "no interface is on it");
}

#[test]
fn a_receiver_sleeps_until_a_packet_comes() {
    let folder = Folder::new("sleep");
    let socket = folder.file("memif.sock");
    let mut server = Memif::new().unwrap();
    server.add("server", InterfaceConfig::server(&socket)).unwrap();
    let other = std::thread::spawn(move || {
        let mut client = Memif::new().unwrap();
        client.add("client", InterfaceConfig::client(&socket)).unwrap();
        let (_, _, senders) = wait_for(&mut client, connected);
        (client, senders)
    });
    let (_, mut receivers, _) = wait_for(&mut server, connected);
    let (_client, mut senders) = other.join().unwrap();
    let (mut packets, receiver) = (MemifPackets::new(4, 2048), &mut receivers[0]);
    for round in 1..=3_u8 {
        assert!(receiver.arm(), "nothing waits");
        assert_eq!(senders[0].send([&[round; 60][..]]).packets, 1);
        use rustix::event::{PollFd, PollFlags, poll};
        assert_eq!(poll(&mut [PollFd::new(&*receiver, PollFlags::IN)], None).unwrap(), 1);
        receiver.disarm();
        assert!(!receiver.arm(), "a packet waits");
        assert_eq!(receiver.receive(&mut packets), 1);
        assert_eq!(packets.iter().next().unwrap(), [round; 60]);
        assert_eq!(senders[0].counters().kicks, u64::from(round));
    }
    // Not asked for, not told.
    assert_eq!(senders[0].send([&[9; 60][..]]).packets, 1);
    assert_eq!(senders[0].counters().kicks, 3);
}

/// Needs `dpdk-testpmd` with the memif driver, and two processors.
#[test]
fn a_pair_with_dpdk_returns_all_packets() {
    const TEST: &str = "a_pair_with_dpdk_returns_all_packets";
    let cpus = napier_sys::sched::available_cpus();
    let [first, second, ..] = cpus.as_slice() else {
        return napier_testkit::skip!(TEST, "testpmd polls on a processor of its own, and there is one");
    };
    let folder = Folder::new("dpdk");
    let socket = folder.file("memif.sock");
    let vdev = format!("net_memif0,role=client,id=0,socket={socket},socket-abstract=no");
    let ours = socket.clone();
    let (done, is_done) = std::sync::mpsc::channel();
    // It waits for a peer for ever: it is not joined if there is none.
    std::thread::spawn(move || done.send(dpdk::run(&ours, COUNT).map_err(|error| error.to_string())));
    napier_testkit::eventually("it listens", || std::path::Path::new(&socket).exists());
    let testpmd = Command::new("dpdk-testpmd")
        .args(["-l", &format!("{first},{second}"), "--no-huge", "-m", "256", "--no-pci", "--no-telemetry"])
        .args(["--file-prefix", &format!("napier-memif-{}", std::process::id()), "--vdev", &vdev, "--"])
        .args(["--forward-mode=io", "--nb-cores=1", "--total-num-mbufs=8192", "--auto-start", "--no-flush-rx"])
        // Without a terminal it ends at the end of its input; with a period it only shows its counters.
        .args(["--stats-period", "60"])
        .env("RUNTIME_DIRECTORY", &*folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut testpmd = match testpmd {
        Ok(testpmd) => testpmd,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let why = "dpdk-testpmd is not installed (Debian: apt-get install dpdk-dev librte-net-memif23)";
            return napier_testkit::skip!(TEST, "{why}");
        }
        Err(error) => panic!("testpmd does not start: {error}"),
    };
    // Its start alone takes seconds on a busy machine.
    let back = is_done.recv_timeout(3 * napier_testkit::PATIENCE);
    testpmd.kill().unwrap();
    testpmd.wait().unwrap();
    assert_eq!(back, Ok(Ok(COUNT)));
}

//! What the kernel's sockets and routers do to ours and ours to them: both families in one socket, datagrams in pieces, marks,
//! refusals, paths with a smaller MTU.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use napier_linux::Netns;
use napier_runtime::device::XdpConfig;
use napier_runtime::socket::{MtuDiscovery, RecvMeta, SendMeta, TcpListener, TcpStream, UdpSocket};
use napier_testnet::{Veth, VethEnd};

use crate::rig::*;

/// How long an answer is waited for before the question is put again: datagrams may be lost.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256) as u8).collect()
}

fn many() -> XdpConfig {
    XdpConfig { ring_size: 512, ..XdpConfig::on("") }
}

/// A command in the namespace of an end.
fn sh(netns: &Netns, line: &str) {
    let run = || -> io::Result<Output> {
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        napier_testkit::spawn(&mut command)?.wait_with_output()
    };
    let output = netns.run(run).expect("entered").expect("sh");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Whether the tool is there; says so if not.
fn has(test: &str, tool: &str) -> bool {
    let found =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|at| at.join(tool).exists()));
    if !found {
        napier_testkit::skip!(test, "{tool} is not installed");
    }
    found
}

/// Answers each datagram from the address that it was sent to; gives what was told of the last.
fn answer(socket: &UdpSocket, times: usize) -> Option<RecvMeta> {
    let mut buffer = vec![0; 1 << 16];
    let mut last = None;
    for _ in 0..times {
        let Ok(meta) = socket.recv_msg(&mut buffer) else { break };
        socket.send_msg(&buffer[..meta.len], &SendMeta::to(meta.from).src_ip(meta.dst_ip)).expect("sent");
        last = Some(meta);
    }
    last
}

/// Asks until the question comes back.
fn asks(end: &VethEnd, own: SocketAddr, server: SocketAddr, bytes: &[u8]) {
    let client = kernel_udp(end, own);
    client.set_read_timeout(Some(AGAIN_AFTER)).expect("set");
    client.connect(server).expect("connected");
    let mut got = vec![0; 1 << 16];
    eventually("it is answered", || {
        client.send(bytes).expect("sent");
        client.recv(&mut got).is_ok_and(|len| got[..len] == *bytes)
    });
}

/// Has a thread answer while `asks` runs.
fn asks_while(server: &UdpSocket, asks: impl FnOnce()) {
    server.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = answer(server, 1);
            }
        });
        let asked = catch_unwind(AssertUnwindSafe(asks));
        over.store(true, Ordering::Relaxed);
        asked.expect("answered");
    });
}

#[test]
fn datagrams_in_pieces_go_both_ways() {
    let test = "datagrams_in_pieces_go_both_ways";
    let Some(pair) = veth(test, 1) else { return };
    let Some(xdp) = Xdp::new(test, pair.left(), many(), &[LEFT, LEFT_V6]) else { return };
    let server = xdp.bound("::", 7);
    for (ours, kernels) in [(LEFT, RIGHT_KERNEL), (LEFT_V6, RIGHT_KERNEL_V6)] {
        for len in [1473, 4000, 40_000] {
            asks_while(&server, || asks(pair.right(), at(kernels, 0), at(ours, 7), &payload(len)));
        }
    }
    let counters = xdp.ns.counters();
    assert!(counters.ip_reasm_oks >= 3 && counters.ip6_reasm_oks >= 3, "{counters}");
    assert!(counters.ip_frag_oks >= 3 && counters.ip6_frag_oks >= 3, "{counters}");
}

#[test]
fn marks_and_addresses_are_told() {
    let test = "marks_and_addresses_are_told";
    let Some(pair) = veth(test, 1) else { return };
    let Some(xdp) = Xdp::new(test, pair.left(), many(), &[LEFT, LEFT_V6]) else { return };
    let server = xdp.bound("::", 7);
    server.set_timestamps(true).expect("set");
    for (ours, kernels, shown) in
        [(LEFT, RIGHT_KERNEL, format!("::ffff:{RIGHT_KERNEL}")), (LEFT_V6, RIGHT_KERNEL_V6, RIGHT_KERNEL_V6.to_owned())]
    {
        let client = kernel_udp(pair.right(), at(kernels, 0));
        if ours == LEFT {
            client.set_ttl(7).expect("set");
            rustix::net::sockopt::set_ip_tos(&client, 0xb8).expect("set");
        }
        client.connect(at(ours, 7)).expect("connected");
        client.send(b"hello").expect("sent");
        let meta = answer(&server, 1).expect("it came");
        assert_eq!((meta.from.ip(), meta.ifindex), (ip(&shown), xdp.device.ifindex()));
        let own: IpAddr = if ours == LEFT { ip(&format!("::ffff:{LEFT}")) } else { ip(LEFT_V6) };
        assert_eq!(meta.dst_ip, own);
        assert_eq!((meta.tos, meta.ttl), if ours == LEFT { (0xb8, 7) } else { (0, 64) });
        assert!(meta.received.is_some());
        let mut got = [0; 16];
        assert_eq!(client.recv(&mut got).expect("answered"), 5);
    }
}

#[test]
fn a_listener_of_both_families_has_clients_of_both() {
    let test = "a_listener_of_both_families_has_clients_of_both";
    let Some(pair) = veth(test, 1) else { return };
    let Some(xdp) = Xdp::new(test, pair.left(), many(), &[LEFT, LEFT_V6]) else { return };
    let listener = TcpListener::bind(&xdp.ns, at("::", 80)).expect("bound");
    for (ours, shown) in [(LEFT, format!("::ffff:{RIGHT_KERNEL}")), (LEFT_V6, RIGHT_KERNEL_V6.to_owned())] {
        let connect = || std::net::TcpStream::connect_timeout(&at(ours, 80), PATIENCE);
        let mut client = pair.right().netns().run(connect).expect("entered").expect("connected");
        let (stream, from) = listener.accept().expect("accepted");
        assert_eq!((from.ip(), stream.peer_addr().expect("connected").ip()), (ip(&shown), ip(&shown)));
        client.write_all(b"hello").expect("sent");
        let mut got = [0; 5];
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        (&stream).read_exact(&mut got).expect("it came");
        assert_eq!(&got, b"hello");
    }
    // And ours reaches a server by its mapped address.
    let bind = || std::net::TcpListener::bind(at(RIGHT_KERNEL, 81));
    let server = pair.right().netns().run(bind).expect("entered").expect("bound");
    let mapped = at(&format!("::ffff:{RIGHT_KERNEL}"), 81);
    let stream = TcpStream::connect(&xdp.ns, mapped).expect("connected");
    assert_eq!(stream.peer_addr().expect("connected"), mapped);
    server.accept().expect("accepted");
}

#[test]
fn a_port_that_the_kernel_has_closed_is_refused() {
    let test = "a_port_that_the_kernel_has_closed_is_refused";
    let Some(pair) = veth(test, 1) else { return };
    let Some(xdp) = Xdp::new(test, pair.left(), many(), &[LEFT, LEFT_V6]) else { return };
    for (ours, kernels) in [(LEFT, RIGHT_KERNEL), (LEFT_V6, RIGHT_KERNEL_V6)] {
        let socket = xdp.bound(ours, 0);
        socket.set_read_timeout(Some(AGAIN_AFTER)).expect("set");
        socket.set_recverr(true);
        socket.connect(at(kernels, 9)).expect("connected");
        // The kernel answers only so many in a second.
        eventually("it is refused", || {
            let sent = socket.send(b"anybody?");
            let code = sent.and_then(|_| socket.recv(&mut [0])).expect_err("no answer").raw_os_error();
            code == Some(111)
        });
        let said = socket.recv_error().expect("kept");
        assert_eq!((said.errno, said.by, said.to), (111, Some(ip(kernels)), at(kernels, 9)));
        assert_eq!(said.icmp, if ours == LEFT { (3, 3) } else { (1, 4) });
    }
}

/// A host behind a router, which is the right end of a pair.
struct Behind {
    netns: Netns,
    /// Keeps the namespace, so that interfaces can be moved into it.
    keeper: Child,
}

impl Drop for Behind {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

const FAR: &str = "10.56.0.2";
const FAR_V6: &str = "fd56::2";

/// Puts two addresses behind the right end; the router forwards packets of `mtu` bytes to them at most.
fn behind(pair: &Veth, mtu: u32) -> Behind {
    let netns = Netns::new().expect("a namespace");
    let sleep = || napier_testkit::spawn(Command::new("sleep").arg("600"));
    let keeper = netns.run(sleep).expect("entered").expect("sleep is there");
    let (router, pid) = (pair.right().netns(), keeper.id());
    sh(router, &format!("ip link add near type veth peer name far netns {pid}; ip link set near up"));
    sh(
        router,
        "ip addr add 10.56.0.1/24 dev near; ip addr add fd56::1/64 dev near nodad; echo 1 > /proc/sys/net/ipv4/ip_forward",
    );
    sh(
        router,
        "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding; ip addr add fd55::2/64 dev right nodad 2> /dev/null || true",
    );
    sh(
        router,
        &format!(
            "ip route replace {FAR}/32 dev near mtu lock {mtu}; ip -6 route replace {FAR_V6}/128 dev near mtu lock {mtu}"
        ),
    );
    sh(router, "ethtool -K near tx off tso off gro off > /dev/null; ethtool -K right tso off gro off > /dev/null");
    let behind = Behind { netns, keeper };
    sh(
        &behind.netns,
        "ip addr add 10.56.0.2/24 dev far; ip addr add fd56::2/64 dev far nodad; ip link set far up; ip link set lo up; \
         ip route add default via 10.56.0.1; ip -6 route add default via fd56::1; \
         ethtool -K far tx off tso off gro off > /dev/null",
    );
    behind
}

#[test]
fn datagrams_are_cut_to_a_path_that_a_router_told_of() {
    let test = "datagrams_are_cut_to_a_path_that_a_router_told_of";
    if !has(test, "ip") || !has(test, "ethtool") || !only_on_veth(test, "a router needs its own namespace") {
        return;
    }
    let Some(pair) = veth(test, 1) else { return };
    let behind = behind(&pair, 1280);
    let Some(xdp) = Xdp::new(test, pair.left(), many(), &[LEFT, LEFT_V6]) else { return };
    for (ours, gateway, far, head) in [(LEFT, RIGHT_KERNEL, FAR, 28), (LEFT_V6, RIGHT_KERNEL_V6, FAR_V6, 48)] {
        xdp.ns.gateway_set(xdp.device.ifindex(), ip(gateway)).expect("on the link");
        let bind = || std::net::UdpSocket::bind(at(far, 7));
        let server = behind.netns.run(bind).expect("entered").expect("bound");
        server.set_read_timeout(Some(AGAIN_AFTER)).expect("set");
        let socket = xdp.bound(ours, 0);
        socket.connect(at(far, 7)).expect("connected");
        assert_eq!(socket.mtu().expect("connected"), 1500);
        let (bytes, mut got) = (payload(1400), vec![0; 2048]);
        let (mut told, mut arrived) = (false, false);
        eventually("EMSGSIZE is told, and it arrives", || {
            // The router's word is an error of one call, some time after the path is known.
            told |= socket.send(&bytes).is_err_and(|error| error.raw_os_error() == Some(90));
            arrived |= server.recv_from(&mut got).is_ok_and(|(len, _)| got[..len] == bytes[..]);
            told && arrived
        });
        assert_eq!(socket.mtu().expect("connected"), 1280);
        socket.set_mtu_discovery(MtuDiscovery::Do).expect("set");
        assert_eq!(socket.send(&payload(1281 - head)).expect_err("too long").raw_os_error(), Some(90));
        // More than one may have gone before the router's first word came, and it says so of each.
        eventually("it is sent", || socket.send(&payload(1280 - head)).is_ok_and(|len| len == 1280 - head));
        // What the far end cuts comes back whole.
        let bytes = payload(1600);
        let from = socket.local_addr().expect("bound");
        socket.set_read_timeout(Some(AGAIN_AFTER)).expect("set");
        eventually("it comes back", || {
            server.send_to(&bytes, from).expect("sent");
            let mut room = [0; 2048];
            socket.recv(&mut room).is_ok_and(|len| room[..len] == bytes[..])
        });
    }
    let counters = xdp.ns.counters();
    assert!(counters.path_mtu_lowered >= 2, "{counters}");
    assert!(counters.ip_frag_oks >= 1 && counters.ip6_frag_oks >= 1, "{counters}");
}

#[test]
fn segments_are_shortened_to_a_path_that_a_router_told_of() {
    let test = "segments_are_shortened_to_a_path_that_a_router_told_of";
    if !has(test, "ip") || !has(test, "ethtool") || !only_on_veth(test, "a router needs its own namespace") {
        return;
    }
    let Some(pair) = veth(test, 1) else { return };
    let behind = behind(&pair, 1280);
    let Some(xdp) = Xdp::new(test, pair.left(), many(), &[LEFT, LEFT_V6]) else { return };
    let listener = TcpListener::bind(&xdp.ns, at("::", 80)).expect("bound");
    for (ours, gateway, far) in [(LEFT, RIGHT_KERNEL, FAR), (LEFT_V6, RIGHT_KERNEL_V6, FAR_V6)] {
        xdp.ns.gateway_set(xdp.device.ifindex(), ip(gateway)).expect("on the link");
        // Both sides of a connection: the far end opens one, and ours opens the other.
        let connect = || std::net::TcpStream::connect_timeout(&at(ours, 80), PATIENCE);
        let client = behind.netns.run(connect).expect("entered").expect("connected");
        let (accepted, _) = listener.accept().expect("accepted");
        carries(&accepted, &client);
        let bind = || std::net::TcpListener::bind(at(far, 81));
        let server = behind.netns.run(bind).expect("entered").expect("bound");
        let opened = TcpStream::connect(&xdp.ns, at(far, 81)).expect("connected");
        carries(&opened, &server.accept().expect("accepted").0);
    }
    assert!(xdp.ns.counters().path_mtu_lowered >= 2);
    assert_eq!(xdp.ns.counters().tcp_faults, 0);
}

#[test]
fn a_connection_goes_on_while_the_mtu_changes() {
    let test = "a_connection_goes_on_while_the_mtu_changes";
    let Some(pair) = veth(test, 1) else { return };
    let Some(xdp) = Xdp::new(test, pair.left(), many(), &[LEFT, LEFT_V6]) else { return };
    let listener = TcpListener::bind(&xdp.ns, at("::", 80)).expect("bound");
    for ours in [LEFT, LEFT_V6] {
        let connect = || std::net::TcpStream::connect_timeout(&at(ours, 80), PATIENCE);
        let client = pair.right().netns().run(connect).expect("entered").expect("connected");
        let (accepted, _) = listener.accept().expect("accepted");
        for mtu in [1500, 1300, 1500, 1280] {
            // The sender of what is on its way is not told, so both ends change while nothing is.
            pair.left().set_mtu(mtu).expect("set");
            pair.right().set_mtu(mtu).expect("set");
            carries(&accepted, &client);
        }
    }
    assert_eq!(xdp.ns.counters().tcp_faults, 0);
}

/// 100,000 bytes go each way.
fn carries(ours: &TcpStream, mut theirs: &std::net::TcpStream) {
    let bytes = payload(100_000);
    ours.set_read_timeout(Some(PATIENCE)).expect("set");
    theirs.set_read_timeout(Some(PATIENCE)).expect("set");
    std::thread::scope(|scope| {
        scope.spawn(|| (&*ours).write_all(&bytes).expect("sent"));
        let mut got = vec![0; bytes.len()];
        theirs.read_exact(&mut got).expect("it came");
        assert!(got == bytes);
    });
    std::thread::scope(|scope| {
        scope.spawn(|| { theirs }.write_all(&bytes).expect("sent"));
        let mut got = vec![0; bytes.len()];
        (&*ours).read_exact(&mut got).expect("it came");
        assert!(got == bytes);
    });
}

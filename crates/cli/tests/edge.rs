//! The engine at the edge of real networks: namespaces with routers, refusals, neighbours that move, interfaces with several
//! queues. All of it by the kernel's own stack at the other side.

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{NAPIER, Running, end, has, line, start};
use napier_testnet::{self as net, Veth, VethConfig, VethEnd};

const PATIENCE: Duration = Duration::from_secs(60);

/// A pair of interfaces with this many queues whose ends compute checksums, or a line that says why not.
fn pair(test: &str, queues: u16, [server, client]: [&str; 2]) -> Option<Veth> {
    let ends = net::ends(("server", &[server]), ("client", &[client]));
    net::pair(test, &VethConfig { queues, tx_checksum: false, tso: false, ..ends })
}

/// A command in the namespace of an end.
fn sh(at: &VethEnd, line: &str) -> String {
    let output = at.netns().run(|| Command::new("sh").args(["-c", line]).output()).expect("entered").expect("sh");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn serve(pair: &Veth, more: &[&str]) -> Running {
    let args = [&["serve", "kv", "--dev", "xdp:server", "--ip", "10.79.0.9/24"][..], more].concat();
    pair.left().netns().run(|| start(&args)).expect("the namespace is there")
}

/// A connection from the other end.
fn connect(pair: &Veth) -> TcpStream {
    let connect = || TcpStream::connect_timeout(&"10.79.0.9:11211".parse().expect("an address"), PATIENCE);
    let stream = pair.right().netns().run(connect).expect("entered").expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

fn ask(stream: &mut TcpStream, question: &[u8], answer_bytes: usize) -> Vec<u8> {
    stream.write_all(question).expect("sent");
    let mut answer = vec![0; answer_bytes];
    stream.read_exact(&mut answer).expect("answered");
    answer
}

/// A host behind a router, which is the other end of the pair.
struct Behind {
    netns: napier_linux::Netns,
    /// Keeps the namespace, so that interfaces can be moved into it.
    _keeper: Running,
}

/// Puts 10.80.0.2 behind the other end of a pair; the router's link to it takes packets of `mtu` bytes.
fn behind(pair: &Veth, mtu: u32) -> Behind {
    let netns = napier_linux::Netns::new().expect("a namespace");
    let keeper = netns.run(|| Command::new("sleep").arg("600").spawn()).expect("entered").expect("sleep is there");
    let pid = keeper.id();
    sh(pair.right(), &format!("ip link add near type veth peer name far netns {pid} && ip link set near mtu {mtu} up"));
    sh(pair.right(), "ip addr add 10.80.0.1/24 dev near && echo 1 > /proc/sys/net/ipv4/ip_forward");
    sh(
        pair.right(),
        "ethtool -K near tx off tso off gro off > /dev/null; ethtool -K client tso off gro off > /dev/null",
    );
    let line = "ip addr add 10.80.0.2/24 dev far && ip link set far up && ip route add default via 10.80.0.1 && \
                ethtool -K far tx off tso off gro off > /dev/null";
    let done = netns.run(|| Command::new("sh").args(["-c", line]).status()).expect("entered").expect("sh");
    assert!(done.success(), "{line}");
    Behind { netns, _keeper: Running(keeper) }
}

#[test]
fn a_client_behind_a_link_with_a_smaller_mtu_is_answered() {
    let test = "a_client_behind_a_link_with_a_smaller_mtu_is_answered";
    if !has(test, "ethtool") {
        return;
    }
    let Some(pair) = pair(test, 1, ["10.79.0.1/24", "10.79.0.2/24"]) else { return };
    let behind = behind(&pair, 1280);
    let server = serve(&pair, &["--gateway", "10.79.0.2"]);
    let connect = || TcpStream::connect_timeout(&"10.79.0.9:11211".parse().expect("an address"), PATIENCE);
    let mut stream = behind.netns.run(connect).expect("entered").expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    // Short questions, so that the client's kernel does not learn the path's MTU for both.
    for key in 0..4 {
        let set = format!("set k{key} 0 0 700\r\n{}\r\n", "v".repeat(700));
        assert_eq!(ask(&mut stream, set.as_bytes(), 8), b"STORED\r\n");
    }
    let answer = ask(&mut stream, b"get k0 k1 k2 k3\r\n", 4 * (16 + 700 + 2) + 5);
    assert!(answer.starts_with(b"VALUE k0 0 700\r\n") && answer.ends_with(b"END\r\n"));
    drop(stream);
    end(server);
}

#[test]
fn a_connect_that_a_router_refuses_ends_with_its_reason() {
    let test = "a_connect_that_a_router_refuses_ends_with_its_reason";
    let Some(pair) = pair(test, 1, ["10.79.0.1/24", "10.79.0.2/24"]) else { return };
    sh(pair.right(), "echo 1 > /proc/sys/net/ipv4/ip_forward; echo 0 > /proc/sys/net/ipv4/icmp_ratelimit");
    // ICMP host unreachable, and communication administratively prohibited.
    sh(pair.right(), "ip route add unreachable 10.80.0.0/24 && ip route add prohibit 10.81.0.0/24");
    for server in ["10.80.0.2:9", "10.81.0.2:9"] {
        let args =
            ["load", "kv", "--dev", "xdp:server", "--ip", "10.79.0.9/24", "--gateway", "10.79.0.2", "--server", server];
        let load = || Command::new("timeout").arg("60").arg(NAPIER).args(args).output();
        let output = pair.left().netns().run(load).expect("entered").expect("timeout is installed");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("No route to host"), "{server}: {said}");
    }
}

#[test]
fn a_client_that_moves_is_followed() {
    let test = "a_client_that_moves_is_followed";
    let Some(pair) = pair(test, 1, ["10.79.0.1/24", "10.79.0.2/24"]) else { return };
    let server = serve(&pair, &[]);
    let mut stream = connect(&pair);
    assert_eq!(ask(&mut stream, b"get k\r\n", 5), b"END\r\n");
    // It says so by gratuitous ARP alone: it need not ask for the server.
    sh(pair.right(), "echo 1 > /proc/sys/net/ipv4/conf/client/arp_notify");
    for last in ["77", "78"] {
        sh(
            pair.right(),
            &format!(
                "ip link set client address 02:00:00:00:4e:{last} && \
                 ip neigh replace 10.79.0.9 lladdr 02:00:00:00:4e:01 dev client nud permanent"
            ),
        );
        assert_eq!(ask(&mut stream, b"get k\r\n", 5), b"END\r\n", "{last}");
    }
    drop(stream);
    end(server);
}

#[test]
fn all_queues_are_served_or_it_is_said_which_are_not() {
    let test = "all_queues_are_served_or_it_is_said_which_are_not";
    let Some(pair) = pair(test, 4, ["10.79.0.1/24", "10.79.0.2/24"]) else { return };
    let server = serve(&pair, &[]);
    for _ in 0..16 {
        // Each is a flow of its own.
        assert_eq!(ask(&mut connect(&pair), b"get k\r\n", 5), b"END\r\n");
    }
    end(server);
    let args = ["serve", "kv", "--dev", "xdp:server", "--ip", "10.79.0.9/24", "--queues", "1"];
    let spawn = || Command::new(NAPIER).args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut server = Running(pair.left().netns().run(spawn).expect("entered").expect("it starts"));
    let line = line(server.0.stderr.take());
    assert!(
        line.contains("queues 1 to 3 of server go to the kernel") && line.contains("ethtool -L server rx 1"),
        "{line}"
    );
}

//! What a user meets who follows the pages to the letter: a veth that leaves checksums to nobody, two sides of one bench.

mod common;

use std::fs::File;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Folder, NAPIER, Running, end};
use napier_testkit::{eventually, in_time_enough};
use napier_testnet::{self as net, Veth, VethConfig};

#[test]
fn packets_without_a_checksum_are_told_of_in_the_summary() {
    let test = "packets_without_a_checksum_are_told_of_in_the_summary";
    let ends = net::ends(("server", &["10.79.1.101/24"]), ("client", &["10.79.1.2/24"]));
    let Some(pair) = net::pair(test, &VethConfig { tso: false, ..ends }) else { return };
    // Those that come while neighbours are asked for may be lost, and the server may end before it has looked at the last ones.
    in_time_enough("packets are dropped, and that is said", Duration::from_secs(1), |length| {
        let said = asked_in_vain(&pair, length);
        said.contains("packets were dropped, for theirs was wrong")
            .then(|| assert!(said.contains("ethtool -K"), "{said}"))
    });
}

/// What a server says in the end to whom packets without a checksum were sent for so long.
fn asked_in_vain(pair: &Veth, length: Duration) -> String {
    let folder = Folder::new("hints");
    let out = folder.file("out");
    let server = pair.left().netns().run(|| {
        let mut command = Command::new(NAPIER);
        command.args(["serve", "kv", "--dev", "xdp:server", "--ip", "10.79.1.1/24"]).stdin(Stdio::null());
        Running(command.stdout(File::create(&out).expect("a file")).spawn().expect("napier starts"))
    });
    let server = server.expect("entered");
    let said = || std::fs::read_to_string(&out).expect("a file");
    eventually("it is ready", || said().contains("ready: "));
    let client = pair.right().netns().run(|| UdpSocket::bind("10.79.1.2:0")).expect("entered").expect("its address");
    client.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let begun = Instant::now();
    while begun.elapsed() < length {
        client.send_to(b"\0\x01\0\0\0\x01\0\0version\r\n", "10.79.1.1:11211").expect("sent");
        assert!(client.recv(&mut [0; 64]).is_err(), "nobody answers what is wrong");
    }
    end(server);
    said()
}

fn side(role: &str, mode: &str, socket: &str) -> Child {
    let mut command = Command::new(NAPIER);
    command.args(["bench", "memif", "--role", role, "--socket", socket, "--mode", mode]);
    command.args(["--runs", "2", "--seconds", "0.3", "--json"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("napier starts")
}

#[test]
fn both_sides_of_a_memif_have_figures_whoever_ends_first() {
    let socket = format!("@napier-hints-{}", std::process::id());
    let sides = [side("server", "receive", &socket), side("client", "send", &socket)];
    for side in sides {
        let output = side.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        // On a busy machine a side may be held up for longer than the other one waits; it has the run before then.
        let row = &report["rows"][0];
        assert!(row["runs"].as_u64() >= Some(1) && row["packets"].as_u64() > Some(0), "{report}");
    }
}

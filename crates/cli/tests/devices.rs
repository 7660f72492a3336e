//! Server and load generator on devices of the engine, in two processes.

mod common;

use common::{Folder, NAPIER, Running, end, ended, has, load, pair, run, sockperf, start, text};
use napier_linux::Veth;

#[test]
fn a_memif_peer_is_served_over_every_protocol_and_again_after_it_has_gone() {
    let folder = Folder::new("devices-memif");
    let (socket, capture) = (folder.file("memif.sock"), folder.file("frames.pcapng"));
    let dev = format!("memif:{socket}");
    for mode in ["base", "suspend20", "threaded"] {
        let server = start(&[
            "serve",
            "kv",
            "--dev",
            &dev,
            "--ip",
            "10.78.0.1/24",
            "--resp-port",
            "6379",
            "--mode",
            mode,
            "--secret",
            "open sesame",
            "--pcapng",
            &capture,
        ]);
        let client = ["--dev", dev.as_str(), "--ip", "10.78.0.2/24", "--secret", "open sesame"];
        // Each is a process of its own: the peer goes and another one comes.
        load("10.78.0.1", "udp", "ascii", &client);
        load("10.78.0.1", "tcp", "binary", &client);
        load("10.78.0.1", "tcp", "resp", &client);
        end(server);
        let recorded = std::fs::metadata(&capture).expect("the file was written").len();
        assert!(recorded > 100_000, "{recorded} bytes were recorded");
        assert!(!std::path::Path::new(&socket).exists(), "the socket is left");
    }
}

#[test]
fn a_memif_client_without_the_secret_is_told_so() {
    let folder = Folder::new("devices-secret");
    let dev = format!("memif:{}", folder.file("memif.sock"));
    let _server = start(&["serve", "kv", "--dev", &dev, "--ip", "10.78.0.1/24", "--secret", "open sesame"]);
    let args = ["load", "kv", "--server", "10.78.0.1", "--dev", &dev, "--ip", "10.78.0.2/24", "--secret", "close"];
    let (status, _, said) = ended(&args);
    assert_eq!((status, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("wrong secret") && said.contains("--secret"), "{said}");
    assert!(!said.contains("there is no peer at the other end"), "it was known at once: {said}");
}

/// A server on AF_XDP at the first end.
fn serve_on(pair: &Veth, mode: &str) -> Running {
    let args = ["serve", "kv", "--dev", "xdp:server", "--ip", "10.78.0.1/24", "--resp-port", "6379", "--mode", mode];
    pair.left().netns().run(|| start(&args)).expect("the namespace is there")
}

#[test]
fn programs_on_kernel_sockets_are_served_over_af_xdp() {
    let test = "programs_on_kernel_sockets_are_served_over_af_xdp";
    let Some(pair) = pair(test) else { return };
    for mode in ["base", "suspend20"] {
        let server = serve_on(&pair, mode);
        let clients = || {
            for format in ["ascii", "binary", "meta"] {
                load("10.78.0.1", "udp", format, &[]);
                load("10.78.0.1", "tcp", format, &[]);
            }
            load("10.78.0.1", "tcp", "resp", &[]);
            let long = ["--value-size", "50000", "--keys", "20", "--rate", "50", "--seconds", "0.3", "--runs", "1"];
            run(NAPIER, &[&["load", "kv", "--server", "10.78.0.1"][..], &long].concat());
            if has(test, "memccapable") {
                let output = run("memccapable", &["-h", "10.78.0.1", "-p", "11211"]);
                let report = text(&output) + &String::from_utf8_lossy(&output.stderr);
                assert!(report.contains("All tests passed"), "{report}");
            }
            if has(test, "redis-benchmark") {
                let args = ["-h", "10.78.0.1", "-t", "ping,get,set", "-n", "1000", "-c", "10", "-P", "4", "--csv"];
                assert!(text(&run("redis-benchmark", &args)).contains("\"GET\""));
            }
        };
        pair.right().netns().run(clients).expect("the namespace is there");
        end(server);
        assert!(!pair.left().has_xdp().expect("the interface is there"), "the program is left on the interface");
    }
}

#[test]
fn sockperf_on_kernel_sockets_is_answered_over_af_xdp() {
    let test = "sockperf_on_kernel_sockets_is_answered_over_af_xdp";
    if !has(test, "sockperf") {
        return;
    }
    let Some(pair) = pair(test) else { return };
    let args = ["serve", "kv", "--dev", "xdp:server", "--ip", "10.78.0.1/24", "--sockperf-port", "11111"];
    let server = pair.left().netns().run(|| start(&args)).expect("the namespace is there");
    // sockperf waits for ever for a datagram that is lost.
    pair.left().wait_until_operational().expect("both ends are up");
    let clients = || {
        for more in [&[][..], &["-m", "1400"], &["--tcp"], &["--tcp", "-m", "50000"]] {
            sockperf("10.78.0.1", "11111", more);
        }
    };
    pair.right().netns().run(clients).expect("the namespace is there");
    end(server);
}

#[test]
fn the_load_generator_reaches_kernel_sockets_over_af_xdp() {
    let Some(pair) = pair("the_load_generator_reaches_kernel_sockets_over_af_xdp") else { return };
    let _server = pair.left().netns().run(|| start(&["serve", "kv", "--ip", "10.78.0.101"])).expect("entered");
    let clients = || {
        for proto in ["udp", "tcp"] {
            load("10.78.0.101", proto, "ascii", &["--dev", "xdp:client", "--ip", "10.78.0.12/24"]);
        }
    };
    pair.right().netns().run(clients).expect("the namespace is there");
}

//! The examples, over a link in memory and over AF_XDP on a veth.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use napier_runtime::device::DeviceHandle;
use napier_runtime::engine::Engine;
use napier_runtime::event::{EventContext, Interest};
use napier_testnet::{self as net, Veth, VethConfig};
use napier_tokio::{Reactor, TcpStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[path = "../src/bin/axum_hello.rs"]
#[allow(dead_code)]
mod axum_hello;
#[path = "../src/bin/mio_echo.rs"]
#[allow(dead_code)]
mod mio_echo;
#[path = "../src/bin/quinn_file.rs"]
#[allow(dead_code)]
mod quinn_file;
#[path = "../src/bin/tonic_echo.rs"]
#[allow(dead_code)]
mod tonic_echo;

type Error = Box<dyn std::error::Error + Send + Sync>;

const ADDRESS: &str = "10.78.0.1";
const PATIENCE: Duration = Duration::from_secs(60);

fn at(port: u16) -> SocketAddr {
    ([10, 77, 0, 1], port).into()
}

/// Runs `test` on a link: the server's end is 10.77.0.1.
fn on_a_link<F: Future<Output = Result<(), Error>>>(test: impl FnOnce(Engine, DeviceHandle, DeviceHandle) -> F) {
    let (engine, server, client) = napier_runtime::doc_link().expect("a link");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let ended = tokio::time::timeout(PATIENCE, test(engine, server, client)).await;
        ended.expect("it ends in time").expect("it works");
    });
}

#[test]
fn axum_over_a_link() {
    on_a_link(async |engine, server, client| {
        let reactor = Reactor::start(&engine)?;
        let serving = engine.clone();
        let serves = tokio::spawn(async move { axum_hello::serve(&serving, &server, at(8080)).await });
        tokio::task::yield_now().await;
        let mut stream = TcpStream::connect(&reactor, client.netns(), at(8080)).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("Hello from user space\n"), "{answer}");
        serves.abort();
        Ok(())
    });
}

#[test]
fn tonic_over_a_link() {
    on_a_link(async |engine, server, client| {
        let reactor = Reactor::start(&engine)?;
        let serving = reactor.clone();
        let serves = tokio::spawn(async move { tonic_echo::serve(&serving, &server, at(50051)).await });
        tokio::task::yield_now().await;
        let channel = tonic_echo::channel(&reactor, &client, at(50051)).await?;
        let mut asks = tonic_echo::pb::echo_client::EchoClient::new(channel);
        for text in ["a", "", "beyond"] {
            let answer = asks.say(tonic_echo::pb::Text { text: text.to_owned() }).await?;
            assert_eq!(answer.into_inner().text, text);
        }
        serves.abort();
        Ok(())
    });
}

#[test]
fn quinn_over_a_link() {
    let file = Scratch::new("quinn-link");
    on_a_link(async |engine, server, client| {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 7 % 251) as u8).collect();
        std::fs::write(file.path(), &bytes)?;
        let (config, certificate) = quinn_file::identity()?;
        let serving = quinn_file::endpoint(&engine, &server, at(4433), Some(config))?;
        let path = file.path();
        let serves = tokio::spawn(async move { quinn_file::serve(serving, path).await });
        let asks = quinn_file::endpoint(&engine, &client, ([10, 77, 0, 2], 0).into(), None)?;
        let got = quinn_file::get(&asks, certificate, at(4433)).await?;
        assert!(got == bytes, "{} of {} bytes came, or others", got.len(), bytes.len());
        serves.abort();
        Ok(())
    });
}

#[test]
fn mio_over_a_link_and_loopback() {
    let (engine, server, client) = napier_runtime::doc_link().expect("a link");
    let kernels = mio::net::UdpSocket::bind(([127, 0, 0, 1], 0).into()).expect("a socket");
    let kernels_at = kernels.local_addr().expect("it is bound");
    let asks = napier_runtime::socket::UdpSocket::bind(client.netns(), "10.77.0.2:0").expect("a socket");
    // It serves until the test's program ends.
    std::thread::spawn(move || {
        let socket = napier_runtime::socket::UdpSocket::builder().nonblocking(true);
        let socket = socket.bind(server.netns(), at(7)).expect("a socket");
        mio_echo::echo(&engine, &socket, kernels).expect("it serves");
    });
    let by_kernel = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    by_kernel.set_read_timeout(Some(Duration::from_millis(100))).expect("a time");
    asks.set_read_timeout(Some(Duration::from_millis(100))).expect("a time");
    let mut buffer = [0; 16];
    for round in 0..20 {
        // The first ones may come before it is bound.
        until_it_is(|| {
            asks.send_to(b"engine", at(7)).is_ok()
                && asks.recv(&mut buffer).is_ok_and(|len| &buffer[..len] == b"engine")
        });
        until_it_is(|| {
            by_kernel.send_to(b"kernel", kernels_at).is_ok()
                && by_kernel.recv(&mut buffer).is_ok_and(|len| &buffer[..len] == b"kernel")
        });
        // Both ways of waiting: with news there, and asleep.
        std::thread::sleep(Duration::from_millis(round % 3));
    }
}

#[test]
fn a_context_in_mio_is_told_of_in_every_registration() {
    let (engine, ..) = napier_runtime::doc_link().expect("a link");
    let (mut context, flag) = (EventContext::new(&engine), napier_runtime::event::UserEvent::new());
    context.add(&flag, Interest::IN, 0).expect("a member");
    let mut poll = mio::Poll::new().expect("a poll");
    let mut events = mio::Events::with_capacity(4);
    let now = Some(Duration::ZERO);
    poll.registry().register(&mut context, mio::Token(1), mio::Interest::READABLE).expect("registered");
    flag.trigger();
    poll.poll(&mut events, now).expect("it polls");
    assert!(events.iter().any(|event| event.token() == mio::Token(1)));
    poll.registry().reregister(&mut context, mio::Token(2), mio::Interest::READABLE).expect("registered anew");
    poll.poll(&mut events, now).expect("it polls");
    assert!(events.iter().any(|event| event.token() == mio::Token(2)));
    poll.registry().deregister(&mut context).expect("it was registered");
    flag.trigger();
    poll.poll(&mut events, now).expect("it polls");
    assert!(events.is_empty());
}

#[test]
fn axum_over_af_xdp() {
    let Some(pair) = veth("axum_over_af_xdp") else { return };
    let _server = Server::start(&pair, env!("CARGO_BIN_EXE_axum_hello"), &[]);
    let asked = || in_peer(&pair, "curl", &["-s", "--max-time", "5", &format!("http://{ADDRESS}:8080/")]);
    until_it_is(|| asked() == "Hello from user space\n");
}

#[test]
fn tonic_over_af_xdp() {
    let Some(pair) = veth("tonic_over_af_xdp") else { return };
    let _server = Server::start(&pair, env!("CARGO_BIN_EXE_tonic_echo"), &[]);
    until_it_is(|| {
        in_peer(&pair, env!("CARGO_BIN_EXE_tonic_echo"), &[&format!("http://{ADDRESS}:50051")]) == "hello\n"
    });
}

#[test]
fn quinn_over_af_xdp() {
    let Some(pair) = veth("quinn_over_af_xdp") else { return };
    let [file, certificate, got] = ["file", "certificate", "got"].map(Scratch::new);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 11 % 253) as u8).collect();
    std::fs::write(file.path(), &bytes).expect("written");
    let _server = Server::start(&pair, env!("CARGO_BIN_EXE_quinn_file"), &["serve", &file.text(), &certificate.text()]);
    until_it_is(|| std::fs::metadata(certificate.path()).is_ok_and(|file| file.len() > 0));
    let program = env!("CARGO_BIN_EXE_quinn_file");
    until_it_is(|| {
        in_peer(&pair, program, &["get", &certificate.text(), &format!("{ADDRESS}:4433"), &got.text()])
            .contains("3000000 bytes")
    });
    assert!(std::fs::read(got.path()).expect("a file") == bytes);
}

#[test]
fn mio_over_af_xdp() {
    let Some(pair) = veth("mio_over_af_xdp") else { return };
    let _server = Server::start_with(&pair, env!("CARGO_BIN_EXE_mio_echo"), &[], &["127.0.0.1:7000"]);
    pair.right()
        .netns()
        .run(|| {
            let asks = std::net::UdpSocket::bind("10.78.0.2:0").expect("a socket");
            asks.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
            let mut buffer = [0; 16];
            until_it_is(|| {
                asks.send_to(b"by xdp", (ADDRESS, 7)).is_ok()
                    && asks.recv(&mut buffer).is_ok_and(|len| &buffer[..len] == b"by xdp")
            });
        })
        .expect("the namespace is there");
}

/// A pair whose left interface is for the engine, which has 10.78.0.1 on it.
fn veth(test: &str) -> Option<Veth> {
    let config = net::ends(("served", &[]), ("asks", &["10.78.0.2/24"]));
    net::pair(test, &VethConfig { gro: true, tso: false, tx_checksum: false, ..config })
}

/// A program in the left namespace, ended with the value.
struct Server(Child);

impl Server {
    fn start(pair: &Veth, program: &str, before: &[&str]) -> Self {
        Self::start_with(pair, program, before, &[])
    }

    fn start_with(pair: &Veth, program: &str, before: &[&str], after: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(before).args(["served", &format!("{ADDRESS}/24")]).args(after).stdin(Stdio::null());
        let started = pair.left().netns().run(move || command.spawn()).expect("the namespace is there");
        Self(started.expect("it starts"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a program in the right namespace prints.
fn in_peer(pair: &Veth, program: &str, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stderr(Stdio::null());
    let output = pair.right().netns().run(move || command.output()).expect("the namespace is there");
    String::from_utf8_lossy(&output.expect("it starts").stdout).into_owned()
}

fn until_it_is(mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "not in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A file that is gone with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("napier-example-{}-{name}", std::process::id())))
    }

    fn path(&self) -> PathBuf {
        self.0.clone()
    }

    fn text(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

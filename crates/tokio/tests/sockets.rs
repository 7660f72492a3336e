//! Sockets of the engine in tokio's runtimes, beside tokio's own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use napier_runtime::device::DeviceHandle;
use napier_runtime::engine::Engine;
use napier_runtime::event::EpollParamsRequest;
use napier_runtime::socket::SendMeta;
use napier_tokio::{BUSY_POLL_USECS_MAX, Reactor, TcpListener, TcpStream, UdpSocket};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// Longest time that anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

struct Rig {
    engine: Engine,
    server: DeviceHandle,
    client: DeviceHandle,
}

fn rig() -> Rig {
    let (engine, server, client) = napier_runtime::doc_link().expect("a link in memory");
    Rig { engine, server, client }
}

fn at(port: u16) -> SocketAddr {
    ([10, 77, 0, 1], port).into()
}

/// One thread, and several.
fn each_runtime(test: impl Fn(&Runtime)) {
    test(&Builder::new_current_thread().enable_all().build().unwrap());
    test(&Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return stream.shutdown().await,
            bytes => stream.write_all(&buffer[..bytes]).await?,
        }
    }
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(echo(stream));
    }
}

/// Sends `bytes` in pieces, and takes them back.
async fn ask(mut stream: TcpStream, bytes: usize) -> io::Result<()> {
    let sent: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
    let (mut reads, mut writes) = tokio::io::split(&mut stream);
    let mut got = Vec::new();
    let send = async {
        for piece in sent.chunks(5000) {
            writes.write_all(piece).await?;
        }
        writes.shutdown().await
    };
    tokio::try_join!(send, reads.read_to_end(&mut got))?;
    assert!(got == sent, "{} bytes of {bytes} came back, or others", got.len());
    Ok(())
}

#[test]
fn streams_beside_timers_and_sockets_of_the_kernel() {
    each_runtime(|runtime| {
        let Rig { engine, server, client } = rig();
        runtime.block_on(async {
            let reactor = Reactor::start(&engine).unwrap();
            let listener = TcpListener::bind(&reactor, server.netns(), at(7)).unwrap();
            let serves = tokio::spawn(serve(listener));
            let mut all = JoinSet::new();
            for connection in 0..32 {
                let (reactor, client) = (reactor.clone(), client.netns().clone());
                all.spawn(async move {
                    let stream = TcpStream::connect(&reactor, &client, at(7)).await?;
                    stream.set_nodelay(connection % 2 == 0)?;
                    ask(stream, 1 << (connection % 20)).await
                });
            }
            all.spawn(async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
                let mut asks = tokio::net::TcpStream::connect(listener.local_addr()?).await?;
                let (mut answers, _) = listener.accept().await?;
                asks.write_all(b"x").await?;
                answers.read_u8().await.map(drop)
            });
            while let Some(ended) = all.join_next().await {
                ended.unwrap().unwrap();
            }
            serves.abort();
        });
    });
}

#[test]
fn datagrams() {
    each_runtime(|runtime| {
        let Rig { engine, server, client } = rig();
        runtime.block_on(async {
            let reactor = Reactor::start(&engine).unwrap();
            let answers = UdpSocket::bind(&reactor, server.netns(), at(9)).unwrap();
            let echo = tokio::spawn(async move {
                let mut buffer = [0; 2048];
                loop {
                    let meta = answers.recv_msg(&mut buffer).await.unwrap();
                    assert!(!meta.is_truncated() && meta.dst_ip == at(9).ip());
                    let back = SendMeta::to(meta.from).src_ip(meta.dst_ip);
                    answers.send_msg(&buffer[..meta.len], &back).await.unwrap();
                }
            });
            let asks = UdpSocket::bind(&reactor, client.netns(), "0.0.0.0:0").unwrap();
            asks.connect(at(9)).unwrap();
            for round in 0..200_u32 {
                asks.send(&round.to_ne_bytes()).await.unwrap();
                let mut answer = [0; 8];
                assert_eq!(asks.recv(&mut answer).await.unwrap(), 4);
                assert_eq!(answer[..4], round.to_ne_bytes());
            }
            echo.abort();
        });
    });
}

#[test]
fn a_refused_connection_is_an_error() {
    let Rig { engine, client, .. } = rig();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let reactor = Reactor::start(&engine).unwrap();
        let refused = TcpStream::connect(&reactor, client.netns(), at(1)).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    });
}

#[test]
fn no_address_at_all_is_the_error_that_std_gives() {
    let rig = rig();
    let none: &[SocketAddr] = &[];
    let std = std::net::TcpStream::connect(none).unwrap_err();
    let ours = napier_runtime::socket::TcpStream::connect(rig.client.netns(), none).unwrap_err();
    assert_eq!((ours.kind(), ours.to_string()), (std.kind(), std.to_string()));
    each_runtime(|runtime| {
        let tasks = runtime.block_on(async {
            let reactor = Reactor::start(&rig.engine).unwrap();
            TcpStream::connect(&reactor, rig.client.netns(), none).await.unwrap_err()
        });
        assert_eq!((tasks.kind(), tasks.to_string()), (std.kind(), std.to_string()));
    });
}

#[test]
fn tasks_hear_that_the_engine_has_stopped() {
    let Rig { engine, server, .. } = rig();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let reactor = Reactor::start(&engine).unwrap();
        let listener = TcpListener::bind(&reactor, server.netns(), at(7)).unwrap();
        let waits = tokio::spawn(async move { listener.accept().await.map(drop) });
        tokio::task::yield_now().await;
        drop(engine);
        assert!(waits.await.unwrap().is_err());
    });
}

#[test]
fn a_reactor_that_polls_serves_and_leaves_time_for_others() {
    let Rig { engine, server, client } = rig();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let reactor = Reactor::start(&engine).unwrap();
        let params =
            |busy_poll_usecs| EpollParamsRequest { busy_poll_usecs, busy_poll_budget: 64, prefer_busy_poll: 1, pad: 0 };
        reactor.set_params(params(BUSY_POLL_USECS_MAX + 1)).unwrap_err();
        reactor.set_params(params(200)).unwrap();
        let listener = TcpListener::bind(&reactor, server.netns(), at(7)).unwrap();
        let serves = tokio::spawn(serve(listener));
        let stream = TcpStream::connect(&reactor, client.netns(), at(7)).await.unwrap();
        let timer = tokio::time::sleep(Duration::from_millis(1));
        let (asked, ()) = tokio::join!(ask(stream, 1 << 20), timer);
        asked.unwrap();
        // While all tasks wait it polls.
        let begun = Instant::now();
        while reactor.stats().busy_loops == 0 {
            assert!(begun.elapsed() < PATIENCE, "it polls at some time");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        serves.abort();
    });
}

#[test]
fn several_tasks_wait_for_one_socket() {
    each_runtime(|runtime| {
        let Rig { engine, server, client } = rig();
        runtime.block_on(async {
            let reactor = Reactor::start(&engine).unwrap();
            let socket = Arc::new(UdpSocket::bind(&reactor, server.netns(), at(9)).unwrap());
            let mut all = JoinSet::new();
            for _ in 0..50 {
                let socket = socket.clone();
                all.spawn(async move { socket.recv_from(&mut [0; 16]).await.map(drop) });
            }
            tokio::task::yield_now().await;
            let asks = UdpSocket::bind(&reactor, client.netns(), "0.0.0.0:0").unwrap();
            for _ in 0..50 {
                asks.send_to(b"x", at(9)).await.unwrap();
            }
            while let Some(ended) = all.join_next().await {
                ended.unwrap().unwrap();
            }
        });
    });
}

#[test]
fn sockets_outlive_the_runtime_of_their_reactor_with_an_error() {
    let Rig { engine, server, .. } = rig();
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let socket = first.block_on(async {
        let reactor = Reactor::start(&engine).unwrap();
        UdpSocket::bind(&reactor, server.netns(), at(9)).unwrap()
    });
    drop(first);
    runtime().block_on(async {
        socket.recv_from(&mut [0; 16]).await.unwrap_err();
    });
}

#[test]
fn an_event_of_a_socket_that_is_gone_tells_no_other() {
    let Rig { engine, server, client } = rig();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let reactor = Reactor::start(&engine).unwrap();
        let listener = TcpListener::bind(&reactor, server.netns(), at(7)).unwrap();
        let serves = tokio::spawn(serve(listener));
        for round in 0..200 {
            let mut stream = TcpStream::connect(&reactor, client.netns(), at(7)).await.unwrap();
            stream.write_all(b"hello").await.unwrap();
            if round % 3 == 0 {
                let mut answer = [0; 5];
                stream.read_exact(&mut answer).await.unwrap();
            }
        }
        serves.abort();
    });
}

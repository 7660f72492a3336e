//! What tokio adds to a round trip: TCP echo of 64 bytes over a link in memory, served by an event context and by a task of tokio, in turn.
//!
//! ```sh
//! cargo run --release -p napier-tokio --example echo_cost              # 20 pairs of turns
//! strace -fc target/release/examples/echo_cost tokio 100000            # so many requests of one: which system calls were made
//! ```
//!
//! Both sides busy poll (`fullbusy`), so each wants a CPU.

use std::io::Read as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use napier_runtime::control::mode::Mode;
use napier_runtime::device::DeviceHandle;
use napier_runtime::engine::Engine;
use napier_runtime::event::{Event, EventContext, Interest, Timeout};
use napier_runtime::socket::{SocketOption, TcpListener, TcpStream};
use napier_tokio::Reactor;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const PAIRS: usize = 20;
const TURN: Duration = Duration::from_millis(300);
const REQUEST_BYTES: usize = 64;

#[derive(Copy, Clone)]
enum Server {
    Context,
    Tokio,
}

struct Rig {
    engine: Engine,
    server: DeviceHandle,
    client: DeviceHandle,
    mode: Mode,
}

fn main() -> Result<(), Failure> {
    let (engine, server, client) = napier_runtime::doc_link().map_err(|error| error.to_string())?;
    let rig = Rig { engine, server, client, mode: "fullbusy".parse()? };
    rig.engine.set_mode(&rig.server, rig.mode)?;
    rig.engine.set_mode(&rig.client, rig.mode)?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare(&rig),
        ["context", requests] => turn(&rig, Server::Context, requests.parse()?, Duration::MAX).map(drop),
        ["tokio", requests] => turn(&rig, Server::Tokio, requests.parse()?, Duration::MAX).map(drop),
        _ => Err("give nothing, or `context` or `tokio` and a number of requests".into()),
    }
}

fn compare(rig: &Rig) -> Result<(), Failure> {
    let mut more = Vec::new();
    println!("{:>4}{:>14}{:>14}{:>12}", "ns", "context p50", "tokio p50", "more");
    for pair in 0..PAIRS {
        let order = if pair % 2 == 0 { [Server::Context, Server::Tokio] } else { [Server::Tokio, Server::Context] };
        let mut p50s = [0; 2];
        for server in order {
            p50s[server as usize] = turn(rig, server, usize::MAX, TURN)?;
        }
        let [context, tokio] = p50s;
        println!("{pair:>4}{context:>14}{tokio:>14}{:>12}", tokio - context);
        more.push(tokio - context);
    }
    more.sort_unstable();
    let of = |permille: usize| more[more.len() * permille / 1000];
    println!(
        "tokio adds {} ns to the median round trip [{}, {}] in the middle half of {PAIRS} pairs",
        of(500),
        of(250),
        of(750)
    );
    Ok(())
}

/// The median of round trips in ns.
fn turn(rig: &Rig, server: Server, requests: usize, time: Duration) -> Result<i64, Failure> {
    let at: SocketAddr = ([10, 77, 0, 1], 7).into();
    let listener = TcpListener::bind(rig.server.netns(), at)?;
    std::thread::scope(|scope| {
        let serves = scope.spawn(|| match server {
            Server::Context => by_context(rig, listener),
            Server::Tokio => by_tokio(rig, listener),
        });
        let times = ask(rig, at, requests, time);
        serves.join().expect("the server does not panic")?;
        let mut times = times?;
        times.sort_unstable();
        Ok(times.get(times.len() / 2).copied().unwrap_or(0))
    })
}

fn ask(rig: &Rig, at: SocketAddr, requests: usize, time: Duration) -> Result<Vec<i64>, Failure> {
    let mut stream = TcpStream::connect(rig.client.netns(), at)?;
    stream.set_nodelay(true)?;
    stream.setsockopt(SocketOption::BusyPoll, 1000)?;
    stream.setsockopt(SocketOption::PreferBusyPoll, 1)?;
    // Room for all, so that nothing is allocated while time is taken.
    let mut times = Vec::with_capacity(requests.min(1 << 20));
    let (begun, mut buffer) = (Instant::now(), [7; REQUEST_BYTES]);
    while times.len() < times.capacity() && begun.elapsed() < time {
        let sent = Instant::now();
        stream.send(&buffer)?;
        stream.read_exact(&mut buffer)?;
        times.push(i64::try_from(sent.elapsed().as_nanos())?);
    }
    Ok(times)
}

fn by_context(rig: &Rig, listener: TcpListener) -> Result<(), Failure> {
    let context = EventContext::new(&rig.engine);
    context.set_mode(rig.mode)?;
    let (stream, _) = listener.accept()?;
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    context.add(&stream, Interest::IN, 0)?;
    let (mut events, mut buffer) = ([Event::default(); 8], [0; REQUEST_BYTES]);
    loop {
        context.wait(&mut events, Timeout::Never)?;
        match stream.recv(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => drop(stream.send(&buffer[..bytes])?),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn by_tokio(rig: &Rig, listener: TcpListener) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let reactor = Reactor::start(&rig.engine)?;
        reactor.set_mode(rig.mode)?;
        let listener = napier_tokio::TcpListener::from_napier(&reactor, listener)?;
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // As servers do. In `block_on` itself each request costs a look of the runtime at its own descriptors, which is a system call.
        let served = tokio::spawn(async move {
            let mut buffer = [0; REQUEST_BYTES];
            loop {
                match stream.read(&mut buffer).await? {
                    0 => return Ok(()),
                    bytes => stream.write_all(&buffer[..bytes]).await?,
                }
            }
        });
        served.await?
    })
}

//! The two programs under test, each a process of its own: this binary once more, told by a variable what to be.
//!
//! A child speaks in lines of JSON behind a mark, for the test harness says things too. It ends when its standard input
//! does, so it does not outlive the test.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use napier_kv::load::engine::EngineClient;
use napier_kv::load::net::{ClientNet, KernelClient, Proto};
use napier_lab::device::Device;
use napier_lab::serve::device::{DeviceConfig, MemifRole, OneDevice};
use napier_lab::serve::limits::Limits;
use napier_lab::serve::run::{ServeConfig, serve};
use napier_runtime::socket::TcpStream;
use serde::{Deserialize, Serialize};

use crate::now_ns;

/// The variable that holds a child's task.
pub(crate) const TASK: &str = "NAPIER_SOAK_TASK";
/// What a child's lines begin with.
pub(crate) const MARK: &str = "soak: ";

/// Address and port of the server.
pub(crate) const SERVER_IP: &str = "10.79.0.1";
const PORT: u16 = 11_211;
/// Limits of the server, which are not what is tested: killed clients may leave thousands of connections.
const MEMORY_MIB: usize = 1024;
const CONNECTIONS_MAX: usize = 60_000;
/// Address of the client, where it is one of the engine's.
const CLIENT_IP: &str = "10.79.0.2";

/// Address of a client that holds connections; over a veth the kernel has the other one.
const HOLDER_IP: &str = "10.79.0.12";
/// How long one of its connections may take to come about, and an answer to come.
const CONNECT_MAX: Duration = Duration::from_secs(3);
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// From an answer to the next request of its connection.
const GAP_NS: u64 = 10_000_000;
/// Silence that the client tells of.
const TOLD_NS: u64 = 20_000_000;
/// How long the client waits for answers before it sees to the time again.
const WAIT: Duration = Duration::from_millis(1);
/// Every so many connections one has values that need several segments.
const LONG_EVERY: usize = 8;
const LONG_BYTES: usize = 8000;
const SHORT_BYTES: usize = 20;

/// What a child is to be. Where a processor is named the engine's softirq thread is pinned to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// `serve kv` on this device.
    Serve { dev: Dev, mode: String, pinned: Option<usize> },
    /// A client of it.
    Load { dev: Dev, connections: usize, pinned: Option<usize> },
    /// A client with an engine of its own on either device, which connects from these ports and requests until it ends.
    Hold { dev: Dev, connections: u16, from_port: u16 },
}

/// What lies between the two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Dev {
    /// A memif with this control socket, an engine at each end.
    Memif(String),
    /// A veth pair: an engine on AF_XDP at the server's end, the kernel's sockets at the client's.
    Xdp,
}

/// What a child says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    /// It serves, or all connections are there and have had an answer.
    Ready,
    /// A connection waited so long for an answer.
    Silence(Silence),
    /// A connection ended by itself, or was told what it must not be told.
    Broken { connection: usize, at_ns: u64, why: String },
    /// A client holds its connections; the longest that one took to come about.
    Held { longest_ns: u64 },
    /// The client's last word.
    Done { requests: u64 },
}

/// From a request to its answer, or to the end where none came.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Silence {
    pub(crate) connection: usize,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) answered: bool,
}

/// Runs what the variable asks for; `None` if this process is no child.
pub(crate) fn run() -> Option<()> {
    let task = std::env::var(TASK).ok()?;
    let task: Task = serde_json::from_str(&task).expect("the parent wrote it");
    let stop = Arc::new(AtomicBool::new(false));
    let stopper = stop.clone();
    std::thread::spawn(move || {
        // Whatever it says: the end of it is the end of the task.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stopper.store(true, Ordering::Release);
    });
    let outcome = match &task {
        Task::Serve { dev, mode, pinned } => serve_kv(dev, mode, *pinned, &stop),
        Task::Load { dev, connections, pinned } => load(dev, *connections, *pinned, &stop),
        Task::Hold { dev, connections, from_port } => hold(dev, *connections, *from_port, &stop),
    };
    outcome.unwrap_or_else(|error| panic!("{task:?}: {error:#}"));
    Some(())
}

fn say(said: &Said) {
    let line = serde_json::to_string(said).expect("it can be written");
    // A parent that is gone will not miss it.
    let _ = writeln!(std::io::stdout(), "{MARK}{line}");
}

fn engine(dev: &Dev, role: MemifRole, ip: &str, pinned: Option<usize>) -> DeviceConfig {
    let device = match dev {
        Dev::Memif(socket) => Device::Memif { socket: Some(socket.clone()) },
        Dev::Xdp => {
            let interface = if role == MemifRole::Server { "server" } else { "client" };
            Device::Xdp { interface: Some(interface.to_owned()) }
        }
    };
    let ip = ip.parse().expect("an address");
    DeviceConfig { role, cpus: pinned.into_iter().collect(), ..DeviceConfig::new(device, ip, 24) }
}

fn serve_kv(dev: &Dev, mode: &str, pinned: Option<usize>, stop: &AtomicBool) -> anyhow::Result<()> {
    let config = ServeConfig {
        shown: napier_lab::shown::Shown::default(),
        service: None,
        control: false,
        device: engine(dev, MemifRole::Server, SERVER_IP, pinned),
        port: PORT,
        resp_port: None,
        sockperf_port: None,
        mode: Some(mode.parse()?),
        workers: 1,
        limits: Limits::new(MEMORY_MIB, CONNECTIONS_MAX, 0)?,
    };
    serve(&config, stop, &mut || say(&Said::Ready)).map(drop)
}

fn load(dev: &Dev, connections: usize, pinned: Option<usize>, stop: &AtomicBool) -> anyhow::Result<()> {
    match dev {
        Dev::Xdp => Client::connect(KernelClient::new()?, connections)?.run(stop),
        Dev::Memif(_) => {
            let one = OneDevice::start(&engine(dev, MemifRole::Client, CLIENT_IP, pinned))?;
            ensure!(one.device.wait_link(Duration::from_secs(20)), "the server's end does not come up");
            Client::connect(EngineClient::new(&one.engine, &one.netns, connections), connections)?.run(stop)
        }
    }
}

fn hold(dev: &Dev, connections: u16, from_port: u16, stop: &AtomicBool) -> anyhow::Result<()> {
    let one = OneDevice::start(&engine(dev, MemifRole::Client, HOLDER_IP, None))?;
    ensure!(one.device.wait_link(Duration::from_secs(20)), "the server's end does not come up");
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    let (mut streams, mut longest_ns) = (Vec::new(), 0);
    for at in 0..connections {
        let begun_ns = now_ns();
        let local = SocketAddr::new(ip(HOLDER_IP), from_port + at);
        // Where it takes longer, that is what is said.
        let builder = TcpStream::builder().local(local).nodelay(true).connect_timeout(CONNECT_MAX);
        match builder.connect(&one.netns, SocketAddr::new(ip(SERVER_IP), PORT)) {
            Ok(stream) => streams.push(stream),
            Err(error) => {
                let why = format!("connecting from port {}: {error}", local.port());
                say(&Said::Broken { connection: usize::from(at), at_ns: now_ns(), why });
                return Ok(());
            }
        }
        longest_ns = longest_ns.max(now_ns() - begun_ns);
    }
    let mut told = false;
    let mut room = [0; 64];
    while !stop.load(Ordering::Acquire) {
        for stream in &streams {
            stream.set_read_timeout(Some(ANSWER_MAX))?;
            stream.send(b"get nothing\r\n").context("writing")?;
            let bytes = stream.recv(&mut room).context("reading")?;
            ensure!(&room[..bytes] == b"END\r\n", "not an answer: {:?}", &room[..bytes]);
        }
        if !told {
            told = true;
            say(&Said::Held { longest_ns });
        }
    }
    Ok(())
}

/// Connections that each have at most one request out.
struct Client<N: ClientNet> {
    net: N,
    connections: Vec<Connection<N::Socket>>,
    requests: u64,
}

struct Connection<S> {
    socket: Option<S>,
    value_bytes: usize,
    /// Of the request that is out.
    sent_ns: Option<u64>,
    next_ns: u64,
    answers: u64,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
}

impl<N: ClientNet> Client<N> {
    fn connect(mut net: N, connections: usize) -> anyhow::Result<Self> {
        let ip: IpAddr = SERVER_IP.parse().expect("an address");
        let connections = (0..connections)
            .map(|at| {
                let socket = net.connect(Proto::Tcp, SocketAddr::new(ip, PORT), at as u64).context("connecting")?;
                Ok(Connection {
                    socket: Some(socket),
                    value_bytes: if at % LONG_EVERY == LONG_EVERY - 1 { LONG_BYTES } else { SHORT_BYTES },
                    sent_ns: None,
                    next_ns: now_ns() + at as u64 * GAP_NS / connections as u64,
                    answers: 0,
                    outbox: Vec::new(),
                    inbox: Vec::new(),
                })
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { net, connections, requests: 0 })
    }

    fn run(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let (mut ready, mut told) = (Vec::new(), false);
        while !stop.load(Ordering::Acquire) {
            for at in 0..self.connections.len() {
                self.send(at);
            }
            ready.clear();
            self.net.wait(WAIT, &mut ready)?;
            for token in &ready {
                self.receive(usize::try_from(*token).expect("an index"));
            }
            if !told && self.connections.iter().all(|connection| connection.answers > 1) {
                told = true;
                say(&Said::Ready);
            }
        }
        let to_ns = now_ns();
        for (connection, it) in self.connections.iter().enumerate() {
            if let Some(from_ns) = it.sent_ns.filter(|from_ns| to_ns - from_ns > TOLD_NS) {
                say(&Said::Silence(Silence { connection, from_ns, to_ns, answered: false }));
            }
        }
        say(&Said::Done { requests: self.requests });
        Ok(())
    }

    /// Sends what is due, and what had no room before.
    fn send(&mut self, at: usize) {
        let it = &mut self.connections[at];
        let now = now_ns();
        if it.sent_ns.is_none() && now >= it.next_ns && it.socket.is_some() {
            it.sent_ns = Some(now);
            if it.answers == 0 {
                it.outbox.extend(format!("set k{at} 0 0 {}\r\n", it.value_bytes).bytes());
                it.outbox.resize(it.outbox.len() + it.value_bytes, b'x');
                it.outbox.extend(b"\r\n");
            } else {
                it.outbox.extend(format!("get k{at}\r\n").bytes());
            }
        }
        let Some(socket) = it.socket.as_ref().filter(|_| !it.outbox.is_empty()) else { return };
        match self.net.write(socket, &it.outbox) {
            Ok(bytes) => drop(it.outbox.drain(..bytes)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => self.give_up(at, format!("writing: {error}")),
        }
    }

    fn receive(&mut self, at: usize) {
        let mut room = [0; 16 << 10];
        loop {
            let it = &mut self.connections[at];
            let Some(socket) = &it.socket else { return };
            match self.net.read(socket, &mut room) {
                Ok(0) => return self.give_up(at, "the server closed it".to_owned()),
                Ok(bytes) => it.inbox.extend(&room[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return self.give_up(at, format!("reading: {error}")),
            }
            let expected = if it.answers == 0 {
                b"STORED\r\n".to_vec()
            } else {
                let head = format!("VALUE k{at} 0 {}\r\n", it.value_bytes);
                [head.as_bytes(), &vec![b'x'; it.value_bytes], b"\r\nEND\r\n"].concat()
            };
            if !expected.starts_with(&it.inbox) {
                let said = String::from_utf8_lossy(&it.inbox[..it.inbox.len().min(80)]).into_owned();
                return self.give_up(at, format!("not an answer: {said:?}"));
            }
            if it.inbox.len() == expected.len() {
                self.answered(at);
            }
        }
    }

    fn answered(&mut self, at: usize) {
        let it = &mut self.connections[at];
        let to_ns = now_ns();
        let from_ns = it.sent_ns.take().expect("answers come to requests");
        it.inbox.clear();
        it.answers += 1;
        it.next_ns = to_ns + GAP_NS;
        self.requests += 1;
        if to_ns - from_ns > TOLD_NS {
            say(&Said::Silence(Silence { connection: at, from_ns, to_ns, answered: true }));
        }
    }

    fn give_up(&mut self, at: usize, why: String) {
        let it = &mut self.connections[at];
        (it.socket, it.sent_ns) = (None, None);
        it.outbox.clear();
        say(&Said::Broken { connection: at, at_ns: now_ns(), why });
    }
}

//! Agent and driver over loopback: who is let in, what is refused, what ends.

use crate::loads::Load;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use napier_kv::load::net::Proto;
use napier_kv::load::plan::Window;

use super::channel::{ChannelError, ChannelSide, Secret, TO_AGENT_BYTES_MAX, open};
use super::driver::Driver;
use super::{Agent, AgentReport, Offer, Served};

/// An agent on loopback, which ends with the test.
struct Running {
    at: SocketAddr,
    served: Arc<Served>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn new(secret: &str) -> Self {
        let agent = Agent::bind((Ipv4Addr::LOCALHOST, 0).into(), Secret::of(secret)).unwrap();
        let (at, served, stop) = (agent.at().unwrap(), Arc::<Served>::default(), Arc::<AtomicBool>::default());
        let (counts, interrupted) = (served.clone(), stop.clone());
        let thread = std::thread::spawn(move || agent.serve(&interrupted, &counts, &|_| ()));
        Self { at, served, stop, thread: Some(thread) }
    }

    fn refused(&self) -> u64 {
        self.served.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("once").join().expect("it does not panic");
    }
}

const SECRET: &str = "a secret of these tests";
static NEVER: AtomicBool = AtomicBool::new(false);

fn offer(server: SocketAddr) -> Offer {
    let SocketAddr::V4(server) = server else { panic!("{server}") };
    let window = Window {
        warm_up: Duration::ZERO,
        measure: Duration::from_millis(50),
        margin: Duration::ZERO,
        drain: Duration::ZERO,
    };
    let format = "ascii".to_owned();
    Offer { server, proto: Proto::Tcp, format, flows: 1, seed: 1, arrivals: None, pace: Load::Max, window }
}

#[test]
fn who_has_the_secret_drives_one_at_a_time() {
    let agent = Running::new(SECRET);
    let connect = |secret: &str| Driver::connect(agent.at, &Secret::of(secret), &NEVER);
    let error = format!("{:#}", connect("another secret of theirs").unwrap_err());
    assert!(error.contains("the same secret"), "{error}");
    let first = connect(SECRET).unwrap();
    let error = format!("{:#}", connect(SECRET).unwrap_err());
    assert!(error.contains("one at a time"), "{error}");
    drop(first);
    connect(SECRET).unwrap();
    assert!(agent.refused() >= 2 && agent.served.drivers.load(Ordering::Relaxed) == 2);
}

/// Connections that say nothing, made again as soon as they are ended, until this is dropped.
struct Silent {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Silent {
    fn new(count: usize, at: SocketAddr) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let silent = |_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect(at) else { continue };
                    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                    // What comes is the greeting, and then the end.
                    while !stop.load(Ordering::Relaxed) {
                        match stream.read(&mut [0; 100]) {
                            Ok(0) => break,
                            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => break,
                            _ => {}
                        }
                    }
                }
            })
        };
        let threads = (0..count).map(silent).collect();
        Self { stop, threads }
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().expect("it does not panic"));
    }
}

#[test]
fn silent_connections_keep_none_out_that_has_the_secret() {
    let agent = Running::new(SECRET);
    let silent = Silent::new(20, agent.at);
    napier_testkit::eventually("the silent ones have all places", || agent.refused() > 4);
    for _ in 0..3 {
        // The system's queue may be full of silent ones for a while, which is longer than an answer may take.
        napier_testkit::eventually("a driver gets in", || {
            Driver::connect(agent.at, &Secret::of(SECRET), &NEVER).is_ok()
        });
    }
    drop(silent);
}

#[test]
fn lines_about_who_is_turned_away_are_few() {
    let lines = Arc::<std::sync::Mutex<Vec<String>>>::default();
    let agent = Agent::bind((Ipv4Addr::LOCALHOST, 0).into(), Secret::of(SECRET)).unwrap();
    let (at, stop, served) = (agent.at().unwrap(), AtomicBool::new(false), Served::default());
    let tell = |line| lines.lock().unwrap().push(line);
    std::thread::scope(|scope| {
        scope.spawn(|| agent.serve(&stop, &served, &tell));
        let begun = Instant::now();
        for _ in 0..200 {
            let mut stranger = TcpStream::connect(at).unwrap();
            let _ = stranger.write_all(&[b'x'; 64]);
            let _ = stranger.read_to_end(&mut Vec::new());
        }
        let seconds_max = begun.elapsed().as_secs() + 2;
        stop.store(true, Ordering::Relaxed);
        assert!(lines.lock().unwrap().len() as u64 <= seconds_max, "{lines:?}");
    });
    assert!(served.refused.load(Ordering::Relaxed) >= 190, "{served:?}");
}

#[test]
fn a_run_that_cannot_be_fails_and_the_next_is_served() {
    let agent = Running::new(SECRET);
    let mut driver = Driver::connect(agent.at, &Secret::of(SECRET), &NEVER).unwrap();
    // A port that nobody has any more.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    napier_testkit::eventually("nothing listens there", || TcpStream::connect(free).is_err());
    for (wrong, said) in [
        (offer(free), "is a server running there?"),
        (Offer { flows: 0, ..offer(free) }, "1 to 4096 flows"),
        (Offer { pace: Load::Rps(0), ..offer(free) }, "requests per second"),
        (Offer { format: "morse".to_owned(), ..offer(free) }, "format"),
    ] {
        let error = driver.offer(&wrong, &channel().0, &NEVER, &mut |_| ()).unwrap_err();
        assert!(format!("{error:#}").contains(said), "{error:#}");
    }
    assert_eq!(agent.served.failed.load(Ordering::Relaxed), 4);
}

#[test]
fn strangers_and_long_messages_are_turned_away() {
    let agent = Running::new(SECRET);
    // One that talks and one that does not read.
    let mut stranger = TcpStream::connect(agent.at).unwrap();
    let _ = stranger.write_all(&[b'x'; 1 << 20]);
    let mut said = Vec::new();
    let _ = stranger.read_to_end(&mut said);
    assert!(said.len() <= 48, "a greeting at most: {}", said.len());
    let stream = TcpStream::connect(agent.at).unwrap();
    let (mut out, mut incoming) = open(stream, ChannelSide::Driver, &Secret::of(SECRET), &NEVER).unwrap();
    let soon = || Some(Instant::now() + Duration::from_secs(10));
    assert!(matches!(incoming.next(soon(), &NEVER), Ok(AgentReport::Ready)));
    out.send(&"x".repeat(TO_AGENT_BYTES_MAX)).unwrap();
    let ended = incoming.next::<AgentReport>(soon(), &NEVER).unwrap_err();
    assert!(matches!(ended, ChannelError::Closed | ChannelError::Io(_)), "{ended}");
    Driver::connect(agent.at, &Secret::of(SECRET), &NEVER).expect("it serves others");
}

#[test]
fn what_is_changed_or_repeated_on_the_way_ends_the_connection() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let both = |meddle: &dyn Fn(&mut Vec<u8>)| {
        let driver = std::thread::spawn(move || {
            let stream = TcpStream::connect(at).unwrap();
            let raw = stream.try_clone().unwrap();
            (open(stream, ChannelSide::Driver, &Secret::of(SECRET), &NEVER).unwrap(), raw)
        });
        let stream = listener.accept().unwrap().0;
        let (mut out, _) = open(stream.try_clone().unwrap(), ChannelSide::Agent, &Secret::of(SECRET), &NEVER).unwrap();
        let ((_, mut incoming), raw) = driver.join().unwrap();
        out.send(&AgentReport::Edge(true)).unwrap();
        // What is on its way is taken, meddled with, and sent on over the same socket.
        let mut bytes = vec![0; 4 + 32 + r#"{"edge":true}"#.len()];
        (&raw).read_exact(&mut bytes).unwrap();
        meddle(&mut bytes);
        (&stream).write_all(&bytes).unwrap();
        let until = || Some(Instant::now() + Duration::from_secs(10));
        [(); 2].map(|()| incoming.next::<AgentReport>(until(), &NEVER))
    };
    let [same, again] = both(&|bytes| bytes.extend_from_within(..));
    assert!(matches!((same, again), (Ok(AgentReport::Edge(true)), Err(ChannelError::Forged))));
    let [changed, _] = both(&|bytes| {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        bytes.extend_from_within(..);
    });
    assert!(matches!(changed, Err(ChannelError::Forged)));
}

#[test]
fn an_agent_that_is_none_is_told() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let other = std::thread::spawn(move || listener.accept().unwrap().0.write_all(&[b'S'; 60]));
    let error = Driver::connect(at, &Secret::of(SECRET), &NEVER).unwrap_err();
    assert!(format!("{error:#}").contains("no napier agent"), "{error:#}");
    other.join().unwrap().unwrap();
    // What another test starts has the listener as well until it is another program.
    napier_testkit::eventually("it is gone, and what to start is said", || {
        format!("{:#}", Driver::connect(at, &Secret::of(SECRET), &NEVER).unwrap_err()).contains("--agent")
    });
}

#[test]
fn a_secret_is_long_and_nobody_elses() {
    let file = std::env::temp_dir().join(format!("napier-secret-{}", std::process::id()));
    let with = |text: &str, mode: u32| {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        Secret::read(&file).map_err(|error| error.to_string())
    };
    assert_eq!(with("  0123456789abcdef\n", 0o600), Ok(Secret::of("0123456789abcdef")));
    for (text, mode, said) in [
        ("0123456789abcdef", 0o640, "chmod 600"),
        (" 0123456789abcde ", 0o600, "has 15 bytes"),
        (&"x".repeat(5000), 0o600, "has 5000 bytes"),
    ] {
        assert!(with(text, mode).is_err_and(|error| error.contains(said)), "{said}");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(Secret::read(&file).is_err_and(|error| error.to_string().contains("urandom")));
    assert_eq!(format!("{:?}", Secret::of("hidden")), "Secret");
}

//! The agent: takes connections, lets in who has the secret, and offers the loads that one of them asks for.
//!
//! Connections that have not shown the secret yet keep no other one out: when all places are taken the one that has been
//! unknown for longest goes, once it has had [`GRACE`] to show it. What comes before that waits in the system's queue.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use napier_kv::load::generator::Generator;
use napier_kv::load::net::KernelClient;
use napier_kv::load::plan::Measured;
use napier_kv::load::wire::SocketWire;
use napier_kv::profile::{Profile, ProfileConfig};
use rustix::net::sockopt;

use super::channel::{ChannelError, ChannelSide, Incoming, Outgoing, Secret, open};
use super::{AgentReport, Offer};
use crate::offer;

/// Connections that may be open at a time, those that are still unknown included.
const CONNECTIONS_MAX: usize = 16;

/// How long a connection may be unknown when others wait for its place: some round trips of the longest path.
const GRACE: Duration = Duration::from_millis(500);

/// At most one line in so long about connections that are turned away.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// How often it is looked for a new connection.
const LOOK: Duration = Duration::from_millis(20);

/// A driver that is gone without a word is noticed so long after its last one, and then after so many questions.
const SILENT_MAX: Duration = Duration::from_secs(10);
const QUESTIONS: u32 = 3;

/// A load generator for comparisons elsewhere.
#[derive(Debug)]
pub struct Agent {
    listener: TcpListener,
    secret: Secret,
}

/// What an agent has done.
#[derive(Debug, Default)]
pub struct Served {
    /// Comparisons that have driven it.
    pub drivers: AtomicU64,
    /// Runs that were done.
    pub runs: AtomicU64,
    /// Runs that failed.
    pub failed: AtomicU64,
    /// Connections that were turned away: too many, no secret, or while another one drives it.
    pub refused: AtomicU64,
}

/// What the connections of an agent share.
struct AgentShared<'a> {
    secret: &'a Secret,
    served: &'a Served,
    told: &'a (dyn Fn(String) + Sync),
    interrupted: &'a AtomicBool,
    /// One drives it.
    is_driven: AtomicBool,
    open: AtomicUsize,
    unknown: Mutex<Unknown>,
    turned_away: Mutex<TurnedAway>,
}

/// Connections that have not shown the secret yet, the oldest first.
#[derive(Debug, Default)]
struct Unknown {
    next: u64,
    since: VecDeque<(u64, Instant, TcpStream)>,
}

/// What was not told about connections that were turned away.
#[derive(Debug, Default)]
struct TurnedAway {
    told_at: Option<Instant>,
    untold: u64,
}

impl Agent {
    /// Listens.
    ///
    /// # Errors
    /// The address is not this machine's, or taken.
    pub fn bind(at: SocketAddr, secret: Secret) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(at).with_context(|| format!("listening at {at}"))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, secret })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// As the system says it.
    pub fn at(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is interrupted; what happens is told in lines.
    pub fn serve(&self, interrupted: &AtomicBool, served: &Served, told: &(dyn Fn(String) + Sync)) {
        let (is_driven, open) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (unknown, turned_away) = (Mutex::default(), Mutex::default());
        let shared =
            &AgentShared { secret: &self.secret, served, told, interrupted, is_driven, open, unknown, turned_away };
        std::thread::scope(|scope| {
            while !interrupted.load(Ordering::Relaxed) {
                if shared.open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
                    shared.make_room(Instant::now());
                    std::thread::sleep(LOOK);
                    continue;
                }
                match self.listener.accept() {
                    Ok((stream, from)) => {
                        shared.open.fetch_add(1, Ordering::Relaxed);
                        let named = std::thread::Builder::new().name("connection".to_owned());
                        let started = named.spawn_scoped(scope, move || {
                            shared.connection(stream, from);
                            shared.open.fetch_sub(1, Ordering::Relaxed);
                        });
                        if started.is_err() {
                            shared.open.fetch_sub(1, Ordering::Relaxed);
                            served.refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    // There is none, or one that was closed before; or there are no descriptors for it now.
                    Err(_) => std::thread::sleep(LOOK),
                }
            }
        });
    }
}

impl Unknown {
    fn add(&mut self, stream: &TcpStream) -> io::Result<u64> {
        self.next += 1;
        self.since.push_back((self.next, Instant::now(), stream.try_clone()?));
        Ok(self.next)
    }

    fn remove(&mut self, number: u64) {
        self.since.retain(|(of, ..)| *of != number);
    }

    /// Ends the one that has been unknown for longest, if it had its time.
    fn end_oldest(&mut self, now: Instant) {
        if self.since.front().is_some_and(|(_, since, _)| now.duration_since(*since) >= GRACE)
            && let Some((_, _, stream)) = self.since.pop_front()
        {
            // Its thread reads the end, and gives its place back. It may be closed already.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl TurnedAway {
    /// Whether a line is due now, and how many were not told before it.
    fn due(&mut self, now: Instant) -> Option<u64> {
        if self.told_at.is_some_and(|at| now.duration_since(at) < TOLD_EVERY) {
            self.untold += 1;
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

impl AgentShared<'_> {
    fn unknown(&self) -> MutexGuard<'_, Unknown> {
        self.unknown.lock().expect("its holders do not panic")
    }

    fn make_room(&self, now: Instant) {
        self.unknown().end_oldest(now);
    }

    fn refuse(&self, from: SocketAddr, why: &str) {
        self.served.refused.fetch_add(1, Ordering::Relaxed);
        let due = self.turned_away.lock().expect("its holders do not panic").due(Instant::now());
        match due {
            None => {}
            Some(0) => (self.told)(format!("{from} is turned away: {why}")),
            Some(untold) => (self.told)(format!("{from} is turned away: {why} ({untold} more since the last line)")),
        }
    }

    /// Takes part of the handshake that shows the secret; until then the connection is one of the unknown.
    fn open(&self, stream: TcpStream) -> Result<(Outgoing, Incoming), ChannelError> {
        keep_alive(&stream)?;
        let number = self.unknown().add(&stream)?;
        let opened = open(stream, ChannelSide::Agent, self.secret, self.interrupted);
        self.unknown().remove(number);
        opened
    }

    fn connection(&self, stream: TcpStream, from: SocketAddr) {
        let refuse = |why: &str| self.refuse(from, why);
        let opened = self.open(stream);
        let (mut out, incoming) = match opened {
            Ok(both) => both,
            Err(error) => return refuse(&error.to_string()),
        };
        if self.is_driven.swap(true, Ordering::Relaxed) {
            // It is told, if it still listens.
            let _ = out.send(&AgentReport::Busy);
            return refuse("another comparison drives this agent");
        }
        self.served.drivers.fetch_add(1, Ordering::Relaxed);
        (self.told)(format!("driven from {from}"));
        let ended = self.session(&mut out, incoming);
        self.is_driven.store(false, Ordering::Relaxed);
        (self.told)(format!("{from} has ended: {ended}"));
    }

    /// Does what one driver asks for; why it ended.
    fn session(&self, out: &mut Outgoing, incoming: Incoming) -> String {
        // One may wait while another one runs; nobody who follows the words sends more.
        let (asked, offers) = sync_channel(1);
        let gone = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let why = self.read(incoming, &asked);
                gone.store(true, Ordering::Relaxed);
                why
            });
            self.run_all(out, &offers, gone);
            // Ends the reader, who may wait for more.
            out.close();
            reader.join().expect("it does not panic")
        })
    }

    fn read(&self, mut incoming: Incoming, asked: &SyncSender<Offer>) -> String {
        loop {
            match incoming.next::<Offer>(None, self.interrupted).map(|offer| asked.try_send(offer).is_ok()) {
                Ok(true) => {}
                Ok(false) => return "it asks for more before it has its answer".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    }

    fn run_all(&self, out: &mut Outgoing, offers: &Receiver<Offer>, gone: &AtomicBool) {
        if out.send(&AgentReport::Ready).is_err() {
            return;
        }
        // Ends when the reader does.
        while let Ok(offer) = offers.recv() {
            let measured = run(&offer, gone, out);
            let count = if measured.is_ok() { &self.served.runs } else { &self.served.failed };
            count.fetch_add(1, Ordering::Relaxed);
            let report = match measured {
                Ok(measured) => AgentReport::Done(Box::new(measured)),
                Err(error) => AgentReport::Failed(format!("{error:#}")),
            };
            if out.send(&report).is_err() {
                return;
            }
        }
    }
}

/// One run.
fn run(offer: &Offer, gone: &AtomicBool, out: &mut Outgoing) -> anyhow::Result<Measured> {
    let format = offer.check()?;
    let &Offer { server, proto, flows, seed, arrivals, pace, window, .. } = offer;
    let profile = Profile::new(ProfileConfig::default(), seed)?;
    let wire = SocketWire::connect(KernelClient::new()?, proto, format, server.into(), flows)?;
    let mut generator = Generator::new(wire, flows, offer::plan(&profile, proto, pace));
    out.send(&AgentReport::Started)?;
    // If nobody listens any more, the reader says so soon.
    let on_edge = &mut |begins| drop(out.send(&AgentReport::Edge(begins)));
    let measured = generator.run(pace, window, (arrivals.unwrap_or(seed), "client"), gone, on_edge)?;
    ensure!(!gone.load(Ordering::Relaxed), "interrupted");
    Ok(measured)
}

/// Lets the kernel ask whether the driver is still there.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENT_MAX)?;
    sockopt::set_tcp_keepintvl(stream, SILENT_MAX / QUESTIONS)?;
    Ok(sockopt::set_tcp_keepcnt(stream, QUESTIONS)?)
}

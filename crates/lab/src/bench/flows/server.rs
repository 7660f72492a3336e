//! The server: answers each message, at once or after the time that its store takes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use napier_core::control::plan::Plan;
use napier_kv::serve::net::{Net, TOKEN_STOP, Watch};
use napier_kv::service::ServiceStream;

use super::wire::{Arrived, Head, Incoming, MessageShape, Outgoing, page};
use crate::roll_call::Ready;

/// The token of the socket that takes connections; those of connections count from 0.
const TOKEN_LISTENER: u64 = TOKEN_STOP - 1;

/// What a worker does with a request.
pub(super) enum Job {
    /// Requests and responses of so many bytes; answered at once.
    Echo { request: usize, response: usize },
    /// Reads and writes of a store, each answered after a time. As in a device, any number of them is in hand at once,
    /// and none costs CPU time.
    Store(ServiceStream),
}

struct Conn<S> {
    stream: S,
    incoming: Incoming,
    outgoing: Outgoing,
    /// What was asked for and is not answered.
    asked: Option<Head>,
    /// Watched for room to write.
    is_blocked: bool,
}

struct Worker<'a, N: Net> {
    net: N,
    job: &'a Job,
    conns: Vec<Option<Conn<N::Stream>>>,
    page: Vec<u8>,
    /// When the store is done with what a connection has asked for.
    due: BinaryHeap<Reverse<(Instant, usize)>>,
}

/// Serves until it is told to stop.
pub(super) fn serve<N: Net>(net: N, at: SocketAddr, plan: &Plan, job: &Job, ready: &Ready) -> io::Result<()> {
    let listener = net.listen(at, TOKEN_LISTENER)?;
    let mut worker = Worker { net, job, conns: Vec::new(), page: page(), due: BinaryHeap::new() };
    let longest = plan.wait().map(|span| Duration::from_nanos(span.ns));
    ready.say();
    let mut tokens = Vec::new();
    loop {
        let until_due = worker.due.peek().map(|Reverse((due, _))| due.saturating_duration_since(Instant::now()));
        tokens.clear();
        worker.net.wait([until_due, longest].into_iter().flatten().min(), &mut tokens)?;
        for &token in &tokens {
            match token {
                TOKEN_STOP => return Ok(()),
                TOKEN_LISTENER => worker.accept(&listener)?,
                token => worker.turn(usize::try_from(token).expect("an index"))?,
            }
        }
        worker.answer_due()?;
    }
}

impl<N: Net> Worker<'_, N> {
    fn accept(&mut self, listener: &N::Listener) -> io::Result<()> {
        while let Some(stream) = self.net.accept(listener)? {
            self.net.join(&stream, self.conns.len() as u64)?;
            let shape = match self.job {
                Job::Echo { request, .. } => MessageShape::Plain(*request),
                Job::Store(_) => MessageShape::Headed,
            };
            let (incoming, outgoing) = (Incoming::new(shape), Outgoing::default());
            self.conns.push(Some(Conn { stream, incoming, outgoing, asked: None, is_blocked: false }));
        }
        Ok(())
    }

    /// A connection has something to read, or room to write.
    fn turn(&mut self, at: usize) -> io::Result<()> {
        let Some(conn) = self.conns.get_mut(at).and_then(Option::as_mut) else { return Ok(()) };
        if conn.outgoing.waits() {
            return self.go_on(at);
        }
        match conn.incoming.read(&self.net, &conn.stream, &mut self.page) {
            Ok(Arrived::Part) => Ok(()),
            Ok(Arrived::Whole(_)) if conn.asked.is_some() => Err(out_of_turn()),
            Ok(Arrived::Whole(head)) => self.serve(at, head),
            // A client that goes takes its connection with it.
            Ok(Arrived::End) => {
                self.conns[at] = None;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.conns[at] = None;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn serve(&mut self, at: usize, head: Option<Head>) -> io::Result<()> {
        let conn = self.conns[at].as_mut().expect("it was read");
        match (self.job, head) {
            (Job::Echo { response, .. }, _) => {
                conn.outgoing = Outgoing::plain(*response);
                self.go_on(at)
            }
            (Job::Store(service), Some(head)) => {
                conn.asked = Some(head);
                let took = Duration::from_secs_f64(service.draw_ns() / 1e9);
                self.due.push(Reverse((Instant::now() + took, at)));
                Ok(())
            }
            (Job::Store(_), None) => unreachable!("messages to a store have heads"),
        }
    }

    /// Answers what the store is done with.
    fn answer_due(&mut self) -> io::Result<()> {
        while let Some(&Reverse((due, at))) = self.due.peek()
            && due <= Instant::now()
        {
            self.due.pop();
            // Its client may have gone.
            let Some(conn) = self.conns[at].as_mut() else { continue };
            let head = conn.asked.take().expect("it is due once");
            conn.outgoing = Outgoing::headed(head.answer());
            self.go_on(at)?;
        }
        Ok(())
    }

    /// Writes what a connection has to send, and has it watched for what it needs next.
    fn go_on(&mut self, at: usize) -> io::Result<()> {
        let conn = self.conns[at].as_mut().expect("it has something to send");
        let is_gone = |kind| matches!(kind, io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        let done = match conn.outgoing.write(&self.net, &conn.stream, &mut self.page) {
            Err(error) if is_gone(error.kind()) => {
                self.conns[at] = None;
                return Ok(());
            }
            done => done?,
        };
        if conn.is_blocked == done {
            conn.is_blocked = !done;
            let watch = if done { Watch::Read } else { Watch::Write };
            self.net.watch(&conn.stream, at as u64, watch)?;
        }
        Ok(())
    }
}

fn out_of_turn() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a request came before the one before it was answered")
}

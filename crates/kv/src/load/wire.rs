//! How a load generator's requests travel: what it needs of a way to the server, and sockets as one.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::codec::{Format, Reply, Request, read_datagram, read_reply};
use super::net::{ClientNet, Proto};
use super::plan::nanos;

/// Requests that are written for a connection but have no room, in bytes; no more are sent on it then.
const OUTBOX_BYTES_MAX: usize = 4 << 20;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Reads of one socket before another one has its turn.
const READS_PER_EVENT: usize = 64;

/// What came: a reply to this request of this flow; `None`: something that is no reply to anything.
pub type Came<'a> = Option<(usize, u16, Reply<'a>)>;

/// The way from the generator to the server and back, for a number of flows.
pub trait Wire {
    /// Time in ns; the same clock for all of a run.
    fn now_ns(&self) -> u64;

    /// Whether a flow takes another request now.
    #[inline]
    fn has_room(&self, _flow: usize) -> bool {
        true
    }

    /// Sends request `id` of a flow. A wire of datagrams may lose it.
    fn send(&mut self, flow: usize, id: u16, request: &Request<'_>);

    /// What was sent leaves now.
    ///
    /// # Errors
    /// A connection is broken.
    fn flush(&mut self) -> anyhow::Result<()>;

    /// Hands on what has come, with the time at which it was received. If there is nothing it waits, at most for
    /// `wait`; a wire that polls does not wait.
    ///
    /// # Errors
    /// A connection is broken, or what comes on it is no reply.
    fn receive(&mut self, wait: Duration, each: impl FnMut(u64, Came<'_>)) -> anyhow::Result<()>;
}

/// Sockets of a network, one per flow.
pub struct SocketWire<N: ClientNet> {
    net: N,
    proto: Proto,
    format: Format,
    connections: Vec<ClientConnection<N::Socket>>,
    /// Those that have something to send.
    dirty: Vec<usize>,
    clock: Instant,
    scratch: Box<[u8]>,
    ready: Vec<u64>,
}

struct ClientConnection<S> {
    socket: S,
    /// Numbers of the requests of a stream that are out, oldest first: replies come in this order.
    ids: VecDeque<u16>,
    /// The beginning of a reply.
    inbox: Vec<u8>,
    /// What was not sent yet, from `outbox_at`; the length goes before each datagram and is not sent.
    outbox: Vec<u8>,
    outbox_at: usize,
    is_dirty: bool,
}

impl<N: ClientNet> SocketWire<N> {
    /// Connects, once per flow.
    ///
    /// # Errors
    /// No program is at the address.
    pub fn connect(mut net: N, proto: Proto, format: Format, to: SocketAddr, flows: usize) -> anyhow::Result<Self> {
        let connections = (0..flows as u64)
            .map(|token| {
                Ok(ClientConnection {
                    socket: net.connect(proto, to, token)?,
                    ids: VecDeque::new(),
                    inbox: Vec::new(),
                    outbox: Vec::new(),
                    outbox_at: 0,
                    is_dirty: false,
                })
            })
            .collect::<io::Result<Vec<_>>>()
            .with_context(|| format!("connecting to {to} over {proto} (is a server running there?)"))?;
        let (scratch, ready) = (vec![0; READ_BYTES].into(), Vec::with_capacity(256));
        Ok(Self { net, proto, format, connections, dirty: Vec::new(), clock: Instant::now(), scratch, ready })
    }

    fn receive_on(&mut self, flow: usize, each: &mut impl FnMut(u64, Came<'_>)) -> anyhow::Result<()> {
        let format = self.format;
        for _ in 0..READS_PER_EVENT {
            let connection = &mut self.connections[flow];
            let bytes = match self.net.read(&connection.socket, &mut self.scratch) {
                Ok(0) if self.proto == Proto::Tcp => bail!("the server closed the connection"),
                Ok(bytes) => bytes,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(told(error, "receiving replies")),
                },
            };
            let now_ns = nanos(self.clock.elapsed());
            let input = &self.scratch[..bytes];
            match self.proto {
                Proto::Udp => {
                    each(now_ns, read_datagram(format, input).ok().map(|(id, reply)| (flow, id, reply)));
                    continue;
                }
                Proto::Tcp if connection.inbox.is_empty() => {
                    let used =
                        cut(&mut connection.ids, format, input, |id, reply| each(now_ns, Some((flow, id, reply))))?;
                    connection.inbox.extend_from_slice(&input[used..]);
                }
                Proto::Tcp => {
                    connection.inbox.extend_from_slice(input);
                    let ClientConnection { ids, inbox, .. } = connection;
                    let used = cut(ids, format, inbox, |id, reply| each(now_ns, Some((flow, id, reply))))?;
                    inbox.drain(..used);
                }
            }
            if bytes < self.scratch.len() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Cuts a stream into replies, each with the number of its request; returns the bytes that they took.
fn cut(
    ids: &mut VecDeque<u16>,
    format: Format,
    input: &[u8],
    mut each: impl FnMut(u16, Reply<'_>),
) -> anyhow::Result<usize> {
    let mut used = 0;
    while let Some((bytes, reply)) = read_reply(format, &input[used..])? {
        let id = ids.pop_front().context("the server sent a reply without a request")?;
        used += bytes;
        each(id, reply);
    }
    Ok(used)
}

impl<S> ClientConnection<S> {
    /// Sends what there is room for; whether that was all.
    fn flush<N: ClientNet<Socket = S>>(&mut self, net: &N, proto: Proto) -> anyhow::Result<bool> {
        while self.outbox_at < self.outbox.len() {
            let rest = &self.outbox[self.outbox_at..];
            let (skip, bytes) = match (proto, rest) {
                (Proto::Udp, [high, low, rest @ ..]) => (2, &rest[..usize::from(u16::from_be_bytes([*high, *low]))]),
                (_, rest) => (0, rest),
            };
            match net.write(&self.socket, bytes) {
                Ok(written) => self.outbox_at += skip + written,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(false),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(told(error, "sending requests")),
                },
            }
        }
        self.outbox.clear();
        self.outbox_at = 0;
        Ok(true)
    }
}

fn told(error: io::Error, doing: &'static str) -> anyhow::Error {
    // What an earlier datagram met.
    let is_refused = error.kind() == io::ErrorKind::ConnectionRefused;
    anyhow::Error::from(error).context(if is_refused { "no program listens at the server's port" } else { doing })
}

impl<N: ClientNet> Wire for SocketWire<N> {
    #[inline]
    fn now_ns(&self) -> u64 {
        nanos(self.clock.elapsed())
    }

    #[inline]
    fn has_room(&self, flow: usize) -> bool {
        self.connections[flow].outbox.len() < OUTBOX_BYTES_MAX
    }

    #[inline]
    fn send(&mut self, flow: usize, id: u16, request: &Request<'_>) {
        let ClientConnection { ids, outbox, is_dirty, .. } = &mut self.connections[flow];
        match self.proto {
            Proto::Tcp => {
                ids.push_back(id);
                request.write(self.format, outbox).expect("memory takes all of it");
            }
            Proto::Udp => {
                let start = outbox.len();
                outbox.extend_from_slice(&[0; 2]);
                request.write_datagram(self.format, id, outbox).expect("memory takes all of it");
                let bytes = outbox.len() - start - 2;
                let length = u16::try_from(bytes).expect("values of datagrams are checked with the options");
                outbox[start..start + 2].copy_from_slice(&length.to_be_bytes());
            }
        }
        if !std::mem::replace(is_dirty, true) {
            self.dirty.push(flow);
        }
    }

    #[inline]
    fn flush(&mut self) -> anyhow::Result<()> {
        let Self { net, proto, connections, dirty, .. } = self;
        let mut result = Ok(());
        // Those that find no room have their turn again with the next flush.
        dirty.retain(|flow| {
            let connection = &mut connections[*flow];
            connection.is_dirty = match connection.flush(net, *proto) {
                Ok(is_done) => !is_done,
                Err(error) => {
                    result = Err(error);
                    false
                }
            };
            connection.is_dirty
        });
        result
    }

    #[inline]
    fn receive(&mut self, wait: Duration, mut each: impl FnMut(u64, Came<'_>)) -> anyhow::Result<()> {
        for at in 0..self.net.pilots().len() {
            // Polls for others as well, of which the wait tells.
            self.receive_on(self.net.pilots()[at] as usize, &mut each)?;
        }
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        self.net.wait(wait, &mut ready)?;
        for token in &ready {
            self.receive_on(*token as usize, &mut each)?;
        }
        self.ready = ready;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_cut_out_of_a_stream_in_the_order_of_the_requests() {
        let stream = b"VALUE key 7 5\r\n\r\nEND\r\nEND\r\nSTORED\r\nEND\r\nSERVER_ERROR out of memory\r\n";
        let stream = &stream[..stream.len() - 1];
        let mut ids = VecDeque::from([9, 8, 7, 6]);
        let mut seen = Vec::new();
        let used = cut(&mut ids, Format::Ascii, stream, |id, reply| seen.push((id, reply == Reply::Stored))).unwrap();
        assert_eq!((seen, used), (vec![(9, false), (8, true), (7, false)], stream.len() - 27));
        assert!(cut(&mut VecDeque::new(), Format::Ascii, b"END\r\n", |_, _| ()).is_err(), "none was asked for");
        assert!(cut(&mut ids, Format::Ascii, b"VALUE\r\n", |_, _| ()).is_err(), "no reply");
    }
}

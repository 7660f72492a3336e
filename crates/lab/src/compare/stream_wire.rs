//! How the load generator's requests travel over TCP: a connection of the engine per flow.
//!
//! The workload's datagrams begin with the number of the request. A stream carries what comes behind it; replies come
//! in the order of the requests, so the numbers are kept here.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::{Context as _, bail};
use napier_runtime::{Engine, Event, EventContext, Interest, NetNs, SocketOption, TcpStream, Timeout};

use super::wire::{FlowOf, Wire};
use napier_kv::{DATAGRAM_BYTES_MAX, FRAME_HEADER_BYTES};

/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Each buffer of a connection, in bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// Requests of a connection that may be without an answer; more are not sent.
const WINDOW: usize = 1024;
/// Packets per poll.
const CLIENT_BUDGET: i32 = 64;
/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;

struct Connection {
    stream: TcpStream,
    /// Numbers of the requests that are out, oldest first.
    ids: VecDeque<u16>,
    /// Requests that had no room, from `outbox_at`.
    outbox: Vec<u8>,
    outbox_at: usize,
    /// The beginning of a reply.
    inbox: Vec<u8>,
    dirty: bool,
}

/// Connections to the server.
pub(crate) struct StreamWire {
    engine: Engine,
    connections: Vec<Connection>,
    context: EventContext,
    /// A flow of each NAPI instance: a receive on it polls for all others of the instance.
    pilots: Vec<usize>,
    dirty: Vec<usize>,
    room: Box<[u8; READ_BYTES]>,
    datagram: Box<[u8; DATAGRAM_BYTES_MAX]>,
}

impl StreamWire {
    /// Connects `flows` times. The device is to take its own interrupts until this is done.
    pub(crate) fn connect(engine: &Engine, netns: &NetNs, to: SocketAddrV4, flows: usize) -> anyhow::Result<Self> {
        let context = EventContext::new(engine);
        let mut connections = Vec::with_capacity(flows);
        let (mut pilots, mut instances) = (Vec::new(), Vec::new());
        for flow in 0..flows {
            let stream = TcpStream::builder()
                .nodelay(true)
                .connect_timeout(CONNECT_MAX)
                .rcvbuf(BUFFER_BYTES)
                .sndbuf(BUFFER_BYTES)
                .connect(netns, to.into())
                .with_context(|| format!("connecting to the server at {to}"))?;
            stream.set_nonblocking(true)?;
            // Closing resets: the server has nothing to wait for.
            stream.set_linger(Some(Duration::ZERO))?;
            stream.setsockopt(SocketOption::BusyPoll, 1)?;
            stream.setsockopt(SocketOption::PreferBusyPoll, 1)?;
            stream.setsockopt(SocketOption::BusyPollBudget, CLIENT_BUDGET)?;
            let instance = stream.getsockopt(SocketOption::IncomingNapiId)?;
            if !instances.contains(&instance) {
                instances.push(instance);
                pilots.push(flow);
            }
            context.add(&stream, Interest::IN, flow as u64)?;
            connections.push(Connection {
                stream,
                ids: VecDeque::with_capacity(WINDOW),
                outbox: Vec::new(),
                outbox_at: 0,
                inbox: Vec::new(),
                dirty: false,
            });
        }
        Ok(Self {
            engine: engine.clone(),
            connections,
            context,
            pilots,
            dirty: Vec::with_capacity(flows),
            room: Box::new([0; READ_BYTES]),
            datagram: Box::new([0; DATAGRAM_BYTES_MAX]),
        })
    }

    /// Takes what one connection has got and hands on the replies in it; true if there was something.
    fn receive_on(&mut self, flow: usize, each: &mut impl FnMut(FlowOf, &[u8], u64)) -> bool {
        let connection = &mut self.connections[flow];
        let mut any = false;
        loop {
            // An error is the end of the connection, and its requests are lost.
            let Ok(bytes @ 1..) = connection.stream.recv(&mut self.room[..]) else { return any };
            any = true;
            let now_ns = self.engine.now_ns();
            let fresh = &self.room[..bytes];
            let (held, used) = if connection.inbox.is_empty() {
                (false, hand_on(&mut connection.ids, (flow, now_ns), fresh, &mut self.datagram, each))
            } else {
                connection.inbox.extend_from_slice(fresh);
                let inbox = std::mem::take(&mut connection.inbox);
                let used = hand_on(&mut connection.ids, (flow, now_ns), &inbox, &mut self.datagram, each);
                connection.inbox = inbox;
                (true, used)
            };
            if held {
                connection.inbox.drain(..used);
            } else {
                connection.inbox.extend_from_slice(&fresh[used..]);
            }
            if bytes < READ_BYTES {
                return any;
            }
        }
    }
}

/// Cuts a stream into replies, which answer the requests in their order, and hands on the whole ones as datagrams;
/// returns the bytes that they took.
fn hand_on(
    ids: &mut VecDeque<u16>,
    (flow, now_ns): (usize, u64),
    stream: &[u8],
    datagram: &mut [u8; DATAGRAM_BYTES_MAX],
    each: &mut impl FnMut(FlowOf, &[u8], u64),
) -> usize {
    let mut used = 0;
    loop {
        let bytes = match reply_bytes(&stream[used..]) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return used,
            Err(_) => {
                // Counted as wrong, which ends the comparison.
                each(None, &[], now_ns);
                return stream.len();
            }
        };
        let whole = FRAME_HEADER_BYTES + bytes;
        let flow = ids.pop_front().map(|id| {
            datagram[..2].copy_from_slice(&id.to_be_bytes());
            flow
        });
        datagram[FRAME_HEADER_BYTES..whole].copy_from_slice(&stream[used..used + bytes]);
        each(flow, &datagram[..whole], now_ns);
        used += bytes;
    }
}

/// Longest first line of a reply: `VALUE`, a key, flags and a length.
const LINE_BYTES_MAX: usize = 300;
/// Longest reply.
const REPLY_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - FRAME_HEADER_BYTES;

/// Length of the reply at the start of `stream`; `None` if it is not all there.
fn reply_bytes(stream: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(end) = stream.windows(2).take(LINE_BYTES_MAX).position(|two| two == b"\r\n") else {
        if stream.len() > LINE_BYTES_MAX {
            bail!("a reply begins with a line that never ends");
        }
        return Ok(None);
    };
    let mut words = stream[..end].split(|byte| *byte == b' ');
    let bytes = match words.next() {
        Some(b"VALUE") => {
            let value_bytes = words.nth(2).and_then(|word| std::str::from_utf8(word).ok()?.parse::<usize>().ok());
            let value_bytes =
                value_bytes.filter(|bytes| *bytes <= REPLY_BYTES_MAX).context("a value without a length")?;
            end + 2 + value_bytes + b"\r\nEND\r\n".len()
        }
        _ => end + 2,
    };
    if bytes > REPLY_BYTES_MAX {
        bail!("a reply is longer than any value");
    }
    Ok((stream.len() >= bytes).then_some(bytes))
}

impl Wire for StreamWire {
    fn now_ns(&self) -> u64 {
        self.engine.now_ns()
    }

    #[inline]
    fn send(&mut self, flow: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let connection = &mut self.connections[flow];
        let bytes = write(&mut self.datagram[..]);
        if connection.ids.len() == WINDOW {
            // Lost on the way to a server that does not keep up.
            return;
        }
        connection.ids.push_back(u16::from_be_bytes([self.datagram[0], self.datagram[1]]));
        connection.outbox.extend_from_slice(&self.datagram[FRAME_HEADER_BYTES..bytes]);
        if !std::mem::replace(&mut connection.dirty, true) {
            self.dirty.push(flow);
        }
    }

    #[inline]
    fn flush(&mut self) {
        let connections = &mut self.connections;
        // Those that find no room have their turn again with the next flush.
        self.dirty.retain(|flow| {
            let connection = &mut connections[*flow];
            while connection.outbox_at < connection.outbox.len() {
                match connection.stream.send(&connection.outbox[connection.outbox_at..]) {
                    Ok(bytes) => connection.outbox_at += bytes,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                    // The end of the connection.
                    Err(_) => break,
                }
            }
            connection.outbox.clear();
            connection.outbox_at = 0;
            connection.dirty = false;
            false
        });
    }

    #[inline]
    fn receive(&mut self, mut each: impl FnMut(FlowOf, &[u8], u64)) {
        for pilot in 0..self.pilots.len() {
            // Polls the instance if the connection itself has nothing.
            self.receive_on(self.pilots[pilot], &mut each);
        }
        let mut events = [Event::default(); 64];
        let Ok(ready) = self.context.wait(&mut events, Timeout::Now) else { return };
        for event in &events[..ready] {
            if let Ok(flow) = usize::try_from(event.data) {
                self.receive_on(flow, &mut each);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_cut_out_of_a_stream_wherever_it_breaks() {
        let stream = b"VALUE key 7 5\r\n\r\nEND\r\nEND\r\nSTORED\r\nEND\r\nSERVER_ERROR out of memory\r\n";
        let lengths = [15 + 5 + 7, 8, 5, 28];
        assert_eq!(lengths.iter().sum::<usize>(), stream.len());
        let mut at = 0;
        for length in lengths {
            for part in 0..length {
                assert_eq!(reply_bytes(&stream[at..at + part]).unwrap(), None, "{part} of {length} bytes at {at}");
            }
            assert_eq!(reply_bytes(&stream[at..]).unwrap(), Some(length));
            at += length;
        }
        let mut ids = VecDeque::from([9, 8, 7]);
        let mut seen = Vec::new();
        let mut datagram = [0; DATAGRAM_BYTES_MAX];
        let used = hand_on(&mut ids, (3, 5), &stream[..stream.len() - 1], &mut datagram, &mut |flow, datagram, _| {
            seen.push((flow, u16::from_be_bytes([datagram[0], datagram[1]]), datagram.len() - FRAME_HEADER_BYTES));
        });
        assert_eq!(seen, [(Some(3), 9, 27), (Some(3), 8, 8), (Some(3), 7, 5)]);
        assert_eq!(used, stream.len() - 28);
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        for stream in [&b"VALUE key 7 9999999\r\n"[..], b"VALUE key\r\n", &[b'x'; 400][..]] {
            assert!(reply_bytes(stream).is_err(), "{stream:?}");
        }
        let mut wrong = 0;
        let mut count = |flow: FlowOf, _: &[u8], _| wrong += usize::from(flow.is_none());
        let mut datagram = [0; DATAGRAM_BYTES_MAX];
        let used = hand_on(&mut VecDeque::new(), (0, 0), b"VALUE\r\n", &mut datagram, &mut count);
        let unasked = hand_on(&mut VecDeque::new(), (0, 0), b"END\r\n", &mut datagram, &mut count);
        assert_eq!((wrong, used, unasked), (2, 7, 5));
    }
}

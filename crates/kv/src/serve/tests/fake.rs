//! A network in memory that plays a script: what a worker does with it needs no socket and no time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use napier_runtime::control::plan::Plan;

use crate::serve::net::{EVENTS_MAX, Net, TOKEN_STOP, Watch};

/// What happens before a wait returns.
pub(super) type Scene = Box<dyn FnMut(&mut World)>;

/// Everything that there is of the network.
#[derive(Default)]
pub(super) struct World {
    scenes: VecDeque<Scene>,
    /// What the next accepts give: a stream's number, or the kernel's error.
    pub(super) arriving: VecDeque<Result<usize, i32>>,
    pub(super) streams: Vec<Wire>,
    /// Whose client is where it was sent does not matter: all that are watched are told of it.
    listeners: Vec<(u64, bool)>,
    /// How many of the next changes to what listeners are watched for succeed; none fails if it is `None`.
    pub(super) changes_left: Option<usize>,
    /// Accepts that found nothing to give.
    pub(super) accepts: usize,
    pub(super) accept_errors: usize,
    /// The place to wait takes no more streams.
    pub(super) is_full: bool,
    pub(super) timeouts: Vec<Option<Duration>>,
}

/// One connection, as its client sees it.
#[derive(Default)]
pub(super) struct Wire {
    /// What the server has not read.
    pub(super) sent: VecDeque<u8>,
    /// What the server has answered.
    pub(super) answered: Vec<u8>,
    /// Bytes that the server may still write.
    pub(super) room: usize,
    pub(super) dropped: bool,
    watch: Option<(u64, Watch)>,
}

#[derive(Clone)]
pub(super) struct FakeNet(pub(super) Rc<RefCell<World>>);

pub(super) struct FakeStream(FakeNet, usize);

impl Drop for FakeStream {
    fn drop(&mut self) {
        let wire = &mut self.0.0.borrow_mut().streams[self.1];
        (wire.dropped, wire.watch) = (true, None);
    }
}

impl FakeNet {
    pub(super) fn new(scenes: Vec<Scene>) -> Self {
        Self(Rc::new(RefCell::new(World { scenes: scenes.into(), ..World::default() })))
    }
}

impl World {
    /// A client that connects and takes so many bytes of answers.
    pub(super) fn connect(&mut self, room: usize) -> usize {
        self.streams.push(Wire { room, ..Wire::default() });
        self.arriving.push_back(Ok(self.streams.len() - 1));
        self.streams.len() - 1
    }

    pub(super) fn send(&mut self, stream: usize, bytes: &[u8]) {
        self.streams[stream].sent.extend(bytes);
    }

    /// Tokens of the listeners that are watched.
    pub(super) fn watched_listeners(&self) -> impl Iterator<Item = u64> {
        self.listeners.iter().filter(|(_, is_watched)| *is_watched).map(|(token, _)| *token)
    }

    fn ready(&self, ready: &mut Vec<u64>) {
        if !self.arriving.is_empty() {
            ready.extend(self.watched_listeners());
        }
        for wire in &self.streams {
            match wire.watch {
                Some((token, Watch::Read)) if !wire.sent.is_empty() => ready.push(token),
                Some((token, Watch::Write)) if wire.room > 0 => ready.push(token),
                _ => {}
            }
        }
        ready.truncate(EVENTS_MAX);
    }
}

fn would_block() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}

impl Net for FakeNet {
    type Listener = ();
    type Stream = FakeStream;
    type Datagrams = ();

    fn listen(&self, _: SocketAddr, token: u64) -> io::Result<()> {
        self.0.borrow_mut().listeners.push((token, true));
        Ok(())
    }

    fn bind(&self, _: SocketAddr, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn bind_blocking(&self, _: SocketAddr, _: &Plan) -> io::Result<()> {
        Ok(())
    }

    fn accept(&self, (): &()) -> io::Result<Option<FakeStream>> {
        let mut world = self.0.borrow_mut();
        world.accepts += 1;
        match world.arriving.front().copied() {
            None => Ok(None),
            Some(Err(errno)) => {
                world.accept_errors += 1;
                Err(io::Error::from_raw_os_error(errno))
            }
            Some(Ok(stream)) => {
                world.arriving.pop_front();
                Ok(Some(FakeStream(self.clone(), stream)))
            }
        }
    }

    fn join(&self, stream: &FakeStream, token: u64) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        if world.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        world.streams[stream.1].watch = Some((token, Watch::Read));
        Ok(())
    }

    fn watch_listener(&self, (): &(), token: u64, is_watched: bool) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        match &mut world.changes_left {
            Some(0) => return Err(io::ErrorKind::OutOfMemory.into()),
            Some(left) => *left -= 1,
            None => {}
        }
        let listener = world.listeners.iter_mut().find(|(own, _)| *own == token).expect("it listens");
        listener.1 = is_watched;
        Ok(())
    }

    fn stream_bytes(&self) -> usize {
        0
    }

    fn watch(&self, stream: &FakeStream, token: u64, watch: Watch) -> io::Result<()> {
        self.0.borrow_mut().streams[stream.1].watch = Some((token, watch));
        Ok(())
    }

    fn read(&self, stream: &FakeStream, room: &mut [u8]) -> io::Result<usize> {
        let wire = &mut self.0.borrow_mut().streams[stream.1];
        let bytes = room.len().min(wire.sent.len());
        if bytes == 0 {
            return Err(would_block());
        }
        for (place, byte) in room.iter_mut().zip(wire.sent.drain(..bytes)) {
            *place = byte;
        }
        Ok(bytes)
    }

    fn write(&self, stream: &FakeStream, bytes: &[u8]) -> io::Result<usize> {
        let wire = &mut self.0.borrow_mut().streams[stream.1];
        let bytes = &bytes[..bytes.len().min(wire.room)];
        if bytes.is_empty() {
            return Err(would_block());
        }
        wire.room -= bytes.len();
        wire.answered.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn receive(&self, (): &(), _: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        Err(would_block())
    }

    fn send(&self, (): &(), _: &[u8], _: SocketAddr) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<u64>) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        world.timeouts.push(timeout);
        match world.scenes.pop_front() {
            Some(mut scene) => scene(&mut world),
            None => ready.push(TOKEN_STOP),
        }
        world.ready(ready);
        Ok(())
    }
}

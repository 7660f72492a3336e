//! How a connection is closed by its last handle, and for how long that waits.

use std::io;
use std::time::Duration;

use napier_core::time::{Deadline, Span};
use napier_sys::clock::Clock;

use crate::tcp::TcpStream;
use crate::tcp::settings::span_ns;

impl TcpStream {
    /// `SO_LINGER`: with zero, closing resets the connection and what was not sent is lost; with a time, closing waits until the peer has
    /// acknowledged everything and the end, or that time is over, also in non-blocking mode; `None`: closing returns at once (the
    /// default). In the last two cases what was not sent is sent. A thread that must not wait, as one of an asynchronous runtime, sets no time.
    ///
    /// # Errors
    /// None today.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        let mut core = self.conn.own(&self.tcp);
        core.reset_on_close = linger == Some(Duration::ZERO);
        core.linger = linger.map_or(Span::ZERO, |time| Span { ns: span_ns(time) });
        Ok(())
    }
}

impl Drop for TcpStream {
    /// Source: `net/ipv4/tcp.c __tcp_close`, `net/core/stream.c sk_stream_wait_close`.
    fn drop(&mut self) {
        let Some(linger) = self.conn.close(&self.tcp).filter(|_| !std::thread::panicking()) else { return };
        let deadline = Deadline::after(Clock.now(), linger);
        let host = &*self.tcp.tables.host;
        // What the time was too short for goes on by itself.
        let _ = self.conn.writer.wait_in(host, || !self.conn.is_lingering(), deadline, &Clock);
    }
}

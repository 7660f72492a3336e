//! What an event context sees of a socket.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::UdpInner;
use super::socket::UdpSocket;
use super::stop::STOPPED;
use crate::event::{Interest, Source, Watchable, Watched};

impl Watchable for UdpSocket {
    fn watched(&self) -> Arc<dyn Watched> {
        self.inner().clone()
    }
}

impl Watched for UdpInner {
    fn source(&self) -> &Source {
        &self.source
    }

    fn ready(&self) -> Interest {
        let ready = if self.has_data() { Interest::IN } else { Interest::NONE };
        let ready = if self.send_buffer.is_writable() { ready | Interest::OUT } else { ready };
        let ready = if self.is_told() { ready | Interest::ERR } else { ready };
        if self.is_stopped() { ready | STOPPED } else { ready }
    }

    fn napi_id(&self) -> u32 {
        // Relaxed: the id is a hint that orders nothing.
        self.napi_id.load(Ordering::Relaxed)
    }
}

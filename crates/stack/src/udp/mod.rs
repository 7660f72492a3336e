//! UDP: sockets, their queues, and how datagrams come and go.
//!
//! # Files
//! `socket` is the public type, `builder` what is known before it is bound; `queue` is its shared half with the receive side,
//! `deliver` how a poll fills it, `waiting` how a program waits for it and `recv` what it gets (`taken`: in place); `send` is the transmit side, over the
//! `paths` that a socket remembers, bounded by what is on its way (`sndbuf`), `long` what is cut into fragments, `segments` what is cut into datagrams; `wishes` say what it wants of its
//! packets, `settings` and `options` set that and more; `notify` is what it is told, `errors` what
//! became of its datagrams.

mod builder;
pub(crate) mod deliver;
mod errors;
mod long;
mod notify;
mod options;
mod paths;
pub(crate) mod queue;
mod recv;
mod segments;
mod send;
mod settings;
mod sndbuf;
mod socket;
mod taken;
mod waiting;
pub(crate) mod wishes;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use napier_core::icmp::{Error as IcmpError, Told, lowered};
use napier_sys::clock::Clock;

pub use builder::UdpSocketBuilder;
pub use errors::SentError;
pub use recv::{MergedDatagram, RecvMeta};
pub use settings::SendMeta;
pub use sndbuf::{OVERHEAD_BYTES, SendBuffers};
pub use socket::UdpSocket;

use crate::tables::demux::{Demux, Tuple};
use crate::tables::path::{Destination, route};
use crate::tables::path_mtu::PathMtu;
use crate::tables::protocol::Protocol;
use crate::tables::published::CurrentMoment;
use crate::tables::{Snapshot, Tables};
use crate::wire::PROTO_UDP;
use crate::wire::quote::{About, Quoted};
use queue::UdpInner;

/// The UDP sockets of one name space.
pub(crate) struct Udp {
    pub(crate) tables: Arc<Tables>,
    /// The sockets, beside the devices.
    pub(crate) published: CurrentMoment<Demux<UdpInner>>,
    pub(crate) send_buffers: Arc<SendBuffers>,
}

impl Udp {
    pub(crate) fn new(tables: Arc<Tables>) -> Arc<Self> {
        let published = CurrentMoment::new(Demux::new(tables.seed));
        let udp = Arc::new(Self { published, send_buffers: SendBuffers::new(), tables });
        let protocol: std::sync::Weak<Self> = Arc::downgrade(&udp);
        udp.tables.add_protocol(&udp.tables.lock(), protocol);
        udp
    }

    /// See [`UdpSocketBuilder::bind`].
    pub(crate) fn bind(self: &Arc<Self>, builder: UdpSocketBuilder, addr: SocketAddr) -> io::Result<UdpSocket> {
        let (local, family) = builder.binding.place(addr)?;
        let tables = &self.tables;
        let writer = &mut tables.lock();
        let UdpSocketBuilder { binding, rcvbuf_bytes } = builder;
        let (local, busy) = binding.claim(tables, writer, PROTO_UDP, local)?;
        let (frames, counters) = (tables.frames.clone(), tables.counters.clone());
        let send_buffer = self.send_buffers.open();
        let socket = Arc::new(UdpInner::new(frames, counters, binding.reuse, (local, family), busy, send_buffer));
        let sender: std::sync::Weak<UdpInner> = Arc::downgrade(&socket);
        socket.send_buffer.belongs_to(sender);
        socket.nonblocking.set(binding.nonblocking);
        if let Some(bytes) = rcvbuf_bytes {
            socket.ask_rcvbuf(bytes);
        }
        let tuple = Tuple { local, peer: None };
        self.published.edit(writer, |sockets| sockets.insert(tuple, &socket, binding.reuse));
        Ok(UdpSocket::from_parts(socket, self.clone()))
    }
}

impl Protocol for Udp {
    fn number(&self) -> u8 {
        PROTO_UDP
    }

    #[cold]
    fn hear(&self, snapshot: &Snapshot, about: About, quoted: &Quoted) -> bool {
        let moment = self.published.load();
        let Some(socket) = moment.sockets.find(quoted.to, quoted.from, 0) else { return false };
        match about {
            About::Error(told) => socket.told(told, quoted, 0),
            About::TooBig(mtu) => {
                let dst = quoted.to.addr;
                let Ok(way) = route(snapshot, Destination { dst: quoted.to, scope: 0 }) else { return true };
                let (now, _) = snapshot.path_mtu(dst, way.interface.mtu);
                let now = u32::try_from(now).unwrap_or(u32::MAX);
                if let Some(bytes) = lowered(dst.is_v4(), mtu, quoted.packet_bytes, now) {
                    self.tables.lower_path(dst, PathMtu::learnt(bytes, Clock.now()));
                }
                if socket.wishes.get().discovery.hears_too_big() {
                    socket.told(Told { error: IcmpError::TooBig, hard: true }, quoted, mtu);
                }
            }
        }
        true
    }

    fn engine_stopped(&self) {
        self.published.load().sockets.each(|socket| socket.engine_stopped());
    }
}

//! How sockets are opened, by what their builders say.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use napier_core::family::SocketFamily;

use super::Tcp;
use super::accept::TcpListener;
use super::builder::{TcpListenerBuilder, TcpStreamBuilder};
use super::connect::connect;
use super::listener::ListenerInner;
use super::stream::TcpStream;
use crate::tables::demux::Tuple;
use crate::tables::path::Destination;
use crate::wire::PROTO_TCP;
use crate::wire::addr::End;

impl Tcp {
    /// See [`TcpListenerBuilder::bind`].
    pub(crate) fn listen(self: &Arc<Self>, builder: TcpListenerBuilder, at: SocketAddr) -> io::Result<TcpListener> {
        let TcpListenerBuilder { binding, limits } = builder;
        let (local, family) = binding.place(at)?;
        let writer = &mut self.tables.lock();
        let (local, busy) = binding.claim(&self.tables, writer, PROTO_TCP, local)?;
        let listener = Arc::new(ListenerInner::new((local, family), binding.reuse, limits, &busy));
        listener.nonblocking.set(binding.nonblocking);
        let tuple = Tuple { local, peer: None };
        self.edit_listeners(writer, |listeners| listeners.insert(tuple, &listener, binding.reuse));
        Ok(TcpListener::from_parts(listener, self.clone()))
    }

    /// See [`TcpStreamBuilder::connect`].
    pub(crate) fn connect(
        self: &Arc<Self>,
        builder: TcpStreamBuilder,
        ends: (Option<End>, Destination, SocketFamily),
    ) -> io::Result<TcpStream> {
        let TcpStreamBuilder { nonblocking, nodelay, timeout, settings, .. } = builder;
        let (local, target, family) = ends;
        let conn = connect(self, local, target, nodelay, &settings)?;
        let stream = TcpStream::from_parts(conn, family, self.clone());
        stream.set_nonblocking(nonblocking)?;
        if !nonblocking {
            stream.finish_connect(timeout)?;
        }
        Ok(stream)
    }
}

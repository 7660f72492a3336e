//! Where server and generator are, and what their threads are called.

use std::net::SocketAddrV4;

use crate::pair::TESTED_IP;

/// Where the server listens.
pub const SERVER: SocketAddrV4 = SocketAddrV4::new(TESTED_IP, 11_211);
/// Port of the first flow.
pub const CLIENT_PORT: u16 = 20_000;

/// What the names of the server's threads begin with.
pub(crate) const WORKER_THREADS: &str = "kv/";

/// Name of the generator's thread, whose time is not the server's.
pub(crate) const CLIENT_THREAD: &str = "client";

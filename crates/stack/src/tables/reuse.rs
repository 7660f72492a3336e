//! SO_REUSEPORT.

/// Whether and how several sockets share one address and port (SO_REUSEPORT).
///
/// All sockets of a place must have asked for the same. A datagram goes to one of them.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ReusePort {
    /// The socket wants its place for itself.
    #[default]
    No,
    /// A flow always goes to the same socket, chosen by a hash of its addresses and ports.
    Hash,
    /// All that one NAPI instance receives goes to one socket: to the one whose recorded id (`SO_INCOMING_NAPI_ID`) is
    /// the instance's, else to the first that has none yet, else as by hash. With as many sockets as instances, each
    /// thread that reads one of them busy polls an instance of its own.
    ByNapi,
}

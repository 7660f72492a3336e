//! What one program may have at a time, so that it cannot take the engine's memory, descriptors or threads from others. Each refusal is counted under
//! the name that stands here ([`DoorCounts::over`](crate::DoorCounts::over)).

use napier_linux::process::Notifier;

/// Programs that may be served at a time; more are refused before they begin.
pub const PROGRAMS_MAX: usize = 64;
/// Sockets of one program, connections that it has accepted among them. `socket` and `accept` get `ENFILE` beyond that.
pub const SOCKETS_MAX: usize = 4096;
/// Calls of one program that wait for their answer: `accept`, `connect` and `sendto` that block get `ENOBUFS` beyond that.
pub const HELD_MAX: usize = Notifier::KEPT_MAX;
/// Connections of one program that wait to be accepted, at all its listeners. Beyond that they wait in the engine, and when its backlog is full too
/// their SYNs are not answered, as by the kernel (`net/ipv4/tcp_input.c tcp_conn_request`).
pub const WAITING_MAX: usize = 4096;
/// Of those, as many are taken for each listener even then.
pub(crate) const WAITING_OF_ONE: usize = 16;
/// Bytes that are left over in the door, of all connections of one program together. Beyond that they go through it in pieces of
/// `PIECE_BYTES`: slower, and none has to wait for another one's peer.
pub const BYTES_MAX: usize = 64 << 20;
/// See [`BYTES_MAX`].
pub(crate) const PIECE_BYTES: usize = 1 << 10;
/// Processes of one program that have rings: 4 MiB of memory each if they use all of them. Others use their pairs.
pub(crate) const RINGS_MAX: usize = 16;

/// Names of limits, with what they are.
pub(crate) const SOCKETS: &str = "sockets (4096)";
pub(crate) const HELD: &str = "calls that wait (256, or 16 of one socket)";
pub(crate) const WAITING: &str = "connections that wait (4096)";
pub(crate) const BYTES: &str = "bytes in the door (64 MiB)";
pub(crate) const DESCRIPTORS: &str = "descriptors and memory of the engine";
pub(crate) const RINGS: &str = "processes with rings (16)";
pub(crate) const WATCHED: &str = "sockets that are watched";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_the_limits_are() {
        assert_eq!(SOCKETS, format!("sockets ({SOCKETS_MAX})"));
        assert_eq!(HELD, format!("calls that wait ({HELD_MAX}, or 16 of one socket)"));
        assert_eq!(WAITING, format!("connections that wait ({WAITING_MAX})"));
        assert_eq!(RINGS, format!("processes with rings ({RINGS_MAX})"));
        assert_eq!(BYTES, format!("bytes in the door ({} MiB)", BYTES_MAX >> 20));
    }
}

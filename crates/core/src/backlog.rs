//! What is left for a socket that a program owns: how much may wait, and what a context does that must not.
//!
//! Source: `include/net/sock.h` (`sk_add_backlog`, `sock_owned_by_user`), `net/ipv4/tcp_ipv4.c` (`tcp_v4_rcv`,
//! `tcp_add_backlog`), `net/ipv4/tcp_timer.c` (`tcp_write_timer`).
//!
//! | what comes | the socket is free | a program owns it |
//! |---|---|---|
//! | a segment | is taken at once | waits, if what waits already leaves room; else it is dropped and counted |
//! | a timer | runs at once | leaves a note; the owner runs it if it is still wanted |
//! | room in the transmit queue | what is stuck leaves | leaves a note |
//!
//! The owner works off what was left, in the order in which it came, before it lets go. It forgets the weight of what
//! it worked off only then: so what one owner works off is bounded, however fast a peer sends.

/// Bytes that a segment weighs beside its own: its copy's header and place.
pub const SEGMENT_OVERHEAD_BYTES: u64 = 128;

/// Most bytes that may wait for a socket with buffers of these sizes.
///
/// Source: `net/ipv4/tcp_ipv4.c tcp_add_backlog`: twice the receive buffer, half of the send buffer (acknowledgements
/// that come in bursts), 64 KiB.
#[must_use]
pub const fn bytes_max(receive_bytes: u64, send_bytes: u64) -> u64 {
    let both = receive_bytes.saturating_mul(2).saturating_add(send_bytes / 2);
    let all = both.saturating_add(64 << 10);
    if all >> u32::BITS == 0 { all } else { u32::MAX as u64 }
}

/// What a segment of `len` bytes weighs while it waits.
#[must_use]
pub const fn weight_bytes(len: usize) -> u64 {
    len as u64 + SEGMENT_OVERHEAD_BYTES
}

#[cfg(test)]
#[path = "backlog_tests.rs"]
mod tests;

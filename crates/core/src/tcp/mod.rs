//! The rules of TCP, each a small machine: what follows from a segment, an acknowledgement or a timer.
//!
//! | module | rule | source |
//! |---|---|---|
//! | [`seq`] | numbers modulo 2^32 | RFC 9293 section 3.4 |
//! | [`options`] | options of a header, read and written | RFC 9293 section 3.1, RFC 7323, RFC 2018 |
//! | [`rtt`] | round trips and the retransmission time-out | RFC 6298, `net/ipv4/tcp_input.c tcp_rtt_estimator` |
//! | [`ranges`] | what came out of order, and the blocks that say so | RFC 2018, RFC 2883 |
//! | [`sent`] | what is under way, segment by segment | RFC 6675, RFC 8985 section 5.2 |
//! | [`rack`] | which of it is lost, by time | RFC 8985 |
//! | [`recovery`] | what a loss does to the window, and how that is taken back | RFC 9937, RFC 5681, RFC 3522, RFC 3708 |
//! | [`congestion`] | the window: none, Reno, CUBIC | RFC 5681, RFC 9438, RFC 9406 |
//! | [`acks`] | when an acknowledgement waits | RFC 9293 section 3.8.6.3, RFC 5681 section 4.2 |
//! | [`memory`] | how much all buffers have together, and what one gets that wants more | `__sk_mem_raise_allocated` |
//! | [`time_wait`] | how long the end of a connection is waited for, and what may take its place before | RFC 9293 section 3.6.1, RFC 6191, `tcp_twsk_unique` |
//! | [`space`] | how much room a peer is offered, and what is kept for sending | RFC 9293 section 3.8.6.2.2, `tcp_rcv_space_adjust`, `tcp_sndbuf_expand` |
//!
//! A connection that is made of them is `napier-stack`'s. Windows and amounts are bytes; sequence numbers are [`seq::Seq`].

pub mod acks;
pub mod congestion;
pub mod memory;
pub mod options;
pub mod rack;
pub mod ranges;
pub mod recovery;
pub mod rtt;
mod runs;
pub mod sent;
pub mod seq;
pub mod space;
pub mod time_wait;

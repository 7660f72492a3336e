//! The NAPI rules as pure functions: what to do next, and nothing else.
//!
//! Linux delivers packets through a small machine: one state word per NAPI instance, a completion rule that decides
//! between unmasking and deferring, a softirq run with a budget and a time limit, a busy loop, and the rules by which
//! epoll suspends and resumes interrupts. This crate holds that machine as values. A function is given the state and
//! what happened, and returns the new state and what to do; it reads no clock, does no I/O and starts no thread.
//!
//! | module | rule | kernel counterpart (Linux 7.3) |
//! |---|---|---|
//! | [`state`] | the state word and its transitions | `include/linux/netdevice.h NAPI_STATE_*`, `net/core/dev.c` |
//! | [`completion`] | release, defer or refuse | `net/core/dev.c napi_complete_done` |
//! | [`poll`] | after one poll in softirq or kthread | `net/core/dev.c __napi_poll` |
//! | [`softirq`] | one receive run and the softirq core's loop | `net/core/dev.c net_rx_action`, `kernel/softirq.c handle_softirqs` |
//! | [`busy`] | the busy loop and its stop | `net/core/dev.c __napi_busy_loop`, `busy_poll_stop` |
//! | [`frames`] | UDP datagrams as frames | RFC 768, RFC 791 |
//! | [`gro`] | held packets, batches, flush | `net/core/gro.c`, `include/net/gro.h` |
//! | [`group`] | CPUs that poll queues for ever: policy, hand-over, parking | none |
//! | [`event`] | epoll: busy polling, suspend, resume, the wait | `fs/eventpoll.c ep_poll`, `ep_busy_loop` |
//! | [`select`] | poll and select: scans, busy polling, the sleep | `fs/select.c do_poll`, `net/socket.c sock_poll` |
//! | [`backlog`] | what waits while a program owns a socket | `include/net/sock.h sk_add_backlog`, `net/ipv4/tcp_ipv4.c tcp_add_backlog` |
//! | [`family`] | sockets of both families: who hears, who is reached, who is in the way | `net/ipv4/inet_connection_sock.c`, `net/ipv6/udp.c` |
//! | [`fragments`] | IP packets that are cut and put together | `net/ipv4/ip_fragment.c`, `net/ipv4/inet_fragment.c`; RFC 815, RFC 5722 |
//! | [`icmp`] | errors that other stations send, path MTU | `net/ipv4/icmp.c icmp_err_convert`, `net/ipv4/route.c`; RFC 1191, RFC 8201, RFC 4821 |
//! | [`neighbour`] | what is believed of a neighbour, and for how long | `net/core/neighbour.c`, `net/ipv4/arp.c`, `net/ipv6/ndisc.c` |
//! | [`tcp`] | a TCP connection, rule by rule | `net/ipv4/tcp_input.c`, `net/ipv4/tcp_output.c`; RFC 9293, RFC 8985, RFC 9438 |
//! | [`sockopt`] | socket options and the recorded id | `net/core/sock.c`, `include/net/busy_poll.h` |
//! | [`context`] | who polls, and counters by who did | none |
//! | [`mod@counters`] | figures that threads add to while others read them | none |
//! | [`control`] | napi-get, napi-set, queue-get, device settings | `net/core/netdev-genl.c`, `net/core/net-sysfs.c` |
//! | [`config`] | what survives down and up | `include/linux/netdevice.h struct napi_config` |
//! | [`histogram`] | counts of values by size | none |
//! | [`ids`] | NAPI ids | `net/core/dev.c napi_hash_add` |
//! | [`rss`] | which queue a flow goes to | the published RSS hash |
//! | [`memif`] | links to another process: messages, handshake, times | none; the memif 2.0 protocol |
//! | [`metric`] | names, units and labels of figures | none; the naming conventions of Prometheus |
//! | [`moderation`] | interrupt coalescing | `ethtool -C` rx-usecs, rx-frames |
//! | [`tx`] | transmit: defer list, queueing disciplines, runs, byte limits | `net/core/dev.c __dev_xmit_skb`, `net/sched/sch_generic.c` |
//! | [`serving`] | who serves a softirq CPU, and what is done when its thread gets no processor | none |
//! | [`waking`] | when a poll calls who sleeps for what it delivered | `net/core/dev.c napi_threaded_poll_loop`, `__napi_busy_loop`: softirqs are off |
//! | [`upkeep`] | slack of timers; looks at stopped transmit queues | none |
//! | [`time`] | integer time | |
//!
//! # Who may touch what
//!
//! The state word may be changed by any thread, each time by one transition of [`state::State`] applied with one
//! compare-and-swap loop (`busy_acquire`: one single attempt). Everything else that belongs to an instance (the
//! deferral counter, the held frames, the poll-list link) belongs to the **owner**: the context that set `SCHED`. The order at a
//! release is always the same: decide ([`completion::complete`]), flush, unlink, release the word
//! ([`state::State::complete_release`]), and only then arm the timer or unmask
//! ([`completion::Release::finish`]). A timer that is armed before the release could fire, find the instance owned and
//! be lost.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod backlog;
mod bits;
pub mod busy;
pub mod completion;
pub mod config;
pub mod context;
pub mod control;
pub mod counters;
mod errno;
pub mod event;
pub mod family;
pub mod fragments;
pub mod frames;
pub mod gro;
pub mod group;
pub mod histogram;
pub mod icmp;
pub mod ids;
#[cfg(feature = "std")]
mod io_error;
pub mod memif;
pub mod metric;
pub mod moderation;
pub mod neighbour;
pub mod poll;
pub mod rss;
pub mod select;
pub mod serving;
pub mod sockopt;
pub mod softirq;
pub mod state;
pub mod tcp;
pub mod time;
pub mod tx;
pub mod upkeep;
pub mod waking;

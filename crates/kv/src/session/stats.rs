//! What a server says of itself, in memcached's names.

use super::SessionCall;
use super::line::ERROR;

/// The version that clients are told: those of libmemcached read the first three numbers and expect them to be of a
/// memcached.
pub(super) const VERSION: &str = concat!("1.6.18-napier-", env!("CARGO_PKG_VERSION"));
/// The version of Redis whose answers RESP has.
pub(super) const REDIS_VERSION: &str = "7.0.0";

/// Answers `stats [what]`; returns what ends the answer.
pub(super) fn ascii(call: &mut SessionCall<'_, '_>, words: &[&[u8]]) -> &'static [u8] {
    match words[1..] {
        [] => {
            for (name, value) in general(call) {
                call.out.extend_from_slice(format!("STAT {name} {value}\r\n").as_bytes());
            }
            b"END\r\n"
        }
        [b"reset"] => b"RESET\r\n",
        // Parts of memcached that are not here have nothing to say.
        [b"settings" | b"items" | b"slabs" | b"sizes" | b"conns" | b"extstore"] => b"END\r\n",
        _ => ERROR,
    }
}

/// Names and values.
pub(super) fn general(call: &SessionCall<'_, '_>) -> Vec<(&'static str, String)> {
    let server = call.turn.server;
    let (totals, store) = (server.totals(), server.store_stats());
    let now_ms = call.turn.now_ms;
    vec![
        ("pid", std::process::id().to_string()),
        ("uptime", (now_ms.saturating_sub(server.started_ms()) / 1000).to_string()),
        ("time", (now_ms / 1000).to_string()),
        ("version", VERSION.to_owned()),
        ("pointer_size", usize::BITS.to_string()),
        ("max_connections", server.connections_max().to_string()),
        ("curr_connections", server.connections_now().to_string()),
        ("total_connections", totals.connections.to_string()),
        ("rejected_connections", (totals.connections_refused + totals.connections_refused_memory).to_string()),
        ("listen_disabled_num", totals.accepts_paused.to_string()),
        ("idle_kicks", totals.connections_idle.to_string()),
        ("read_buf_oom", totals.requests_out_of_memory.to_string()),
        ("response_obj_oom", totals.connections_out_of_memory.to_string()),
        ("cmd_get", totals.gets.to_string()),
        ("cmd_set", totals.sets.to_string()),
        ("cmd_flush", totals.flushes.to_string()),
        ("cmd_touch", totals.touches.to_string()),
        ("get_hits", totals.get_hits.to_string()),
        ("get_misses", totals.gets.saturating_sub(totals.get_hits).to_string()),
        ("bytes_read", totals.bytes_read.to_string()),
        ("bytes_written", totals.bytes_written.to_string()),
        ("limit_maxbytes", store.bytes_max.to_string()),
        ("threads", server.workers().to_string()),
        ("bytes", store.bytes.to_string()),
        ("connections_bytes", store.held_bytes.to_string()),
        ("curr_items", store.records.to_string()),
        ("evictions", store.evictions.to_string()),
    ]
}

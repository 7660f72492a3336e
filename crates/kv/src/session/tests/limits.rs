//! Requests that are longer than what is kept of one, or than the memory there is.

use super::*;

/// What is answered if there is no memory for the request's first `cut` bytes when they are all that has come, and the
/// rest and another request come after that.
fn starve(family: Family, request: &[u8], cut: usize, follow: &[u8]) -> String {
    let server = Server::new(0, 1, NOW_MS);
    let turn = Turn { server: &server, stats: server.worker(0), now_ms: NOW_MS };
    let (mut session, mut out) = (Session::new(family), Vec::new());
    let begun = session.advance(&turn, &request[..cut], &mut out);
    assert!(matches!(begun.next, Next::Read { .. }), "{cut}: {begun:?}");
    let refused = session.refuse_for_memory(&turn, &request[begun.used..cut], &mut out);
    let mut closed = refused.next == Next::Close;
    if !closed {
        let rest = [&request[begun.used + refused.used..], follow].concat();
        let progress = session.advance(&turn, &rest, &mut out);
        assert!(progress.used == rest.len() || progress.next == Next::Close, "{cut}: {progress:?}");
        closed = progress.next == Next::Close;
    }
    assert_eq!(server.totals().requests_out_of_memory, 1);
    assert_eq!(server.store_stats().records, 0, "{cut}: nothing is stored");
    format!("{}{}", out.escape_ascii(), if closed { "closed" } else { "" })
}

#[test]
fn requests_without_memory_are_refused_in_the_words_of_their_protocol() {
    let stored = r"SERVER_ERROR out of memory storing object\r\nMN\r\n";
    for set in [&b"set a 0 0 5\r\nhello\r\n"[..], b"ms a 5 k\r\nhello\r\n"] {
        let line = set.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        for cut in 1..line {
            let answer = starve(Family::Memcached, set, cut, b"mn\r\n");
            assert_eq!(answer, r"SERVER_ERROR out of memory reading request\r\nclosed", "{cut}");
        }
        for cut in line..set.len() {
            assert_eq!(starve(Family::Memcached, set, cut, b"mn\r\n"), stored, "{cut}");
        }
    }
    let quiet = b"set a 0 0 5 noreply\r\nhello\r\n";
    assert_eq!(starve(Family::Memcached, quiet, 24, b"mn\r\n"), r"MN\r\n");
    let (set, noop) = (binary(0x01, &[0; 8], b"a", b"hello", 0), binary(0x0a, &[], b"", b"", 0));
    for cut in 1..set.len() {
        let answer = starve(Family::Memcached, &set, cut, &noop);
        if cut < 24 {
            assert_eq!(answer, "closed", "{cut}");
        } else {
            assert!(answer.starts_with(r"\x81\x01\x00\x00\x00\x00\x00\x82"), "{cut}: {answer}");
            assert!(answer.contains(r"Out of memory\x81\n"), "{cut}: {answer}");
        }
    }
    let oom = r"-OOM command not allowed when used memory > \'maxmemory\'.\r\n";
    let set = b"*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n$2\r\nEX\r\n$1\r\n9\r\n";
    for cut in 1..set.len() {
        let end = if cut < 4 { "closed" } else { r"+PONG\r\n" };
        assert_eq!(starve(Family::Redis, set, cut, b"PING\r\n"), format!("{oom}{end}"), "{cut}");
    }
    for cut in 1..12 {
        assert_eq!(starve(Family::Redis, b"SET k hello\r\n", cut, b"PING\r\n"), format!(r"{oom}+PONG\r\n"), "{cut}");
    }
    let message = [&[0; 8][..], &[0, 3], &20_u32.to_be_bytes(), &[0; 6]].concat();
    assert_eq!(starve(Family::Sockperf, &message, 15, &message), "closed");
}

/// A get of 20 000 keys, 129 KB, with something in the middle.
fn long_get(middle: &str) -> Vec<u8> {
    let keys = |from: u32| (from..from + 10_000).map(|key| format!(" k{key}")).collect::<String>();
    format!("gets{}{middle}{}\r\nmn\r\n", keys(10_000), keys(20_000)).into_bytes()
}

#[test]
fn a_get_of_any_length_is_answered_as_its_keys_come() {
    let server = Server::new(0, 1, NOW_MS);
    let (stored, _) = talk_in(&server, Family::Memcached, b"set k29999 0 0 1\r\nx\r\n", &[usize::MAX]);
    assert_eq!(stored, b"STORED\r\n");
    let turn = Turn { server: &server, stats: server.worker(0), now_ms: NOW_MS };
    for piece in [1, 7, 1000, 65_536, usize::MAX] {
        let input = long_get(" ");
        let (mut session, mut out, mut inbox, mut longest) = (Session::new(Family::Memcached), vec![], vec![], 0);
        for fresh in input.chunks(piece) {
            inbox.extend_from_slice(fresh);
            let progress = session.advance(&turn, &inbox, &mut out);
            inbox.drain(..progress.used);
            longest = longest.max(inbox.len());
        }
        let cas = server.store.get(NOW_MS, b"k29999", |item| item.cas).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("VALUE k29999 0 1 {cas}\r\nx\r\nEND\r\nMN\r\n"), "{piece}");
        assert!(longest <= ascii::LINE_BYTES_MAX, "{longest} bytes are kept");
    }
    assert_eq!(server.totals().gets, 5 * 20_000);
}

#[test]
fn what_is_wrong_in_a_long_get_ends_it_and_not_the_connection() {
    let bad = "CLIENT_ERROR bad command line format\r\nMN\r\n";
    assert_eq!(talk(&long_get(&format!(" {}", "k".repeat(251)))), bad);
    assert_eq!(talk(&long_get(&format!(" {}", "k".repeat(5000)))), bad);
    assert_eq!(talk(format!("get {}\r\nmn\r\n", "k".repeat(5000)).as_bytes()), bad);
    assert_eq!(
        talk(format!("gat x {}\r\nmn\r\n", "k ".repeat(5000)).as_bytes()),
        "CLIENT_ERROR invalid exptime argument\r\nMN\r\n"
    );
    let request = long_get("");
    let starved = starve(Family::Memcached, &request[..request.len() - 4], 100_003, b"mn\r\n");
    assert_eq!(starved, r"SERVER_ERROR out of memory reading request\r\nMN\r\n");
}

#[test]
fn a_line_of_words_is_looked_through_once() {
    let server = Server::new(0, 1, NOW_MS);
    let turn = Turn { server: &server, stats: server.worker(0), now_ms: NOW_MS };
    let mut session = Session::new(Family::Redis);
    let begun = session.advance(&turn, b"PING aaaa", &mut vec![]);
    assert_eq!((begun.used, begun.next), (0, Next::Read { bytes_least: 10 }));
    // What was looked at is changed, which would be seen by who looks again.
    let more = session.advance(&turn, b"PING\naaaab", &mut vec![]);
    assert_eq!((more.used, more.next), (0, Next::Read { bytes_least: 11 }));
    let mut out = Vec::new();
    session.advance(&turn, b"PING aaaab\nPING\n", &mut out);
    assert_eq!(out, b"$5\r\naaaab\r\n+PONG\r\n");
}

mod limits;
mod streams;

use super::*;

const NOW_MS: u64 = 1_700_000_000_000;

/// Feeds the input in pieces of the given lengths (used in a circle) and collects all answers, as a connection would;
/// whether the session closed it.
fn talk_in(server: &Server, family: Family, input: &[u8], pieces: &[usize]) -> (Vec<u8>, bool) {
    let turn = Turn { server, stats: server.worker(0), now_ms: NOW_MS };
    let (mut session, mut inbox, mut all, mut at) = (Session::new(family), Vec::new(), Vec::new(), 0);
    let mut pieces = pieces.iter().cycle();
    loop {
        let mut out = Vec::new();
        let progress = session.advance(&turn, &inbox, &mut out);
        assert!(progress.used <= inbox.len());
        inbox.drain(..progress.used);
        all.append(&mut out);
        match progress.next {
            Next::Write => {}
            Next::Close => return (all, true),
            Next::Read { bytes_least } => {
                assert!(bytes_least > inbox.len() && bytes_least <= INPUT_BYTES_MAX);
                if at == input.len() {
                    return (all, false);
                }
                let end = (at + pieces.next().unwrap().max(&1)).min(input.len());
                inbox.extend_from_slice(&input[at..end]);
                at = end;
            }
        }
    }
}

fn talk(input: &[u8]) -> String {
    let (answers, closed) = talk_in(&Server::new(0, 1, NOW_MS), Family::Memcached, input, &[usize::MAX]);
    format!("{}{}", String::from_utf8_lossy(&answers), if closed { "closed" } else { "" })
}

fn talk_redis(input: &[u8]) -> String {
    let (answers, closed) = talk_in(&Server::new(0, 1, NOW_MS), Family::Redis, input, &[usize::MAX]);
    format!("{}{}", String::from_utf8_lossy(&answers), if closed { "closed" } else { "" })
}

#[test]
fn ascii_answers_in_memcacheds_words() {
    let long = "k".repeat(251);
    let cases = [
        ("foo\r\n", "ERROR\r\n"),
        ("\r\n", "ERROR\r\n"),
        ("get\r\n", "ERROR\r\n"),
        ("set a 5 0 1\r\nx\r\nget b a\r\n", "STORED\r\nVALUE a 5 1\r\nx\r\nEND\r\n"),
        ("set a 5 0 1\nx\r\n  get   a  \n", "STORED\r\nVALUE a 5 1\r\nx\r\nEND\r\n"),
        (&format!("get a {long} b\r\n"), "CLIENT_ERROR bad command line format\r\n"),
        (&format!("set {long} 0 0 1\r\n1\r\n"), "CLIENT_ERROR bad command line format\r\nERROR\r\n"),
        (&format!("set {long} 0 0 1 noreply\r\n1\r\n"), "ERROR\r\n"),
        ("set a 0 0\r\n", "ERROR\r\n"),
        ("set a b 0 1\r\n1\r\n", "CLIENT_ERROR bad command line format\r\nERROR\r\n"),
        ("set a 4294967296 0 1\r\n1\r\n", "CLIENT_ERROR bad command line format\r\nERROR\r\n"),
        ("set a 0 x 1\r\n1\r\n", "CLIENT_ERROR bad command line format\r\nERROR\r\n"),
        ("set a 0 0 -1\r\n1\r\n", "CLIENT_ERROR bad command line format\r\nERROR\r\n"),
        ("set a 0 0 2147483647\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("set a 0 0 3\r\n12345\r\nget a\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nEND\r\n"),
        ("set a 0 -1 1\r\nx\r\nget a\r\n", "STORED\r\nEND\r\n"),
        ("cas a 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n"),
        ("set a 0 0 1\r\nx\r\ncas a 0 0 1 99999\r\ny\r\n", "STORED\r\nEXISTS\r\n"),
        ("cas a 0 0 1 x\r\n1\r\n", "CLIENT_ERROR bad command line format\r\nERROR\r\n"),
        ("append z 0 0 1\r\nx\r\nreplace z 0 0 1\r\nx\r\n", "NOT_STORED\r\nNOT_STORED\r\n"),
        (
            "add a 0 0 1\r\nx\r\nadd a 0 0 1\r\nx\r\nprepend a 0 0 1\r\ny\r\nget a\r\n",
            "STORED\r\nNOT_STORED\r\nSTORED\r\nVALUE a 0 2\r\nyx\r\nEND\r\n",
        ),
        ("delete z\r\ndelete z 0\r\ndelete z noreply\r\ndelete z 0 noreply\r\n", "NOT_FOUND\r\nNOT_FOUND\r\n"),
        ("delete z 5\r\n", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"),
        ("set n 0 0 2\r\n10\r\nincr n 5\r\ndecr n 7\r\nget n\r\n", "STORED\r\n15\r\n8\r\nVALUE n 0 2\r\n8 \r\nEND\r\n"),
        ("incr z 1\r\nincr z x\r\n", "NOT_FOUND\r\nCLIENT_ERROR invalid numeric delta argument\r\n"),
        ("incr z x noreply\r\ntouch z x noreply\r\n", ""),
        ("touch z 1\r\ntouch z x\r\n", "NOT_FOUND\r\nCLIENT_ERROR invalid exptime argument\r\n"),
        ("set a 0 0 1\r\nx\r\ntouch a 9\r\ngat 9 a z\r\n", "STORED\r\nTOUCHED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"),
        ("gat\r\ngat 1\r\ngat x a\r\n", "ERROR\r\nEND\r\nCLIENT_ERROR invalid exptime argument\r\n"),
        ("verbosity\r\nverbosity 1\r\nverbosity 1 noreply\r\n", "ERROR\r\nOK\r\n"),
        (
            "set a 0 0 1\r\nx\r\nflush_all 100\r\nget a\r\nflush_all\r\nget a\r\n",
            "STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\nOK\r\nEND\r\n",
        ),
        ("stats reset\r\nstats foo\r\n", "RESET\r\nERROR\r\n"),
        ("quit\r\nget a\r\n", "closed"),
    ];
    for (input, expected) in cases {
        assert_eq!(talk(input.as_bytes()), expected, "{input:?}");
    }
}

#[test]
fn a_value_that_is_too_large_is_swallowed_and_takes_the_old_one_along() {
    let mut input = b"set a 0 0 1\r\nx\r\nset a 0 0 2000000\r\n".to_vec();
    input.resize(input.len() + 2_000_000, b'x');
    input.extend_from_slice(b"\r\nget a\r\n");
    assert_eq!(talk(&input), "STORED\r\nSERVER_ERROR object too large for cache\r\nEND\r\n");
}

#[test]
fn a_line_without_an_end_closes_the_connection() {
    assert_eq!(talk(&[b'x'; ascii::LINE_BYTES_MAX]), "");
    assert_eq!(talk(&[b'x'; ascii::LINE_BYTES_MAX + 1]), "CLIENT_ERROR line too long\r\nclosed");
    assert_eq!(talk_redis(&vec![b'x'; LINE_BYTES_MAX + 1]), "-ERR Protocol error: too big inline request\r\nclosed");
}

#[test]
fn meta_answers_in_memcacheds_words() {
    let stored = "set a 9 0 3\r\nabc\r\n";
    let cases = [
        ("mn\r\nmn x\r\n", "MN\r\nMN\r\n"),
        (
            "mg\r\nms\r\nmd\r\nmz a\r\nme\r\n",
            "ERROR\r\nERROR\r\nERROR\r\nERROR\r\nCLIENT_ERROR bad command line format\r\n",
        ),
        ("mg z v\r\nmg z v q\r\nmg z k O1\r\n", "EN\r\nEN kz O1\r\n"),
        (
            &format!("{stored}mg a v\r\nmg a\r\nmg a v f t s k O123 \r\n"),
            "STORED\r\nVA 3\r\nabc\r\nHD\r\nVA 3 f9 t-1 s3 ka O123\r\nabc\r\n",
        ),
        (&format!("{stored}mg a h\r\nmg a h\r\nmg a T30 t\r\n"), "STORED\r\nHD h0\r\nHD h1\r\nHD t30\r\n"),
        (
            "mg a X\r\nmg a v v\r\nmg a Tx\r\n",
            "CLIENT_ERROR invalid flag\r\nCLIENT_ERROR duplicate flag\r\nCLIENT_ERROR bad token in command line format\r\n",
        ),
        ("mg a Oxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n", "CLIENT_ERROR opaque token too long\r\n"),
        ("ms b 2 T30 F7 k O9\r\nhi\r\nmg b f t v\r\n", "HD kb O9\r\nVA 2 f7 t30\r\nhi\r\n"),
        ("ms b 2 q\r\nhi\r\nms b 2 MA\r\nXX\r\nmg b v\r\n", "HD\r\nVA 4\r\nhiXX\r\n"),
        ("ms b S2\r\nhi\r\n", "CLIENT_ERROR bad command line format\r\nERROR\r\n"),
        ("ms b 2 MZ\r\nXX\r\nmn\r\n", "CLIENT_ERROR invalid mode for ms M token\r\nMN\r\n"),
        ("ms b 2 Z\r\nXX\r\nmn\r\n", "CLIENT_ERROR invalid flag\r\nMN\r\n"),
        ("ms b 2\r\nXXX\r\nmn\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"),
        ("ms b 2 C1\r\nXX\r\nms b 2 MR\r\nXX\r\n", "NF\r\nNS\r\n"),
        (&format!("{stored}ms a 1 ME k\r\nx\r\nms a 1 C99999\r\nx\r\n"), "STORED\r\nNS ka\r\nEX\r\n"),
        (&format!("{stored}md a C99999\r\nmd a q\r\nmd a\r\nmd z q k\r\n"), "STORED\r\nEX\r\nNF\r\nNF kz\r\n"),
        (
            "md a Z\r\nma a Dx\r\nma a MX\r\n",
            "CLIENT_ERROR invalid or duplicate flag\r\nCLIENT_ERROR invalid or duplicate flag\r\n\
          CLIENT_ERROR invalid mode for ma M token\r\n",
        ),
        (
            "ma n\r\nma n N30 J13 v t\r\nma n N30 J13 v t\r\nma n MD D3 v k O1 t\r\nma n q\r\n",
            "NF\r\nVA 2 t30\r\n13\r\nVA 2 t30\r\n14\r\nVA 2 kn O1 t30\r\n11\r\n",
        ),
        (
            &format!("me z\r\n{stored}ma a\r\n"),
            "EN\r\nSTORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        ),
    ];
    for (input, expected) in cases {
        assert_eq!(talk(input.as_bytes()), expected, "{input:?}");
    }
}

#[test]
fn redis_answers_in_its_words() {
    let cases = [
        ("PING\r\n", "+PONG\r\n"),
        ("*1\r\n$4\r\nping\r\n", "+PONG\r\n"),
        ("*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n", "$2\r\nhi\r\n"),
        ("*0\r\n\r\nPING\r\n", "+PONG\r\n"),
        ("SET k v\r\nGET k\r\nGET z\r\n", "+OK\r\n$1\r\nv\r\n$-1\r\n"),
        (
            "SET k v NX\r\nSET k w NX\r\nSET k w XX EX 10\r\nTTL k\r\nPTTL k\r\nTTL z\r\n",
            "+OK\r\n$-1\r\n+OK\r\n:10\r\n:10000\r\n:-2\r\n",
        ),
        (
            "SET k v NX XX\r\nSET k v EX\r\nSET k v EX x\r\nSET k v PX 0\r\n",
            "-ERR syntax error\r\n-ERR syntax error\r\n-ERR value is not an integer or out of range\r\n\
          -ERR invalid expire time in 'set' command\r\n",
        ),
        ("SET a 1\r\nSET b 2\r\nEXISTS a b c\r\nDEL a b c\r\nDBSIZE\r\n", "+OK\r\n+OK\r\n:2\r\n:2\r\n:0\r\n"),
        ("GET\r\n", "-ERR wrong number of arguments for 'get' command\r\n"),
        ("NOPE a b\r\n", "-ERR unknown command 'NOPE', with args beginning with: 'a' 'b' \r\n"),
        ("SELECT 0\r\nSELECT 1\r\nCOMMAND DOCS\r\n", "+OK\r\n-ERR DB index is out of range\r\n*0\r\n"),
        (
            "CONFIG GET save\r\nCONFIG GET appendonly\r\nCONFIG GET x\r\n",
            "*2\r\n$4\r\nsave\r\n$0\r\n\r\n*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n*0\r\n",
        ),
        ("QUIT\r\nPING\r\n", "+OK\r\nclosed"),
        ("*1\r\nPING\r\n", "-ERR Protocol error: expected '$', got 'P'\r\nclosed"),
        ("*x\r\n", "-ERR Protocol error: invalid multibulk length\r\nclosed"),
        ("*1\r\n$99999999\r\n", "-ERR Protocol error: invalid bulk length\r\nclosed"),
    ];
    for (input, expected) in cases {
        assert_eq!(talk_redis(input.as_bytes()), expected, "{input:?}");
    }
}

/// What clients say first, and that a client of RESP3 is spoken to in RESP3 from then on.
#[test]
fn redis_clients_introduce_themselves() {
    let map = |head: &str, proto| {
        format!(
            "{head}\r\n$6\r\nserver\r\n$6\r\nnapier\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$5\r\nproto\r\n:{proto}\r\n$2\r\nid\r\n:1\r\n\
             $4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
        )
    };
    let (two, three) = (map("*14", 2), map("%7", 3));
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let cases = [
        ("HELLO\r\n".to_owned(), two.clone()),
        ("HELLO 2\r\nGET z\r\n".to_owned(), format!("{two}$-1\r\n")),
        ("HELLO 3\r\nGET z\r\nHELLO\r\n".to_owned(), format!("{three}_\r\n{three}")),
        ("HELLO 3\r\nHELLO 2\r\nGET z\r\n".to_owned(), format!("{three}{two}$-1\r\n")),
        ("hello 3 auth default x setname me\r\n".to_owned(), three.clone()),
        ("HELLO 3 AUTH other x\r\nGET z\r\n".to_owned(), format!("{wrong}$-1\r\n")),
        ("HELLO 4\r\n".to_owned(), "-NOPROTO unsupported protocol version\r\n".to_owned()),
        ("HELLO x\r\n".to_owned(), "-ERR Protocol version is not an integer or out of range\r\n".to_owned()),
        ("HELLO 3 NOPE\r\nGET z\r\n".to_owned(), "-ERR Syntax error in HELLO option 'NOPE'\r\n$-1\r\n".to_owned()),
        ("HELLO 3\r\nSET k v\r\nSET k w NX\r\n".to_owned(), format!("{three}+OK\r\n_\r\n")),
        ("HELLO 3\r\nCONFIG GET save\r\n".to_owned(), format!("{three}%1\r\n$4\r\nsave\r\n$0\r\n\r\n")),
        ("AUTH default any\r\nAUTH me any\r\n".to_owned(), format!("+OK\r\n{wrong}")),
        (
            "CLIENT SETINFO LIB-NAME redis-py\r\nCLIENT SETNAME me\r\nCLIENT ID\r\n".to_owned(),
            "+OK\r\n+OK\r\n:1\r\n".to_owned(),
        ),
        ("CLIENT GETNAME\r\nHELLO 3\r\nCLIENT GETNAME\r\n".to_owned(), format!("$-1\r\n{three}_\r\n")),
    ];
    for (input, expected) in cases {
        assert_eq!(talk_redis(input.as_bytes()), expected, "{input:?}");
    }
    // What would be a promise that nobody keeps is refused.
    for input in ["CLIENT TRACKING ON\r\n", "CLIENT REPLY OFF\r\n", "CLIENT LIST\r\n", "AUTH x\r\n", "MULTI\r\n"] {
        assert!(talk_redis(input.as_bytes()).starts_with("-ERR "), "{input:?}");
    }
}

/// A binary request.
fn binary(opcode: u8, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let mut request = vec![0x80, opcode];
    request.extend_from_slice(&(key.len() as u16).to_be_bytes());
    request.extend_from_slice(&[extras.len() as u8, 0, 0, 0]);
    request.extend_from_slice(&((extras.len() + key.len() + value.len()) as u32).to_be_bytes());
    request.extend_from_slice(&0xdead_beef_u32.to_be_bytes());
    request.extend_from_slice(&cas.to_be_bytes());
    [&request, extras, key, value].concat()
}

/// Opcode, status and the part of the body behind the extras of each answer.
fn binary_answers(mut answers: &[u8]) -> Vec<(u8, u16, String)> {
    let mut all = Vec::new();
    while let Some((header, rest)) = answers.split_first_chunk::<24>() {
        assert_eq!((header[0], &header[12..16]), (0x81, &[0xde, 0xad, 0xbe, 0xef][..]));
        let body = u32::from_be_bytes(header[8..12].try_into().unwrap()) as usize;
        let text = String::from_utf8_lossy(&rest[usize::from(header[4])..body]).into_owned();
        all.push((header[1], u16::from_be_bytes([header[6], header[7]]), text));
        answers = &rest[body..];
    }
    assert!(answers.is_empty());
    all
}

#[test]
fn binary_answers_as_memcached() {
    let extras = [0; 8];
    let delta = |initial: u64, exptime: u32| {
        [&5_u64.to_be_bytes()[..], &initial.to_be_bytes(), &exptime.to_be_bytes()].concat()
    };
    let requests = [
        (binary(0x01, &extras, b"k", b"v", 0), Some((0x01, 0, ""))),
        (binary(0x00, &[], b"k", b"", 0), Some((0x00, 0, "v"))),
        (binary(0x0c, &[], b"k", b"", 0), Some((0x0c, 0, "kv"))),
        (binary(0x00, &[], b"z", b"", 0), Some((0x00, 1, "Not found"))),
        (binary(0x0c, &[], b"z", b"", 0), Some((0x0c, 1, "z"))),
        (binary(0x09, &[], b"z", b"", 0), None),
        (binary(0x11, &extras, b"k", b"w", 0), None),
        (binary(0x02, &extras, b"k", b"w", 0), Some((0x02, 2, "Data exists for key."))),
        (binary(0x03, &extras, b"z", b"w", 0), Some((0x03, 1, "Not found"))),
        (binary(0x0e, &[], b"z", b"w", 0), Some((0x0e, 5, "Not stored."))),
        (binary(0x0e, &[], b"k", b"x", 0), Some((0x0e, 0, ""))),
        (binary(0x0d, &[], b"k", b"", 0), Some((0x0d, 0, "kwx"))),
        (binary(0x01, &extras, b"k", b"w", 99_999), Some((0x01, 2, "Data exists for key."))),
        (binary(0x05, &delta(7, u32::MAX), b"n", b"", 0), Some((0x05, 1, "Not found"))),
        (binary(0x05, &delta(7, 0), b"n", b"", 0), Some((0x05, 0, "\0\0\0\0\0\0\0\x07"))),
        (binary(0x05, &delta(7, 0), b"n", b"", 0), Some((0x05, 0, "\0\0\0\0\0\0\0\x0c"))),
        (binary(0x05, &delta(7, 0), b"k", b"", 0), Some((0x05, 6, "Non-numeric server-side value for incr or decr"))),
        (binary(0x1c, &[0, 0, 0, 9], b"k", b"", 0), Some((0x1c, 0, ""))),
        (binary(0x04, &[], b"k", b"", 0), Some((0x04, 0, ""))),
        (binary(0x14, &[], b"k", b"", 0), Some((0x14, 1, "Not found"))),
        (binary(0x0a, &[], b"", b"", 0), Some((0x0a, 0, ""))),
        (binary(0x0b, &[], b"", b"", 0), Some((0x0b, 0, stats::VERSION))),
        (binary(0x77, &[1, 2], b"key", b"value", 0), Some((0x77, 0x81, "Unknown command"))),
        (binary(0x08, &[], b"", b"", 0), Some((0x08, 0, ""))),
        (binary(0x07, &[], b"", b"", 0), Some((0x07, 0, ""))),
    ];
    let input: Vec<u8> = requests.iter().flat_map(|(request, _)| request.clone()).collect();
    let (answers, closed) = talk_in(&Server::new(0, 1, NOW_MS), Family::Memcached, &input, &[usize::MAX]);
    let expected: Vec<_> = requests.iter().filter_map(|(_, answer)| *answer).collect();
    let seen = binary_answers(&answers);
    let seen: Vec<_> = seen.iter().map(|(opcode, status, text)| (*opcode, *status, text.as_str())).collect();
    assert_eq!(seen, expected);
    assert!(closed, "quit closes");
}

#[test]
fn binary_lengths_that_contradict_each_other_close() {
    let mut request = binary(0x00, &[], b"k", b"", 0);
    request[4] = 9;
    let (answers, closed) = talk_in(&Server::new(0, 1, NOW_MS), Family::Memcached, &request, &[usize::MAX]);
    assert_eq!(binary_answers(&answers), [(0x00, 4, "Invalid arguments".to_owned())]);
    assert!(closed);
}

#[test]
fn an_answer_of_many_values_is_not_held_in_memory() {
    let server = Server::new(0, 1, NOW_MS);
    let mut input = b"set k 0 0 200000\r\n".to_vec();
    input.resize(input.len() + 200_000, b'v');
    input.extend_from_slice(b"\r\nget");
    input.extend_from_slice(" k".repeat(100).as_bytes());
    input.extend_from_slice(b"\r\n");
    let turn = Turn { server: &server, stats: server.worker(0), now_ms: NOW_MS };
    let (mut session, mut at, mut all) = (Session::new(Family::Memcached), 0, 0);
    loop {
        let mut out = Vec::new();
        let progress = session.advance(&turn, &input[at..], &mut out);
        at += progress.used;
        all += out.len();
        assert!(out.len() < OUTPUT_BYTES_HIGH + 201_000, "{} bytes at once", out.len());
        if progress.next != Next::Write {
            break;
        }
    }
    assert_eq!((at, all > 20_000_000), (input.len(), true));
}

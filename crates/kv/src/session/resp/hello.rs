//! What a client says of itself before its first command: HELLO, AUTH, CLIENT, answered as Redis 7 does that has no password and
//! no other user. What would promise something that is not done here (tracking, silent replies) is refused.

use super::super::text::signed;
use super::super::{SessionCall, stats};
use super::{SYNTAX_ERROR, Version, put_bulk, put_error, put_integer, put_map, put_null, put_ok};

const NO_SUCH_USER: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// `HELLO [2|3 [AUTH user password] [SETNAME name]]`: the version is in force from its own answer on.
pub(super) fn hello(call: &mut SessionCall<'_, '_>, speaks: &mut Version, arguments: &[&[u8]]) {
    let version = match arguments.first().map(|version| signed(version)) {
        None => *speaks,
        Some(Some(2)) => Version::Two,
        Some(Some(3)) => Version::Three,
        Some(Some(_)) => return put_error(call.out, "NOPROTO unsupported protocol version"),
        Some(None) => return put_error(call.out, "ERR Protocol version is not an integer or out of range"),
    };
    let mut rest = arguments.get(1..).unwrap_or_default();
    loop {
        rest = match rest {
            [] => break,
            [word, user, _password, rest @ ..] if word.eq_ignore_ascii_case(b"auth") => {
                if !is_user(user) {
                    return put_error(call.out, NO_SUCH_USER);
                }
                rest
            }
            [word, _name, rest @ ..] if word.eq_ignore_ascii_case(b"setname") => rest,
            [word, ..] => {
                let word = String::from_utf8_lossy(&word[..word.len().min(64)]).into_owned();
                return put_error(call.out, &format!("ERR Syntax error in HELLO option '{word}'"));
            }
        };
    }
    *speaks = version;
    put_map(call.out, version, 7);
    for (name, value) in [("server", "napier"), ("version", stats::REDIS_VERSION)] {
        put_bulk(call.out, name.as_bytes());
        put_bulk(call.out, value.as_bytes());
    }
    let proto = if version == Version::Two { 2 } else { 3 };
    for (name, value) in [("proto", proto), ("id", 1)] {
        put_bulk(call.out, name.as_bytes());
        put_integer(call.out, value);
    }
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        put_bulk(call.out, name.as_bytes());
        put_bulk(call.out, value.as_bytes());
    }
    put_bulk(call.out, b"modules");
    call.out.extend_from_slice(b"*0\r\n");
}

fn is_user(name: &[u8]) -> bool {
    name == b"default"
}

/// `AUTH [user] password`.
pub(super) fn auth(call: &mut SessionCall<'_, '_>, arguments: &[&[u8]]) {
    match arguments {
        [user, _password] if is_user(user) => put_ok(call.out),
        [_user, _password] => put_error(call.out, NO_SUCH_USER),
        _ => put_error(
            call.out,
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?",
        ),
    }
}

/// `CLIENT`: what a client says of itself is taken and not kept.
pub(super) fn client(call: &mut SessionCall<'_, '_>, speaks: Version, arguments: &[&[u8]]) {
    let mut name = [0; 16];
    let upper = match name.get_mut(..arguments[0].len()) {
        Some(room) => {
            room.copy_from_slice(arguments[0]);
            room.make_ascii_uppercase();
            &*room
        }
        None => &[],
    };
    match (upper, arguments.len()) {
        (b"SETINFO", 3) | (b"SETNAME", 2) => put_ok(call.out),
        (b"NO-EVICT" | b"NO-TOUCH", 2) => match arguments[1].to_ascii_lowercase().as_slice() {
            b"on" | b"off" => put_ok(call.out),
            _ => put_error(call.out, SYNTAX_ERROR),
        },
        (b"GETNAME", 1) => put_null(call.out, speaks),
        (b"ID", 1) => put_integer(call.out, 1),
        _ => {
            call.turn.stats.add(|c| &c.refused, 1);
            let name = String::from_utf8_lossy(&arguments[0][..arguments[0].len().min(64)]).into_owned();
            put_error(
                call.out,
                &format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try CLIENT HELP."),
            );
        }
    }
}

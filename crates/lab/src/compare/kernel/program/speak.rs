//! What a server speaks: it is asked for its version, and the kind of answer tells.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddrV4, TcpStream, UdpSocket};
use std::time::Duration;

use napier_kv::FRAME_HEADER_BYTES;
use napier_kv::load::codec::Format;
use napier_kv::load::net::Proto;

/// How long an answer is waited for.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// A request that a memcached answers with its version, and a Redis with an error.
const QUESTION: &[u8] = b"version\r\n";

/// A protocol of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// memcached's text.
    Memcached,
    /// Redis' RESP.
    Redis,
}

impl Speaks {
    /// How requests are written.
    pub(super) fn format(self) -> Format {
        match self {
            Self::Memcached => Format::Ascii,
            Self::Redis => Format::Resp,
        }
    }
}

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Memcached => "memcached",
            Self::Redis => "redis",
        })
    }
}

impl std::str::FromStr for Speaks {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "memcached" => Ok(Self::Memcached),
            "redis" => Ok(Self::Redis),
            _ => Err("no such protocol; give memcached or redis"),
        }
    }
}

/// Why it is not known what a server speaks.
#[derive(Debug)]
pub(super) struct Unknown {
    /// In words.
    pub(super) what: String,
    /// It answered, so asking again is of no use.
    pub(super) is_final: bool,
}

/// Asks a server what it speaks, from the namespace of the calling thread.
pub(super) fn ask(at: SocketAddrV4, proto: Proto) -> Result<Speaks, Unknown> {
    let port = at.port();
    let answer = match proto {
        Proto::Tcp => ask_stream(at),
        Proto::Udp => ask_datagram(at),
    };
    match answer {
        Ok(answer) => judge(&answer, port),
        Err(error) => Err(Unknown { what: format!("it does not answer at port {port}: {error}"), is_final: false }),
    }
}

fn ask_stream(at: SocketAddrV4) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&at.into(), ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(QUESTION)?;
    let mut answer = vec![0; 256];
    let bytes = stream.read(&mut answer)?;
    answer.truncate(bytes);
    Ok(answer)
}

fn ask_datagram(at: SocketAddrV4) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect(at)?;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    socket.send(&[&[0, 0, 0, 0, 0, 1, 0, 0], QUESTION].concat())?;
    let mut answer = vec![0; 256];
    let bytes = socket.recv(&mut answer)?;
    Ok(answer[..bytes].get(FRAME_HEADER_BYTES..).unwrap_or_default().to_vec())
}

fn judge(answer: &[u8], port: u16) -> Result<Speaks, Unknown> {
    let unknown = |what| Err(Unknown { what, is_final: true });
    let said = || answer.split(|byte| *byte == b'\r').next().unwrap_or_default().escape_ascii().to_string();
    if answer.starts_with(b"VERSION ") {
        return Ok(Speaks::Memcached);
    }
    if answer.starts_with(b"-DENIED") {
        return unknown(format!(
            "at port {port} it refuses clients from other hosts ({}): start it with --protected-mode no",
            said().chars().take(60).collect::<String>()
        ));
    }
    if answer.starts_with(b"-NOAUTH") {
        return unknown(format!("at port {port} it wants a password, and the load has none: start it without"));
    }
    if answer.starts_with(b"-") {
        return Ok(Speaks::Redis);
    }
    let heard = if answer.is_empty() { "closes the connection".to_owned() } else { format!("answers `{}`", said()) };
    unknown(format!(
        "at port {port} it speaks neither memcached's text nor Redis' protocol: asked for its version it {heard}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_answer_tells_the_protocol() {
        assert_eq!(judge(b"VERSION 1.6.38\r\n", 1).unwrap(), Speaks::Memcached);
        assert_eq!(judge(b"-ERR unknown command 'version'\r\n", 1).unwrap(), Speaks::Redis);
        for (answer, said) in [
            (&b"-DENIED Redis is running in protected mode\r\n"[..], "--protected-mode no"),
            (b"-NOAUTH Authentication required.\r\n", "password"),
            (b"HTTP/1.1 400 Bad Request\r\n", "answers `HTTP/1.1 400 Bad Request`"),
            (b"", "closes the connection"),
        ] {
            let unknown = judge(answer, 80).unwrap_err();
            assert!(unknown.is_final && unknown.what.contains(said), "{unknown:?}");
        }
    }
}

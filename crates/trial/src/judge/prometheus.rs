//! A query that a Prometheus server answers with one number.
//!
//! One `GET` over plain HTTP each second, written by hand: the answer is small, bounded and JSON, and a library for HTTP would bring TLS, pools and
//! an executor of its own. There is no TLS: a server that has it is asked through a tunnel. Looker: RFC 9112;
//! Prometheus, "HTTP API", instant queries.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::beside::{Beside, Going, Looker, Mean};
use super::{Better, Judge, JudgeError, JudgedFigure, Reading, Unit};

/// From one query to the next.
const PAUSE: Duration = Duration::from_secs(1);
/// A query takes no longer.
const LIMIT: Duration = Duration::from_secs(3);
/// How long it may take until a thread that waits for an answer sees that it ends.
const STEP: Duration = Duration::from_millis(100);
/// Bytes of an answer.
const ANSWER_MAX: usize = 1 << 20;
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// The judge; the query is made once before.
///
/// # Errors
/// That did not give a number.
pub(super) fn prometheus(
    given: &str,
    text: &str,
    name: Option<&str>,
    better: Better,
) -> Result<Box<dyn Judge>, JudgeError> {
    let wrong = |why| JudgeError { judge: given.to_owned(), why };
    let mut source = PromQuery::parse(text).map_err(wrong)?;
    // No value yet is no mistake: a service may have been started just now.
    source.ask(&Going::once()).map_err(wrong)?;
    let figure = JudgedFigure { name: name.unwrap_or("prom").to_owned(), unit: Unit::Plain, better };
    Ok(Box::new(Beside::start(given, vec![figure], source)?))
}

#[derive(Debug)]
struct PromQuery {
    /// As the header has it.
    host: String,
    addresses: Vec<SocketAddr>,
    /// Path and query.
    target: String,
    limit: Duration,
    mean: Mean,
    took: Duration,
    /// A block has begun: there is nothing to wait for.
    is_due: bool,
}

impl PromQuery {
    /// `URL QUERY`.
    fn parse(text: &str) -> Result<Self, String> {
        let example = "give 'prom:http://HOST:9090 QUERY'";
        let (url, query) =
            text.trim().split_once(char::is_whitespace).ok_or_else(|| format!("it has no query: {example}"))?;
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => {
                return Err("there is no TLS here: give a server's http address, or that of a tunnel to it".to_owned());
            }
            _ => return Err(format!("`{url}` is no address of a server: {example}")),
        };
        let (host, path) = rest.split_once('/').map_or((rest, String::new()), |(host, path)| {
            let path = path.trim_end_matches('/');
            (host, if path.is_empty() { String::new() } else { format!("/{path}") })
        });
        let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_graphic() && !"@?#".contains(c));
        if host.is_empty() || !is_plain(host) || !is_plain(&path) {
            return Err(format!("`{url}` is no address of a server: {example}"));
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let with_port = if has_port { host.to_owned() } else { format!("{host}:80") };
        let found = with_port.to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
        let target = format!("{path}/api/v1/query?query={}", encoded(query.trim()));
        let addresses = found.take(ADDRESSES_MAX).collect();
        Ok(Self {
            host: host.to_owned(),
            addresses,
            target,
            limit: LIMIT,
            mean: Mean::default(),
            took: Duration::ZERO,
            is_due: false,
        })
    }

    /// Asks once; `None` if there is no value.
    fn ask(&mut self, going: &Going) -> Result<Option<f64>, String> {
        self.is_due = false;
        let begun = Instant::now();
        let exchange = Exchange { until: begun + self.limit, going };
        let answer = exchange.get(&self.host, &self.addresses, &self.target);
        self.took = begun.elapsed();
        let (status, body) = answer.map_err(|error| self.why(&error))?;
        let json: Value = serde_json::from_slice(&body).unwrap_or_default();
        if let Some(error) = json["error"].as_str() {
            return Err(format!("{} does not take the query: {error}", self.host));
        }
        if status != 200 || json["status"] != "success" {
            return Err(format!(
                "{} answers with status {status}, and not as Prometheus does: is it its address?",
                self.host
            ));
        }
        value(&json["data"])
    }

    fn why(&self, error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::TimedOut => format!("{} does not answer within {} s", self.host, LIMIT.as_secs()),
            io::ErrorKind::UnexpectedEof => format!("{} closed the connection in the middle of its answer", self.host),
            _ => format!("{}: {error}", self.host),
        }
    }
}

impl Looker for PromQuery {
    fn begin(&mut self, _: &Going) -> Result<(), String> {
        (self.mean, self.is_due) = (Mean::default(), true);
        Ok(())
    }

    fn look(&mut self, going: &Going) -> Result<Option<Reading>, String> {
        Ok(self.ask(going)?.map(|value| self.mean.add(value)))
    }

    fn pause(&self) -> Duration {
        if self.is_due { Duration::ZERO } else { PAUSE.saturating_sub(self.took) }
    }

    fn patience(&self) -> Duration {
        PAUSE + (self.took * 3).clamp(PAUSE / 2, self.limit)
    }
}

/// What stands in a URL as it is. Looker: RFC 3986, section 2.3.
fn encoded(query: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    query.bytes().map(one).collect()
}

/// The number of an answer's data.
fn value(data: &Value) -> Result<Option<f64>, String> {
    let number = |pair: &Value| {
        let text = pair[1].as_str().ok_or("its answer has no value")?;
        let value: f64 = text.parse().map_err(|_| format!("its answer has the value `{text}`"))?;
        // Such as of a quotient of nothing by nothing.
        Ok(value.is_finite().then_some(value))
    };
    let result = &data["result"];
    match data["resultType"].as_str() {
        Some("scalar") => number(result),
        Some("vector") => match result.as_array().map(Vec::as_slice).unwrap_or_default() {
            [] => Ok(None),
            [one] => number(&one["value"]),
            more => Err(format!("the query gives {} series: make it one, such as by sum(...)", more.len())),
        },
        Some(kind) => Err(format!("the query gives a {kind}: give one that gives one number, such as rate(...[10s])")),
        None => Err("its answer has no result".to_owned()),
    }
}

/// One request, and how long it may take.
struct Exchange<'a> {
    until: Instant,
    going: &'a Going,
}

impl Exchange<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() || self.going.is_over() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }

    /// Status and body.
    fn get(&self, host: &str, addresses: &[SocketAddr], target: &str) -> io::Result<(u16, Vec<u8>)> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(address, self.left()?) {
                Ok(stream) => return self.exchange(stream, host, target),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn exchange(&self, mut stream: TcpStream, host: &str, target: &str) -> io::Result<(u16, Vec<u8>)> {
        stream.set_read_timeout(Some(STEP))?;
        stream.set_write_timeout(Some(self.left()?))?;
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: napier/{}\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
            env!("CARGO_PKG_VERSION")
        );
        stream.write_all(request.as_bytes())?;
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; 16 * 1024]);
        loop {
            self.left()?;
            let is_all = match stream.read(&mut buffer) {
                Ok(count) => {
                    bytes.extend(&buffer[..count]);
                    count == 0
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            if bytes.len() > ANSWER_MAX {
                return Err(io::Error::other("its answer is larger than 1 MiB: ask for one number"));
            }
            if let Some(answer) = HttpAnswer::parse(&bytes, is_all)? {
                return Ok((answer.status, answer.body));
            }
        }
    }
}

/// An answer that is all there.
#[derive(PartialEq, Eq, Debug)]
struct HttpAnswer {
    status: u16,
    body: Vec<u8>,
}

impl HttpAnswer {
    /// `None`: more has to come.
    fn parse(bytes: &[u8], is_all: bool) -> io::Result<Option<Self>> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "its answer is not HTTP: is it its address?");
        let more = || if is_all { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(None) };
        let expected = b"HTTP/1.";
        if !expected.starts_with(&bytes[..bytes.len().min(expected.len())]) {
            return Err(wrong());
        }
        let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return more() };
        let body = &bytes[head + 4..];
        let head = String::from_utf8_lossy(&bytes[..head]);
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or_else(wrong)?;
        let (mut length, mut is_chunked) = (None, false);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse::<usize>().map_err(|_| wrong())?);
            }
            is_chunked |=
                name.eq_ignore_ascii_case("transfer-encoding") && value.to_ascii_lowercase().contains("chunked");
        }
        let body = match (is_chunked, length) {
            (true, _) => joined(body).ok_or_else(wrong)?,
            (false, Some(length)) => body.get(..length).map(<[u8]>::to_vec),
            (false, None) => is_all.then(|| body.to_vec()),
        };
        body.map_or_else(more, |body| Ok(Some(Self { status, body })))
    }
}

/// A body in chunks; `Some(None)`: more has to come. Looker: RFC 9112, section 7.1.
fn joined(mut rest: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return Some(None) };
        let size = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok().filter(|size| *size <= ANSWER_MAX)?;
        if size == 0 {
            return Some(Some(body));
        }
        let Some(chunk) = rest.get(end + 2..end + 2 + size) else { return Some(None) };
        body.extend(chunk);
        let Some(after) = rest.get(end + 2 + size + 2..) else { return Some(None) };
        rest = after;
    }
}

#[cfg(test)]
#[path = "prometheus_tests.rs"]
mod tests;

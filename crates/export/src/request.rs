//! What a client sent, and what it is told: pure. Source: RFC 9110, RFC 9112; an answer ends its connection, unless the client
//! asks for more than that.

/// Bytes of a request's head; no scraper sends a tenth of it.
pub(crate) const HEAD_BYTES_MAX: usize = 8192;

/// How figures are written.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Plain,
}

impl Format {
    const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// What is to be answered.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// The head is not whole yet.
    More,
    /// `/metrics`.
    Metrics { format: Format, is_head: bool, then: Then },
    /// `/`: where the figures are.
    Root { is_head: bool },
    /// Nothing of ours.
    Wrong(Wrong),
}

/// What becomes of a connection behind an answer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// The next request may come.
    Keep,
    /// The request was whole, and nothing came behind it. Who sends the next one unasked has to send it again, RFC 9112 9.3.2.
    Close,
    /// Bytes may be on their way.
    Leave,
}

/// Why a request is refused.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    NotHttp,
    NotFound,
    Method,
    TooLong,
    Version,
    TooSlow,
}

impl Wrong {
    const fn status(self) -> &'static str {
        match self {
            Self::NotHttp => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::Method => "405 Method Not Allowed",
            Self::TooSlow => "408 Request Timeout",
            Self::TooLong => "431 Request Header Fields Too Large",
            Self::Version => "505 HTTP Version Not Supported",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::NotHttp => "this is no HTTP request\n",
            Self::NotFound => "there is nothing here: figures are at /metrics\n",
            Self::Method => "figures can be read only: GET or HEAD\n",
            Self::TooSlow => "the request did not come whole in time\n",
            Self::TooLong => "the head of a request may have 8192 bytes\n",
            Self::Version => "HTTP 1.0 or 1.1 is spoken here\n",
        }
    }
}

/// Reads what came so far; the first `seen` bytes of it had no end of a head.
pub(crate) fn read(bytes: &[u8], seen: usize) -> Asked {
    // An end may have begun among them.
    let from = seen.saturating_sub(3);
    let Some(end) = head_end(&bytes[from..]).map(|end| from + end) else {
        // What can be no request is answered at once, not when its time is up.
        let begin = &bytes[..bytes.len().min(16)];
        return match bytes.len() {
            HEAD_BYTES_MAX.. => Asked::Wrong(Wrong::TooLong),
            _ if begin.iter().any(|byte| !byte.is_ascii() || (byte.is_ascii_control() && !b"\r\n".contains(byte))) => {
                Asked::Wrong(Wrong::NotHttp)
            }
            _ => Asked::More,
        };
    };
    if end > HEAD_BYTES_MAX {
        return Asked::Wrong(Wrong::TooLong);
    }
    match std::str::from_utf8(&bytes[..end]) {
        Ok(head) => whole(head, end == bytes.len()).unwrap_or_else(Asked::Wrong),
        Err(_) => Asked::Wrong(Wrong::NotHttp),
    }
}

/// Length of the head, its empty line included. RFC 9112 2.2: a lone line feed may be taken for an end of line.
fn head_end(bytes: &[u8]) -> Option<usize> {
    let ends: [&[u8]; 2] = [b"\r\n\r\n", b"\n\n"];
    let find = |end: &[u8]| bytes.windows(end.len()).position(|window| window == end).map(|at| at + end.len());
    ends.into_iter().filter_map(find).min()
}

/// `is_all`: nothing came behind it.
fn whole(head: &str, is_all: bool) -> Result<Asked, Wrong> {
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Wrong::NotHttp);
    };
    let is_token = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_token || target.is_empty() || !version.starts_with("HTTP/") {
        return Err(Wrong::NotHttp);
    }
    if !["HTTP/1.0", "HTTP/1.1"].contains(&version) {
        return Err(Wrong::Version);
    }
    if !lines.clone().take_while(|line| !line.is_empty()).all(is_field) {
        return Err(Wrong::NotHttp);
    }
    // The other form, which a proxy is sent, RFC 9112 3.2.2.
    let path = target.strip_prefix("http://").map_or(target, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let is_known = ["/metrics", "/"].contains(&path);
    if !is_known {
        return Err(Wrong::NotFound);
    }
    let is_head = method == "HEAD";
    if method != "GET" && !is_head {
        return Err(Wrong::Method);
    }
    Ok(match path {
        "/metrics" => {
            let then = if is_all { then(lines.clone()) } else { Then::Leave };
            Asked::Metrics { format: format(lines), is_head, then }
        }
        _ => Asked::Root { is_head },
    })
}

/// Whether a line names a field. Blanks before the colon, and a line that goes on the one before, hide fields from who reads
/// them otherwise: RFC 9112 5.1 and 5.2 have both refused.
fn is_field(line: &str) -> bool {
    let Some((name, _)) = line.split_once(':') else { return false };
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

/// Many a client of HTTP/1.1 reads until the end although it has not asked for one, so to be kept has to be asked for. What has a
/// body has it behind the head.
fn then<'a>(fields: impl Iterator<Item = &'a str>) -> Then {
    let mut then = Then::Close;
    for (name, value) in fields.filter_map(|field| field.split_once(':')) {
        if name.eq_ignore_ascii_case("connection") {
            let is_kept = value.split(',').any(|word| word.trim().eq_ignore_ascii_case("keep-alive"));
            then = if is_kept { Then::Keep } else { Then::Close };
        }
        if ["content-length", "transfer-encoding"].iter().any(|body| name.eq_ignore_ascii_case(body)) {
            return Then::Leave;
        }
    }
    then
}

/// As Prometheus' own clients choose: OpenMetrics for who names it, the older format for all others, which every reader knows.
fn format<'a>(fields: impl Iterator<Item = &'a str>) -> Format {
    let accepted =
        fields.filter_map(|field| field.split_once(':')).filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    let is_named = |kinds: &str| {
        kinds.split(',').any(|kind| {
            let mut parts = kind.split(';').map(str::trim);
            let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("application/openmetrics-text"));
            // Of no weight is refused, RFC 9110 12.4.2.
            is_it && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
        })
    };
    match accepted.into_iter().any(|(_, kinds)| is_named(kinds)) {
        true => Format::OpenMetrics,
        false => Format::Plain,
    }
}

/// What stands before a page of figures of so many bytes.
pub(crate) fn figures(format: Format, bytes: usize, then: Then) -> Vec<u8> {
    head("200 OK", format.content_type(), "", bytes, then)
}

/// The answer at `/`.
pub(crate) fn root(is_head: bool) -> Vec<u8> {
    let page = "<!doctype html><html lang=\"en\"><title>napier</title><h1>napier</h1>\
                <p><a href=\"/metrics\">metrics</a></p></html>\n";
    message("200 OK", "text/html; charset=utf-8", "", page, is_head)
}

/// The answer to what is no request of ours.
pub(crate) fn refusal(wrong: Wrong) -> Vec<u8> {
    let more = if wrong == Wrong::Method { "Allow: GET, HEAD\r\n" } else { "" };
    message(wrong.status(), "text/plain; charset=utf-8", more, wrong.words(), false)
}

fn message(status: &str, content_type: &str, more: &str, body: &str, is_head: bool) -> Vec<u8> {
    let mut bytes = head(status, content_type, more, body.len(), Then::Leave);
    if !is_head {
        bytes.extend_from_slice(body.as_bytes());
    }
    bytes
}

fn head(status: &str, content_type: &str, more: &str, length: usize, then: Then) -> Vec<u8> {
    let then = match then {
        Then::Keep => "keep-alive",
        Then::Close | Then::Leave => "close",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{more}\
         X-Content-Type-Options: nosniff\r\nConnection: {then}\r\n\r\n"
    );
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_told_apart() {
        let metrics = |format, then| Asked::Metrics { format, is_head: false, then };
        let plain = metrics(Format::Plain, Then::Close);
        let kept = metrics(Format::Plain, Then::Keep);
        let more = metrics(Format::Plain, Then::Leave);
        let open = metrics(Format::OpenMetrics, Then::Close);
        let head = Asked::Metrics { format: Format::Plain, is_head: true, then: Then::Close };
        let rows: [(&str, Asked); 31] = [
            ("GET /metrics HTTP/1.1\r\n\r\n", plain),
            ("GET /metrics HTTP/1.0\n\n", plain),
            ("GET /metrics?name[]=x HTTP/1.1\r\nHost: h\r\n\r\nbody", more),
            (
                "GET /metrics HTTP/1.1\r\nContent-Length : 5\r\nConnection: keep-alive\r\n\r\n",
                Asked::Wrong(Wrong::NotHttp),
            ),
            ("GET /metrics HTTP/1.1\r\nA: b\r\n  folded\r\n\r\n", Asked::Wrong(Wrong::NotHttp)),
            ("GET /metrics HTTP/1.1\r\n: no name\r\n\r\n", Asked::Wrong(Wrong::NotHttp)),
            ("GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", Asked::Wrong(Wrong::NotHttp)),
            ("GET /metrics HTTP/1.1\r\nX-A_b.c: \r\n\r\n", plain),
            ("GET http://host:1/metrics HTTP/1.1\r\n\r\n", plain),
            ("GET /metrics HTTP/1.1\r\nAccept: */*\r\n\r\n", plain),
            ("GET /metrics HTTP/1.1\r\naccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n\r\n", open),
            ("GET /metrics HTTP/1.1\r\nAccept: text/plain\r\nAccept: Application/OpenMetrics-Text\r\n\r\n", open),
            ("GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; q=0\r\n\r\n", plain),
            ("GET /metrics HTTP/1.1\r\nConnection: TE, Keep-Alive\r\n\r\n", kept),
            ("GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n", plain),
            ("GET /metrics HTTP/1.1\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n", more),
            ("GET /metrics HTTP/1.1\r\nConnection: keep-alive\r\n\r\nGET", more),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", head),
            ("GET / HTTP/1.1\r\n\r\n", Asked::Root { is_head: false }),
            ("GET http://host HTTP/1.1\r\n\r\n", Asked::Root { is_head: false }),
            ("GET /metric HTTP/1.1\r\n\r\n", Asked::Wrong(Wrong::NotFound)),
            ("GET /../etc/passwd HTTP/1.1\r\n\r\n", Asked::Wrong(Wrong::NotFound)),
            ("POST /metrics HTTP/1.1\r\n\r\n", Asked::Wrong(Wrong::Method)),
            ("GET /metrics HTTP/2.0\r\n\r\n", Asked::Wrong(Wrong::Version)),
            ("GET /metrics\r\n\r\n", Asked::Wrong(Wrong::NotHttp)),
            ("GET  /metrics HTTP/1.1\r\n\r\n", Asked::Wrong(Wrong::NotHttp)),
            ("\r\n\r\n", Asked::Wrong(Wrong::NotHttp)),
            ("G\u{e9}T /metrics", Asked::Wrong(Wrong::NotHttp)),
            ("\u{16}\u{3}\u{1}", Asked::Wrong(Wrong::NotHttp)),
            ("GET /metrics HTTP/1.1\r\n", Asked::More),
            ("", Asked::More),
        ];
        for (bytes, asked) in rows {
            assert_eq!(read(bytes.as_bytes(), 0), asked, "{bytes:?}");
            // In two pieces, wherever it is cut.
            let whole = bytes.as_bytes();
            let first = (0..whole.len()).find(|cut| read(&whole[..*cut], 0) != Asked::More).unwrap_or(whole.len());
            (0..first).for_each(|cut| assert_eq!(read(whole, cut), asked, "{bytes:?} cut at {cut}"));
        }
    }

    #[test]
    fn a_head_is_bounded() {
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(read(long.as_bytes(), 0), Asked::Wrong(Wrong::TooLong));
        assert_eq!(read(format!("{long}\r\n\r\n").as_bytes(), 0), Asked::Wrong(Wrong::TooLong));
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let page = text(figures(Format::OpenMetrics, 6, Then::Close));
        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0;"),
            "{page}"
        );
        assert!(page.contains("\r\nContent-Length: 6\r\n") && page.ends_with("close\r\n\r\n"), "{page}");
        assert!(text(root(true)).ends_with("close\r\n\r\n") && text(root(false)).ends_with("</html>\n"));
        assert!(text(refusal(Wrong::Method)).contains("\r\nAllow: GET, HEAD\r\n"));
    }
}

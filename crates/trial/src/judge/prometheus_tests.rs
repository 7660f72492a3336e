use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use super::super::Look;
use super::*;

/// A server that does something with each connection, and its address. It ends with the listener's last connection.
fn server(connections: usize, act: impl Fn(TcpStream) + Send + 'static) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let at = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().expect("accepted");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).unwrap_or(0) == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            act(stream);
        }
    });
    (at, serving)
}

/// What a query to a server that answers so gives.
fn asked(answer: impl Into<Vec<u8>>) -> Result<Option<f64>, String> {
    let answer = answer.into();
    let (at, serving) = server(1, move |mut stream| _ = stream.write_all(&answer));
    let mut query = PromQuery::parse(&format!("{at} up")).expect("an address");
    query.limit = Duration::from_secs(60);
    let found = query.ask(&Going::once());
    serving.join().expect("it ends");
    found
}

fn ok(json: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{json}", json.len())
}

const VECTOR: &str =
    r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1.5,"0.0042"]}]}}"#;

#[test]
fn one_number_is_taken() {
    assert_eq!(asked(ok(VECTOR)), Ok(Some(0.0042)));
    let (first, second) = VECTOR.split_at(30);
    let chunks = format!("{:x}\r\n{first}\r\n{:X};x=y\r\n{second}\r\n0\r\n\r\n", first.len(), second.len());
    assert_eq!(asked(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}")), Ok(Some(0.0042)));
    assert_eq!(asked(format!("HTTP/1.0 200 OK\r\n\r\n{VECTOR}")), Ok(Some(0.0042)));
    let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1.5,"7"]}}"#;
    assert_eq!(asked(ok(scalar)), Ok(Some(7.0)));
    for none in [VECTOR.replace("0.0042", "NaN"), VECTOR.replace(r#"{"metric":{},"value":[1.5,"0.0042"]}"#, "")] {
        assert_eq!(asked(ok(&none)), Ok(None), "{none}");
    }
}

#[test]
fn what_is_no_number_is_told() {
    let two = VECTOR.replace("]}]", r#"]},{"metric":{},"value":[1.5,"1"]}]"#);
    let error = "HTTP/1.1 400 Bad Request\r\nContent-Length: 52\r\n\r\n{\"status\":\"error\",\"error\":\"parse error: no such thing\"}";
    for (answer, told) in [
        (ok(&two), "2 series"),
        (ok(&VECTOR.replace("vector", "matrix")), "a matrix"),
        (ok("{}"), "not as Prometheus does"),
        (ok("<html>"), "not as Prometheus does"),
        (ok(&VECTOR.replace("0.0042", "fast")), "the value `fast`"),
        (error.replace("52", "55"), "parse error: no such thing"),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(), "status 404"),
        (String::new(), "closed the connection"),
        ("SSH-2.0-x\r\n".to_owned(), "is not HTTP"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{".to_owned(), "closed the connection"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_owned(), "is not HTTP"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n".to_owned(), "is not HTTP"),
        (format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(ANSWER_MAX + 1)), "larger than 1 MiB"),
    ] {
        let why = asked(answer.clone()).expect_err(&answer[..answer.len().min(99)]);
        assert!(why.contains(told), "{why}");
    }
}

#[test]
fn a_server_that_is_slow_or_gone_is_given_up() {
    let (ends, end) = std::sync::mpsc::channel::<()>();
    let (at, serving) = server(1, move |mut stream| {
        // A byte now and then never lets a read wait for long.
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while end.recv_timeout(Duration::from_millis(10)).is_err() {
            let _ = stream.write_all(b"x");
        }
    });
    let mut query = PromQuery::parse(&format!("{at} up")).expect("an address");
    query.limit = Duration::from_millis(300);
    let why = query.ask(&Going::once()).expect_err("it is slow");
    assert!(why.contains("does not answer within"), "{why}");
    ends.send(()).expect("it listens");
    serving.join().expect("it ends");
    // What another test starts has the listener as well until it is another program.
    napier_testkit::eventually("it is gone", || query.ask(&Going::once()).expect_err("it is gone").contains("refused"));
}

#[test]
fn a_judge_of_it_has_the_mean_of_a_block() {
    let (at, serving) = server(3, |mut stream| _ = stream.write_all(ok(VECTOR).as_bytes()));
    let mut judge = prometheus("prom:x", &format!("{at}/ up"), Some("p99"), Better::Less).expect("it answers");
    judge.begin().expect("it begins");
    let mut seen = Vec::new();
    napier_testkit::eventually("it is seen", || {
        if let Ok(Look::Seen(reading)) = judge.look() {
            seen.push(reading.values[0]);
        }
        !seen.is_empty()
    });
    assert_eq!((seen[0], judge.figures()[0].name.as_str()), (Some(0.0042), "p99"));
    drop(judge);
    // What was not asked any more is asked for by this test.
    while !serving.is_finished() {
        let _ = TcpStream::connect(at.trim_start_matches("http://"));
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn addresses_are_read() {
    let of = |text: &str| PromQuery::parse(text).map(|query| (query.host, query.target));
    assert_eq!(
        of("http://127.0.0.1:9090/a/ sum(rate(x{a=\"b c\"}[10s]))"),
        Ok((
            "127.0.0.1:9090".to_owned(),
            "/a/api/v1/query?query=sum%28rate%28x%7Ba%3D%22b%20c%22%7D%5B10s%5D%29%29".to_owned()
        ))
    );
    assert!(of("http://[::1]:9090 up").is_ok());
    for (text, told) in [
        ("http://127.0.0.1:9090", "has no query"),
        ("https://127.0.0.1 up", "no TLS"),
        ("127.0.0.1:9090 up", "is no address"),
        ("http:// up", "is no address"),
        ("http://user@127.0.0.1 up", "is no address"),
        ("http://127.0.0.1/?x up", "is no address"),
    ] {
        let why = of(text).expect_err(text);
        assert!(why.contains(told), "{text}: {why}");
    }
}

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;

use super::*;

/// A listener, and two ends of a connection to it.
fn pair() -> (TcpListener, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let (server, _) = listener.accept().expect("accepted");
    (listener, client, server)
}

fn inode(fd: std::os::fd::BorrowedFd<'_>) -> u64 {
    rustix::fs::fstat(fd).expect("told").st_ino
}

fn rows(connections: &mut Connections) -> Vec<ConnectionRow> {
    let mut rows = Vec::new();
    connections.look(&mut |row| rows.push(row)).expect("listed");
    rows
}

/// The kernel's list; `None` where it has none.
fn listed(inodes: &BTreeSet<u64>, test: &str) -> Option<Result<Connections, ConnectionsError>> {
    match open().map_err(ConnectionsError::NotListed).and_then(|fd| Connections::by(fd, inodes)) {
        Err(ConnectionsError::NotListed(error)) => {
            napier_testkit::skip!(test, "{error}");
            None
        }
        found => Some(found),
    }
}

#[test]
fn connections_to_a_port_are_found_with_their_figures() {
    let (listener, mut client, mut server) = pair();
    let (_other, _client, _server) = pair();
    let own = BTreeSet::from([inode(listener.as_fd())]);
    let Some(found) = listed(&own, "connections_to_a_port_are_found_with_their_figures") else { return };
    let mut connections = found.expect("it listens");
    let port = listener.local_addr().expect("an address").port();
    assert_eq!(connections.ports(), [port]);
    let before = rows(&mut connections);
    assert_eq!(
        before.len(),
        1,
        "the client's end has another port, and the other listener's connection too: {before:?}"
    );
    for _ in 0..10 {
        client.write_all(b"ask").expect("sent");
        server.read_exact(&mut [0; 3]).expect("read");
        server.write_all(b"answer").expect("sent");
        client.read_exact(&mut [0; 6]).expect("read");
    }
    let mut row = before[0];
    napier_testkit::eventually("the last answer is acknowledged", || {
        row = rows(&mut connections)[0];
        row.bytes_acked - before[0].bytes_acked == 60
    });
    assert_eq!((row.cookie, row.port), (before[0].cookie, port));
    assert_eq!((row.bytes_received - before[0].bytes_received, row.data_segs_in - before[0].data_segs_in), (30, 10));
    assert!(row.srtt_us > 0 && row.min_rtt_us <= row.srtt_us && row.segs_in >= 10, "{row:?}");
    drop((client, server));
    napier_testkit::eventually("it is closed", || rows(&mut connections).is_empty());
}

#[test]
fn any_number_of_ports_is_a_filter() {
    for ports in [1, 2, 3, PORTS_MAX, PORTS_MAX + 1] {
        let all: Vec<_> = (0..ports).map(|_| pair()).collect();
        let own: BTreeSet<u64> = all.iter().map(|(listener, ..)| inode(listener.as_fd())).collect();
        let Some(found) = listed(&own, "any_number_of_ports_is_a_filter") else { return };
        let mut connections = found.expect("they listen");
        assert_eq!(connections.program.is_empty(), ports > PORTS_MAX);
        let seen: BTreeSet<u16> = rows(&mut connections).iter().map(|row| row.port).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), connections.ports(), "of {ports}");
    }
}

#[test]
fn who_listens_on_nothing_is_known_by_its_descriptors() {
    let (_listener, client, _server) = pair();
    let own = BTreeSet::from([inode(client.as_fd())]);
    let Some(found) = listed(&own, "who_listens_on_nothing_is_known_by_its_descriptors") else { return };
    let mut connections = found.expect("it is connected");
    assert_eq!((connections.ports(), rows(&mut connections).len()), (Vec::new(), 1));
    assert!(matches!(listed(&BTreeSet::from([1]), ""), Some(Err(ConnectionsError::NoTcp))));
}

#[test]
fn short_answers_are_passed_over() {
    let whole = vec![0; MESSAGE];
    let head = DiagHead::parse(&whole).expect("long enough");
    assert!(DiagHead::parse(&whole[1..]).is_none() && row(&head, &whole).is_none());
    let mut short = whole;
    short.extend([12, 0, INFO as u8, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(row(&head, &short), None);
    short.extend([255; 3]);
    assert_eq!(row(&head, &short), None);
}

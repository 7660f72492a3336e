//! Who reaches whom, by which names, and that nothing is left.

use super::*;

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

struct Stand {
    near: Arc<Near>,
    bell: Arc<NearBell>,
}

impl Stand {
    fn new() -> Self {
        Self { near: Arc::default(), bell: Arc::new(NearBell::new().expect("a descriptor")) }
    }

    fn listen(&self, address: &str, token: u64) -> NearListener {
        self.near.listen(at(address), false, token, &self.bell)
    }

    fn heard(&self) -> Vec<u64> {
        self.bell.heard().into_iter().collect()
    }

    fn is_empty(&self) -> bool {
        let table = locked(&self.near.table);
        table.open.is_empty() && table.listening.is_empty()
    }
}

#[test]
fn an_address_is_before_a_wildcard_and_a_family_for_both_takes_both() {
    let stand = Stand::new();
    let own = stand.listen("192.0.2.10:80", 1);
    let any = stand.listen("0.0.0.0:80", 2);
    let both = stand.listen("[::]:443", 3);
    let only = stand.near.listen(at("[::]:444"), true, 4, &stand.bell);
    let six = stand.listen("[2001:db8::1]:443", 5);
    let table: [(&str, Option<(u64, &NearListener)>); 8] = [
        ("192.0.2.10:80", Some((1, &own))),
        ("[::ffff:192.0.2.10]:80", Some((1, &own))),
        ("192.0.2.11:80", Some((2, &any))),
        ("192.0.2.10:443", Some((3, &both))),
        ("[2001:db8::1]:443", Some((5, &six))),
        ("[2001:db8::1]:444", Some((4, &only))),
        ("192.0.2.10:444", None),
        ("192.0.2.10:81", None),
    ];
    for (to, expected) in table {
        match (stand.near.connect(None, at(to)), expected) {
            (Ok(opened), Some((token, listener))) => {
                assert_eq!(stand.heard(), [token], "{to}");
                let taken = listener.accept().expect("it waits");
                assert_eq!((opened.local(), opened.peer()), (taken.peer(), taken.local()));
                assert_eq!((opened.peer(), opened.local().ip()), (plain(at(to)), plain(at(to)).ip()));
                assert!(PORTS.contains(&opened.local().port()));
            }
            (Err(error), None) => assert_eq!(error, libc::ECONNREFUSED, "{to}"),
            (done, _) => panic!("{to}: {:?}", done.map(|end| end.peer())),
        }
    }
    drop((own, any, both, only, six));
    assert!(stand.is_empty());
}

#[test]
fn ports_are_taken_once_and_given_back() {
    let stand = Stand::new();
    let listener = stand.listen("192.0.2.10:80", 1);
    let connect = |from: Option<&str>| stand.near.connect(from.map(at), at("192.0.2.10:80"));
    let bound = connect(Some("0.0.0.0:5000")).expect("connected");
    assert_eq!(bound.local(), at("192.0.2.10:5000"));
    assert_eq!(connect(Some("192.0.2.10:5000")).err(), Some(libc::EADDRNOTAVAIL));
    assert_eq!(connect(Some("192.0.2.10:80")).err(), Some(libc::EADDRNOTAVAIL), "itself");
    let taken = listener.accept();
    drop(bound);
    assert_eq!(connect(Some("192.0.2.10:5000")).err(), Some(libc::EADDRNOTAVAIL), "the other end is there");
    drop(taken);
    connect(Some("192.0.2.10:5000")).expect("it is free");
    // As many wait as may; their ports differ.
    drop(listener);
    let listener = stand.listen("192.0.2.10:80", 1);
    let many: Vec<_> = (0..WAITING_MAX).map(|_| connect(None).expect("connected")).collect();
    let ports: HashSet<_> = many.iter().map(NearEnd::local).collect();
    assert_eq!(ports.len(), WAITING_MAX);
    assert_eq!(connect(None).err(), Some(libc::ETIMEDOUT));
    assert_eq!((stand.heard(), stand.heard()), (vec![1], Vec::new()));
    // They are reset when it is closed.
    drop(listener);
    let error = many[0].recv(&mut [0]).expect_err("reset");
    assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
    drop(many);
    assert!(stand.is_empty());
}

#[test]
fn listeners_of_one_port_take_turns() {
    let stand = Stand::new();
    let both = [stand.listen("192.0.2.10:80", 1), stand.listen("192.0.2.10:80", 2)];
    let many: Vec<_> = (0..10).map(|_| stand.near.connect(None, at("192.0.2.10:80")).expect("connected")).collect();
    for listener in &both {
        assert!(std::iter::from_fn(|| listener.accept()).count() >= 2, "each has some of {}", many.len());
    }
}

#[test]
fn bytes_ends_and_resets_reach_the_other_end() {
    let stand = Stand::new();
    let listener = stand.listen("192.0.2.10:80", 1);
    let connected = || {
        let opened = stand.near.connect(None, at("192.0.2.10:80")).expect("connected");
        (opened, listener.accept().expect("it waits"))
    };
    let swapped = |(one, other)| (other, one);
    let mut into = [0; 8];
    for (sender, receiver) in [connected(), swapped(connected())] {
        assert_eq!(receiver.recv(&mut into).expect_err("nothing").kind(), io::ErrorKind::WouldBlock);
        assert_eq!(sender.send(b"four").expect("sent"), 4);
        sender.end_sending();
        // Not before it is closed.
        sender.set_reset(true);
        assert_eq!((receiver.recv(&mut into).expect("four"), receiver.recv(&mut into).expect("the end")), (4, 0));
        receiver.send(b"x").expect("the other half goes on");
        drop(sender);
        let error = receiver.recv(&mut into).expect_err("reset");
        assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
    }
    let (one, other) = connected();
    one.set_reset(true);
    one.set_reset(false);
    drop(one);
    assert_eq!(other.recv(&mut into).expect("the end"), 0);
}

use super::*;

/// An answer that took nothing.
fn free(line: impl Into<String>) -> Answer {
    Answer::Now(Said { line: line.into(), spent: Duration::ZERO })
}

fn pair(now_ns: u64) -> (Session, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("two descriptors");
    theirs.set_nonblocking(true).expect("set");
    (Session::new(1, ours, now_ns).expect("a session"), theirs)
}

fn said(theirs: &mut UnixStream) -> String {
    let mut text = String::new();
    let _ = theirs.read_to_string(&mut text);
    text
}

#[test]
fn a_burst_is_answered_at_once_and_what_is_beyond_it_at_the_rate() {
    let second = 1_000_000_000;
    let (mut session, mut theirs) = pair(10 * second);
    // Time that was not used counts for a burst only.
    let mut now = 20 * second;
    let mut answered = 0;
    let turn = |session: &mut Session, now: u64, answered: &mut u64| {
        session.turn(now, &mut |_, _| {
            *answered += 1;
            free("")
        })
    };
    let _ = theirs.write(&[b'\n'; 3000]).expect("sent");
    for _ in 0..300 {
        assert!(turn(&mut session, now, &mut answered));
    }
    assert!((BURST_MAX..=BURST_MAX + 1).contains(&answered), "{answered}");
    let Waits::Turn { at_ns } = session.waits() else { panic!("{:?}", session.waits()) };
    assert!(at_ns > now && at_ns <= now + NS_PER_REQUEST);
    let before = answered;
    for _ in 0..1000 {
        now += NS_PER_REQUEST;
        assert!(turn(&mut session, now, &mut answered));
        said(&mut theirs);
    }
    assert_eq!(answered - before, 1000);
}

#[test]
fn what_takes_long_to_answer_is_paid_for() {
    let (mut session, mut theirs) = pair(0);
    theirs.write_all(b"a\nb\n").expect("sent");
    let now = 1_000_000_000;
    assert!(session.turn(now, &mut |_, _| Answer::Now(Said { line: String::new(), spent: Duration::from_millis(30) })));
    let Waits::Turn { at_ns } = session.waits() else { panic!("{:?}", session.waits()) };
    let credit = BURST_MAX * NS_PER_REQUEST;
    assert_eq!(at_ns, now - credit + NS_PER_REQUEST + 300_000_000);
    assert!(session.turn(at_ns - 1, &mut |_, _| panic!("it may not ask yet")));
    assert!(session.turn(at_ns, &mut |_, _| free("")));
    assert_eq!(session.waits(), Waits::Input);
}

#[test]
fn a_request_comes_in_pieces_and_answers_keep_their_order() {
    let (mut session, mut theirs) = pair(0);
    let mut echo = |_, line: &[u8]| free(String::from_utf8_lossy(line).to_uppercase());
    assert!(session.turn(1, &mut echo));
    assert_eq!(session.waits(), Waits::Input);
    theirs.write_all(b"one\ntw").expect("sent");
    assert!(session.turn(1, &mut echo));
    assert_eq!((said(&mut theirs), session.waits()), ("ONE\n".to_owned(), Waits::Input));
    theirs.write_all(b"o\n\n").expect("sent");
    assert!(session.turn(BURST_MAX * NS_PER_REQUEST, &mut echo));
    assert!(session.turn(BURST_MAX * NS_PER_REQUEST, &mut echo));
    assert_eq!(said(&mut theirs), "TWO\n\n");
    drop(theirs);
    assert!(!session.turn(2, &mut echo), "it went");
}

#[test]
fn a_line_without_end_is_told_of_and_ended() {
    let (mut session, mut theirs) = pair(0);
    let long = vec![b'x'; REQUEST_BYTES_MAX + 1];
    let mut sent = 0;
    let mut turns = 0;
    loop {
        if let Ok(length) = theirs.write(&long[sent..]) {
            sent += length;
        }
        turns += 1;
        if !session.turn(0, &mut |_, _| panic!("there is no request")) {
            break;
        }
        assert!(turns < 1000, "it comes to an end");
    }
    assert!(session.input.len() <= REQUEST_BYTES_MAX);
    assert!(said(&mut theirs).contains("at most 65536 bytes"));
}

#[test]
fn a_client_that_does_not_read_is_left_after_a_while_and_is_asked_for_no_more() {
    let (mut session, mut theirs) = pair(0);
    theirs.write_all(b"a\nb\n").expect("sent");
    let mut answers = 0;
    let mut big = |_: u64, _: &[u8]| {
        answers += 1;
        free("x".repeat(8 << 20))
    };
    let now = 5;
    assert!(session.turn(now, &mut big), "more than a socket holds");
    let Waits::Output { until_ns } = session.waits() else { panic!("{:?}", session.waits()) };
    assert_eq!(until_ns, now + PATIENCE_NS);
    assert!(session.turn(until_ns - 1, &mut big));
    assert!(!session.turn(until_ns, &mut big));
    assert_eq!(answers, 1);
}

#[test]
fn who_asked_for_a_change_is_answered_when_it_is_done() {
    let (mut session, mut theirs) = pair(0);
    let _ = theirs.write(b"change\nlook\n").expect("sent");
    assert!(session.turn(1, &mut |number, line| {
        assert_eq!((number, line), (1, &b"change"[..]));
        Answer::Later
    }));
    assert_eq!(session.waits(), Waits::Answer);
    // What it asks for next waits for that.
    assert!(session.turn(2, &mut |_, _| panic!("one request at a time")));
    assert_eq!(said(&mut theirs), "");
    session.answered(Said { line: "changed".to_owned(), spent: Duration::ZERO }, 3);
    assert!(matches!(session.waits(), Waits::Output { .. }));
    assert!(session.turn(BURST_MAX * NS_PER_REQUEST, &mut |_, line| free(String::from_utf8_lossy(line))));
    while session.waits() != Waits::Input {
        assert!(session.turn(BURST_MAX * NS_PER_REQUEST, &mut |_, line| free(String::from_utf8_lossy(line))));
    }
    assert_eq!(said(&mut theirs), "changed\nlook\n");
}

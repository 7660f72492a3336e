use napier_core::time::{Deadline, Instant, Span};

use crate::event::Interest;
use crate::tcp::machine::TcpState;
use crate::tcp::rules::{Cause, KeepAlive, Patience, View, error_of, ready, silence_ends, silence_max, unanswered_max};
use crate::tcp::tests::STATES;

fn views() -> impl Iterator<Item = View> {
    let flags = |bits: u32, at: u32| bits >> at & 1 != 0;
    STATES.into_iter().flat_map(move |state| {
        (0..64).map(move |bits| View {
            state,
            queued: flags(bits, 0),
            room: flags(bits, 1),
            fin: flags(bits, 2),
            read_shut: flags(bits, 3),
            write_shut: flags(bits, 4),
            error: if flags(bits, 5) { libc::ECONNRESET } else { 0 },
        })
    })
}

/// Every view against the sentences of `tcp_poll`.
#[test]
fn conditions() {
    for view in views() {
        let on = |bit| ready(&view).contains(bit);
        let closed = view.state == TcpState::Closed;
        let connecting = matches!(view.state, TcpState::SynSent | TcpState::SynReceived);
        let (no_more, no_send) = (view.fin || view.read_shut || closed, view.write_shut || closed);
        assert_eq!(on(Interest::ERR), view.error != 0, "{view:?}");
        assert_eq!(on(Interest::HUP), no_more && no_send, "{view:?}");
        assert_eq!(on(Interest::RDHUP), no_more, "{view:?}");
        assert_eq!(on(Interest::IN), no_more || view.queued && !connecting, "{view:?}");
        assert_eq!(on(Interest::OUT), !connecting && (no_send || view.room), "{view:?}");
    }
}

#[test]
fn whoever_waits_is_told_of_the_end() {
    for view in views().filter(|view| view.state == TcpState::Closed) {
        assert!(ready(&view).contains(Interest::IN | Interest::OUT | Interest::HUP), "{view:?}");
    }
}

#[test]
fn errors() {
    for state in STATES {
        assert_eq!(error_of(state, Cause::Program), 0);
        assert_eq!(error_of(state, Cause::Silence), libc::ETIMEDOUT);
        let expected = match state {
            TcpState::SynSent => libc::ECONNREFUSED,
            TcpState::CloseWait => libc::EPIPE,
            TcpState::Closed | TcpState::LastAck | TcpState::TimeWait => 0,
            TcpState::SynReceived
            | TcpState::Established
            | TcpState::FinWait1
            | TcpState::FinWait2
            | TcpState::Closing => libc::ECONNRESET,
        };
        assert_eq!(error_of(state, Cause::Segment), expected, "{state:?}");
    }
}

#[test]
fn silence() {
    let none = Patience::default();
    let keep = KeepAlive { idle: Span::from_secs(10), interval: Span::from_secs(2), probes: 3 };
    let keeps = Patience { keep: Some(keep), user: None };
    let user = |secs| Patience { keep: None, user: Some(Span::from_secs(secs)) };
    let both = |secs| Patience { keep: Some(keep), user: Some(Span::from_secs(secs)) };
    let secs = |state, orphan, data, of: Patience| {
        let answer = if orphan { None } else { unanswered_max(state, data, &of) };
        let least = silence_max(state, orphan, &of).into_iter().chain(answer).min();
        least.map(|span| span.ns / 1_000_000_000)
    };
    for state in [TcpState::Established, TcpState::CloseWait, TcpState::FinWait2] {
        assert_eq!(secs(state, false, false, none), None, "an idle connection lives for ever");
        assert_eq!(secs(state, false, true, none), Some(924));
        assert_eq!(secs(state, false, false, keeps), Some(16));
        assert_eq!(secs(state, false, true, keeps), Some(16));
        assert_eq!(secs(state, false, false, user(5)), None, "it bounds what is unacknowledged");
        assert_eq!(secs(state, false, true, user(5)), Some(5));
        assert_eq!(secs(state, false, false, both(5)), Some(12), "not before a probe was sent and not answered");
        assert_eq!(secs(state, false, false, both(40)), Some(40));
        assert_eq!(secs(state, false, true, both(5)), Some(5));
    }
    assert_eq!(secs(TcpState::SynSent, false, false, none), Some(127));
    assert_eq!(secs(TcpState::SynSent, false, false, user(3)), Some(3));
    assert_eq!(secs(TcpState::SynReceived, false, false, none), Some(63));
    for state in [TcpState::FinWait1, TcpState::FinWait2, TcpState::Closing, TcpState::LastAck] {
        assert_eq!(secs(state, true, true, keeps), Some(60), "nobody is left who could end it");
        assert_eq!(secs(state, true, true, user(500)), Some(60));
    }
    for state in [TcpState::Closed, TcpState::TimeWait] {
        assert_eq!(secs(state, true, true, both(5)), None);
    }
}

#[test]
fn silence_begins_with_the_later_of_word_and_question() {
    let at = Instant::from_ns;
    let limit = Some(Span::from_ns(100));
    assert_eq!(silence_ends(at(5), None, limit), Deadline::at(at(105)));
    assert_eq!(silence_ends(at(5), Some(at(50)), limit), Deadline::at(at(150)));
    assert_eq!(silence_ends(at(70), Some(at(50)), limit), Deadline::at(at(170)));
    assert_eq!(silence_ends(at(70), Some(at(50)), None), Deadline::NEVER);
}

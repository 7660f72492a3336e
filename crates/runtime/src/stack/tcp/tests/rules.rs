use napier_core::time::{Deadline, Instant, Span};
use smoltcp::socket::tcp::State;

use super::super::rules::{Cause, KeepAlive, View, error_of, ready, silence_ends, silence_max};
use crate::event::Interest;

const STATES: [State; 11] = [
    State::Closed,
    State::Listen,
    State::SynSent,
    State::SynReceived,
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
    State::TimeWait,
];

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
        let closed = view.state == State::Closed;
        let connecting = matches!(view.state, State::SynSent | State::SynReceived | State::Listen);
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
    for view in views().filter(|view| view.state == State::Closed) {
        assert!(ready(&view).contains(Interest::IN | Interest::OUT | Interest::HUP), "{view:?}");
    }
}

#[test]
fn errors() {
    for state in STATES {
        assert_eq!(error_of(state, Cause::Program), 0);
        assert_eq!(error_of(state, Cause::Silence), libc::ETIMEDOUT);
        let expected = match state {
            State::SynSent => libc::ECONNREFUSED,
            State::CloseWait => libc::EPIPE,
            State::Closed | State::Listen | State::LastAck | State::TimeWait => 0,
            State::SynReceived | State::Established | State::FinWait1 | State::FinWait2 | State::Closing => {
                libc::ECONNRESET
            }
        };
        assert_eq!(error_of(state, Cause::Segment), expected, "{state:?}");
    }
}

#[test]
fn silence() {
    let keep = KeepAlive { idle: Span::from_secs(10), interval: Span::from_secs(2), probes: 3 };
    let secs = |state, orphan, data, keep| silence_max(state, orphan, data, keep).map(|span| span.ns / 1_000_000_000);
    for state in [State::Established, State::CloseWait, State::FinWait2] {
        assert_eq!(secs(state, false, false, None), None, "an idle connection lives for ever");
        assert_eq!(secs(state, false, true, None), Some(924));
        assert_eq!(secs(state, false, false, Some(&keep)), Some(16));
        assert_eq!(secs(state, false, true, Some(&keep)), Some(16));
    }
    assert_eq!(secs(State::SynSent, false, false, None), Some(127));
    assert_eq!(secs(State::SynReceived, false, false, None), Some(63));
    for state in [State::FinWait1, State::FinWait2, State::Closing, State::LastAck] {
        assert_eq!(secs(state, true, true, Some(&keep)), Some(60), "nobody is left who could end it");
    }
    for state in [State::Closed, State::Listen, State::TimeWait] {
        assert_eq!(secs(state, true, true, Some(&keep)), None);
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

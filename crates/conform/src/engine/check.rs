//! Steps that look at something.

use napier_core::state::State;
use napier_core::time::Instant;
use napier_runtime::journal::Record;
use napier_runtime::socket::SocketOption;
use napier_scenario::{Check, Event, NapiIx, Seen};

use super::log::{NapiKnown, delivered, states};
use super::rig::EngineRig;
use crate::Refused;
use crate::real::clock::RunWindow;
use crate::real::refused;

/// What could be seen only at the time of a check. The rest is read from the journal afterwards, for that time.
pub(super) struct Looked {
    check: Check,
    line: u32,
    at_ns: u64,
    /// Packets in the ring of the instance since it was made.
    sent: u64,
    /// Packets read from the socket.
    taken: u64,
    /// The name of the instance whose id the socket has recorded.
    recorded: String,
    /// The name of the instance in the slot of the event context.
    slot: String,
}

/// Looks.
pub(super) fn look(rig: &EngineRig<'_>, check: &Check, line: u32, sent: &[u64]) -> Looked {
    let id = check
        .socket
        .and_then(|socket| rig.socket(socket.at()))
        .map_or(0, |socket| socket.getsockopt(SocketOption::IncomingNapiId).expect("it can be read").unsigned_abs());
    let slot = check.epoll.and_then(|epoll| rig.epoll(epoll.at())).map_or(0, |epoll| epoll.napi_id());
    Looked {
        check: check.clone(),
        line,
        at_ns: rig.engine.now_ns(),
        sent: check.napi.map_or(0, |napi| sent[napi.at()]),
        taken: check.socket.map_or(0, |socket| rig.taken(socket)),
        recorded: name(rig, id),
        slot: name(rig, slot),
    }
}

fn name(rig: &EngineRig<'_>, id: u32) -> String {
    if id == 0 { "none".to_owned() } else { rig.name_of_id(id).unwrap_or_else(|| id.to_string()) }
}

/// Both sides of what differs.
#[derive(Default)]
struct Sides {
    expected: Vec<String>,
    seen: Vec<String>,
}

impl Sides {
    fn compare(&mut self, name: &str, want: Option<impl ToString>, have: impl ToString) {
        let Some(want) = want else { return };
        let (want, have) = (want.to_string(), have.to_string());
        if want != have {
            self.expected.push(format!("{name} = {want}"));
            self.seen.push(format!("{name} = {have}"));
        }
    }
}

/// The checks that do not hold.
pub(super) fn failures(
    rig: &EngineRig<'_>,
    records: &[Record],
    looked: &[Looked],
    window: RunWindow,
) -> Result<Vec<Seen>, Refused> {
    let mut failures = Vec::new();
    for looked in looked {
        let check = &looked.check;
        let mut sides = Sides::default();
        if let Some(napi) = check.napi {
            let known = states(rig, records, looked.at_ns)[napi.at()];
            compare_napi(check, &known, looked.sent, &mut sides)?;
        }
        if let Some(socket) = check.socket {
            let queued = delivered(rig, records, looked.at_ns)[socket.at()] - looked.taken;
            sides.compare("queued", check.queued, queued);
            sides.compare("recorded", check.recorded.map(|napi| wanted(rig, napi)), &looked.recorded);
        }
        if check.epoll.is_some() {
            sides.compare("slot", check.slot.map(|napi| wanted(rig, napi)), &looked.slot);
        }
        if !sides.expected.is_empty() {
            let at = Instant::from_ns(looked.at_ns.saturating_sub(window.start_ns));
            let (expected, seen) = (sides.expected.join(", "), sides.seen.join(", "));
            failures.push(Seen { at, event: Event::CheckFailed { line: looked.line, expected, seen } });
        }
    }
    Ok(failures)
}

fn wanted(rig: &EngineRig<'_>, napi: Option<NapiIx>) -> String {
    napi.map_or_else(|| "none".to_owned(), |napi| rig.napi_name(napi.at()))
}

fn compare_napi(check: &Check, known: &NapiKnown, sent: u64, sides: &mut Sides) -> Result<(), Refused> {
    let word = known.word;
    if !word.contains(check.set) || word.intersects(check.clear) {
        sides.compare("set", Some(format!("{:?}", word.with(check.set).without(check.clear))), format!("{word:?}"));
    }
    sides.compare("defers-left", check.defers_left, known.defers_left);
    sides.compare("pending", check.pending, sent - known.taken);
    sides.compare("held", check.held, known.held);
    sides.compare("masked", check.masked, known.masked);
    sides.compare("armed", check.armed, known.armed);
    sides.compare("thread", check.thread, known.thread);
    if check.listed.is_some() {
        // Only an owned instance is on a list, and one that is disabled was taken off.
        if word.contains(State::SCHED) && !word.is_disabled() {
            return Err(refused("the engine does not tell whether an owned instance is on a poll list"));
        }
        sides.compare("listed", check.listed, false);
    }
    Ok(())
}

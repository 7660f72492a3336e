//! What a look at a member tells.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::group::{GroupCpu, Seat, Settings};
use napier_core::state::State;
use napier_core::time::Instant;

use super::super::GroupMember;
use crate::available_cpus;
use crate::device::LinkConfig;
use crate::engine::Engine;
use crate::test_link::end;

/// A member that no thread polls: a look at it is made by the test.
#[test]
fn a_look_finds_what_a_turn_is_for() {
    let engine = Engine::builder().softirq_cpus(&available_cpus()[..1]).fifo(false).start().unwrap();
    let (tested, peer) = engine.add_link(&LinkConfig::default(), end(&engine, "a", 0), end(&engine, "b", 1)).unwrap();
    engine.group_new("g", &available_cpus()[..1], Settings::default()).unwrap();
    let deliver = &engine.inner.deliver;
    let (group, napi) = (deliver.groups.group("g"), deliver.napi_by_id(tested.napi_id(0)).unwrap().clone());
    let member = Arc::new(GroupMember::new(napi.clone(), &group));
    assert!(member.sit_if(|seat| seat.reserve(GroupCpu(0))));
    deliver.groups.member(&napi).store(Some(member.clone()));
    assert!(super::super::control::claim(deliver, &napi));
    let _ = member.sit(Seat::attached);

    let now = Instant::from_ns(7);
    assert!(!member.is_quiet(now), "its last turn has not said so");
    member.idle.store(true, Ordering::Relaxed);
    assert!(member.is_quiet(now));
    assert_eq!(member.turn_ended_ns.load(Ordering::Relaxed), 7, "what comes has waited since then at most");

    let change = |rule: fn(State) -> State| napi.state.update(|bits| (rule(State::from_bits(bits)).bits(), ()));
    change(|state| state.with(State::MISSED));
    assert!(!member.is_quiet(now), "an event");
    change(|state| state.without(State::MISSED).disable_begin());
    assert!(!member.is_quiet(now), "a disable");
    change(|state| state.without(State::DISABLE));
    assert!(member.is_quiet(now));
    assert!(member.sit_if(|seat| seat.take(GroupCpu(0)).ok()));
    assert!(!member.is_quiet(now), "somebody has its turn");
    member.sit(|seat| (seat.give(), ()));
    assert!(member.is_quiet(now));
    let port = crate::raw::RawPort::bind(&peer, 0).unwrap();
    let build = |frame: &mut [u8]| {
        frame[..60].fill(0xff);
        60
    };
    port.build(60, build).unwrap();
    port.flush();
    assert!(!member.is_quiet(now), "a packet");

    deliver.groups.take_out(deliver, &group, &member);
    engine.group_del("g").unwrap();
}

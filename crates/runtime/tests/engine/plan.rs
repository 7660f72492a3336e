//! Plans put into force on the engine, and taken back.

use napier_core::sockopt::BusyOption;
use napier_runtime::control::plan::{Place, Plan, Write, apply, put_back};
use napier_runtime::control::{DevSetting, DevSettings, Errno, NapiChange, NapiInfo, NapiSetError, ThreadedSetting};
use napier_runtime::device::LinkConfig;
use napier_runtime::engine::{EngineSink, EngineWriteError};
use napier_runtime::event::{EpollParams, EventContext};
use napier_runtime::socket::{SocketOption, UdpSocket};

use crate::common::{Pair, TESTED_V4, v4};

fn span(us: u64) -> napier_core::time::Span {
    napier_core::time::Span::from_us(us)
}

fn instances(pair: &Pair) -> Vec<NapiInfo> {
    pair.engine.napi_dump(Some(u64::from(pair.tested.ifindex()))).expect("the device is there")
}

fn suspending() -> Plan {
    let busy = EpollParams { busy_poll_usecs: 0, busy_poll_budget: 64, prefer_busy_poll: true };
    let writes = [
        Write::Instance(NapiChange::DeferHardIrqs(100)),
        Write::Instance(NapiChange::GroFlushTimeout(span(20))),
        Write::Instance(NapiChange::IrqSuspendTimeout(span(20_000))),
        Write::Instance(NapiChange::Threaded(ThreadedSetting::Workqueue)),
        Write::Socket(BusyOption::BusyPoll, 400),
        Write::Socket(BusyOption::PreferBusyPoll, 1),
        Write::Context(busy),
    ];
    writes.into_iter().collect()
}

#[test]
fn instances_sockets_and_contexts_take_their_part_of_a_plan_and_give_it_back() {
    let pair = Pair::new(&LinkConfig { queues: 2, ring_size: 64, ..LinkConfig::default() });
    let plan = suspending();
    let at_first = instances(&pair);
    let mut device = EngineSink::Device(&pair.engine, &pair.tested);
    let changes = apply(&mut device, &plan).expect("the engine has all of it");
    assert_eq!(changes.len(), 8, "four attributes on each of two instances");
    for info in instances(&pair) {
        assert!(plan.changes().all(|change| info.in_place_of(change) == Some(change)), "{info:?}");
    }
    put_back(&mut device, &changes).expect("they are still there");
    assert_eq!(instances(&pair), at_first);

    let socket = UdpSocket::bind(&pair.tested_ns, v4(TESTED_V4, 9)).expect("it is free");
    let mut sink = EngineSink::Socket(&socket);
    let changes = apply(&mut sink, &plan).expect("the engine has all of it");
    let busy = || [SocketOption::BusyPoll, SocketOption::PreferBusyPoll].map(|option| socket.getsockopt(option));
    assert_eq!(busy(), [Ok(400), Ok(1)]);
    put_back(&mut sink, &changes).expect("it is still there");
    assert_eq!(busy(), [Ok(0), Ok(0)]);

    let context = EventContext::new(&pair.engine);
    let mut sink = EngineSink::Context(&context);
    let changes = apply(&mut sink, &plan).expect("the engine has all of it");
    assert_eq!(Some(context.params()), plan.context());
    put_back(&mut sink, &changes).expect("it is still there");
    assert_eq!(context.params(), EpollParams::default());
}

#[test]
fn threads_of_a_device_come_and_go_and_an_instance_keeps_its_own() {
    let pair = Pair::new(&LinkConfig { queues: 2, ring_size: 64, ..LinkConfig::default() });
    let own = NapiChange::Threaded(ThreadedSetting::BusyPoll);
    pair.engine.napi_set(own.request(pair.tested.napi_id(1))).expect("it is there");
    let threaded = || instances(&pair).iter().rev().map(|info| info.threaded).collect::<Vec<_>>();
    let mut device = EngineSink::Device(&pair.engine, &pair.tested);
    let plan: Plan = [Write::Device(DevSetting::Threaded(ThreadedSetting::Enabled))].into_iter().collect();
    let changes = apply(&mut device, &plan).expect("threads can be started");
    assert_eq!(threaded(), [Some(ThreadedSetting::Enabled); 2]);
    put_back(&mut device, &changes).expect("they are still there");
    assert_eq!(threaded(), [ThreadedSetting::Disabled, ThreadedSetting::BusyPoll].map(Some));
    assert_eq!(pair.tested.settings(), DevSettings::default());
    assert!(instances(&pair).last().expect("two are there").pid.is_none(), "its thread is gone");
}

#[test]
fn a_plan_that_is_refused_leaves_nothing_behind() {
    let pair = Pair::new(&LinkConfig { queues: 2, ring_size: 64, ..LinkConfig::default() });
    let at_first = instances(&pair);
    let too_many = Write::Instance(NapiChange::DeferHardIrqs(u32::MAX));
    let plan: Plan = suspending().writes().copied().chain([too_many]).collect();
    let mut device = EngineSink::Device(&pair.engine, &pair.tested);
    let error = apply(&mut device, &plan).expect_err("the last write is out of range");
    assert_eq!(instances(&pair), at_first);
    let first = Place::Instance(pair.tested.napi_id(0));
    assert_eq!((error.refused.place, error.refused.write, error.left.len()), (Some(first), too_many, 0));
    assert!(matches!(&error.refused.error, EngineWriteError::NapiSet(why) if why.errno() == Errno::ERANGE));
    let said = format!("defer-hard-irqs {} on {first}: ERANGE: defer-hard-irqs must be 0..=2147483647", u32::MAX);
    assert_eq!(error.to_string(), said);

    let changes = apply(&mut device, &suspending()).expect("the engine has all of it");
    pair.tested.set_down();
    let left = put_back(&mut device, &changes).expect_err("no instance is enabled");
    assert_eq!(left.len(), changes.len());
    let gone = |error: &EngineWriteError| matches!(error, EngineWriteError::NapiSet(NapiSetError::NoSuchNapi { .. }));
    assert!(left.iter().all(|refusal| gone(&refusal.error)), "{left:?}");
}

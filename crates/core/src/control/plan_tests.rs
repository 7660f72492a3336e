use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use proptest::prelude::*;

use super::*;
use crate::control::ThreadedSetting;

/// An executor in memory: values by place, a device that writes to its instances, and writes that are refused.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Fake {
    /// `None`: the setting is not here.
    values: Vec<(String, Write)>,
    /// All calls of `write`, in order.
    log: Vec<String>,
    /// The write of this number is refused.
    refused: Option<usize>,
    /// A refused write of the device's `threaded` disables all threads, as the kernel does.
    harms: bool,
    instances: usize,
}

const INSTANCES: usize = 2;

fn same_setting(a: &Write, b: &Write) -> bool {
    match (a, b) {
        (Write::Instance(a), Write::Instance(b)) => core::mem::discriminant(a) == core::mem::discriminant(b),
        (Write::Device(a), Write::Device(b)) => core::mem::discriminant(a) == core::mem::discriminant(b),
        (Write::Socket(a, _), Write::Socket(b, _)) => a == b,
        _ => a.target() == b.target(),
    }
}

fn threaded(setting: ThreadedSetting) -> [Write; 2] {
    [Write::Instance(NapiChange::Threaded(setting)), Write::Device(DevSetting::Threaded(setting))]
}

impl Fake {
    fn new() -> Self {
        let mut values = Vec::new();
        let mut instances: Vec<String> = (0..INSTANCES).map(|at| format!("instance {at}")).collect();
        instances.push("device".to_string());
        for place in instances {
            let of_device = place == "device";
            for change in [
                NapiChange::Threaded(ThreadedSetting::Disabled),
                NapiChange::DeferHardIrqs(0),
                NapiChange::GroFlushTimeout(Span::ZERO),
                NapiChange::IrqSuspendTimeout(Span::ZERO),
            ] {
                match (of_device, change.as_dev_setting()) {
                    (true, Some(setting)) => values.push((place.clone(), Write::Device(setting))),
                    (true, None) => {}
                    (false, _) => values.push((place.clone(), Write::Instance(change))),
                }
            }
        }
        values.push(("socket".to_string(), Write::Socket(BusyOption::BusyPoll, 0)));
        values.push(("socket".to_string(), Write::Socket(BusyOption::PreferBusyPoll, 0)));
        values.push(("context".to_string(), Write::Context(EpollParams::default())));
        values.push(("wait".to_string(), Write::Wait(None)));
        Self { values, log: Vec::new(), refused: None, harms: false, instances: INSTANCES }
    }

    fn refusing(self, number: usize) -> Self {
        Self { refused: Some(number), ..self }
    }

    fn set(&mut self, place: &str, write: &Write) {
        for (at, value) in &mut self.values {
            if at == place && same_setting(value, write) {
                *value = *write;
            }
        }
        if let Write::Device(setting) = write {
            (0..self.instances)
                .for_each(|at| self.set(&format!("instance {at}"), &Write::Instance(setting.as_napi_change())));
        }
    }
}

impl Sink for Fake {
    type Place = String;
    type Error = &'static str;

    fn places(&mut self, target: Target) -> Result<Vec<String>, &'static str> {
        Ok(match target {
            Target::Instance => (0..self.instances).map(|at| format!("instance {at}")).collect(),
            Target::Device => vec!["device".to_string()],
            Target::Socket => vec!["socket".to_string()],
            Target::Context => vec!["context".to_string()],
            Target::Wait => vec!["wait".to_string()],
        })
    }

    fn read(&mut self, place: &String, write: &Write) -> Result<Option<Write>, &'static str> {
        Ok(self.values.iter().find(|(at, value)| at == place && same_setting(value, write)).map(|(_, value)| *value))
    }

    fn write(&mut self, place: &String, write: &Write) -> Result<(), &'static str> {
        if self.refused == Some(self.log.len()) {
            self.refused = None;
            if self.harms && matches!(write, Write::Device(DevSetting::Threaded(_))) {
                self.set(place, &threaded(ThreadedSetting::Disabled)[1]);
            }
            self.log.push(format!("{write} on {place} refused"));
            return Err("refused");
        }
        self.set(place, write);
        self.log.push(format!("{write} on {place}"));
        Ok(())
    }
}

fn plan(writes: &[Write]) -> Plan {
    writes.iter().copied().collect()
}

fn deferral(count: u32) -> Write {
    Write::Instance(NapiChange::DeferHardIrqs(count))
}

#[test]
fn a_plan_is_applied_place_by_place_and_taken_back_from_its_end() {
    let mut fake = Fake::new();
    let at_first = fake.values.clone();
    let busy = EpollParams { busy_poll_usecs: 64, busy_poll_budget: 8, prefer_busy_poll: true };
    let all = [
        deferral(100),
        threaded(ThreadedSetting::Enabled)[0],
        Write::Socket(BusyOption::BusyPoll, 400),
        Write::Context(busy),
        Write::Wait(Some(Span::from_ms(1))),
    ];
    let changes = apply(&mut fake, &plan(&all)).expect("nothing is refused");
    let written = [
        "defer-hard-irqs 100 on instance 0",
        "defer-hard-irqs 100 on instance 1",
        "threaded enabled on instance 0",
        "threaded enabled on instance 1",
        "SO_BUSY_POLL 400 on socket",
        "busy_poll_usecs 64, budget 8, prefer 1 (EPIOCSPARAMS) on context",
        "a wait of at most 1000000 ns on wait",
    ];
    assert_eq!(fake.log, written);
    fake.log.clear();
    put_back(&mut fake, &changes).expect("nothing is refused");
    assert_eq!(fake.values, at_first);
    let put_back = [
        "a wait until there is an event on wait",
        "busy_poll_usecs 0, budget 0, prefer 0 (EPIOCSPARAMS) on context",
        "SO_BUSY_POLL 0 on socket",
        "threaded disabled on instance 1",
        "threaded disabled on instance 0",
        "defer-hard-irqs 0 on instance 1",
        "defer-hard-irqs 0 on instance 0",
    ];
    assert_eq!(fake.log, put_back);
}

#[test]
fn what_is_there_already_is_not_written() {
    let mut fake = Fake::new();
    let changes = apply(&mut fake, &plan(&[deferral(0), threaded(ThreadedSetting::Disabled)[0]]));
    assert_eq!((changes, fake.log), (Ok(vec![]), vec![]));
    // What cannot be read is written, and stays.
    let mut fake = Fake::new();
    let budget = plan(&[Write::Socket(BusyOption::BusyPollBudget, 16)]);
    assert_eq!(apply(&mut fake, &budget), Ok(vec![]));
    assert_eq!(fake.log, ["SO_BUSY_POLL_BUDGET 16 on socket"]);
}

/// The device's file says nothing of its instances, so it is always written, and their own values come back.
#[test]
fn a_device_gives_back_what_its_instances_had() {
    let mut fake = Fake::new();
    let [each, device] = threaded(ThreadedSetting::BusyPoll);
    fake.set("instance 1", &each);
    let at_first = fake.values.clone();
    for setting in [ThreadedSetting::Enabled, ThreadedSetting::Disabled] {
        let changes = apply(&mut fake, &plan(&[threaded(setting)[1]])).expect("nothing is refused");
        let now: Vec<_> = (0..2).map(|at| fake.read(&format!("instance {at}"), &each)).collect();
        assert_eq!(now, vec![Ok(Some(threaded(setting)[0])); 2]);
        put_back(&mut fake, &changes).expect("nothing is refused");
        assert_eq!(fake.values, at_first);
    }
    // A refused write may have disabled all threads.
    for refused in [0, 1] {
        let mut fake = Fake { harms: true, ..fake.clone() }.refusing(fake.log.len() + refused);
        let result = apply(&mut fake, &plan(&[Write::Device(DevSetting::NapiDeferHardIrqs(3)), device]));
        assert!(result.is_err_and(|error| error.left.is_empty()));
        assert_eq!(fake.values, at_first);
    }
}

#[test]
fn a_refusal_names_the_write_its_place_and_what_was_left() {
    let writes = plan(&[deferral(7), Write::Instance(NapiChange::GroFlushTimeout(Span::from_us(20)))]);
    let mut fake = Fake::new().refusing(3);
    let error = apply(&mut fake, &writes).expect_err("the fourth write is refused");
    assert_eq!(error.to_string(), "gro-flush-timeout 20000 ns on instance 1: refused");
    assert_eq!(fake.values, Fake::new().values);
    let mut fake = Fake::new();
    let changes = apply(&mut fake, &writes).expect("nothing is refused");
    let left = put_back(&mut fake.refusing(5), &changes).expect_err("a write on the way back is refused");
    let refused = error.refused.clone();
    let error = NotApplied { refused, left };
    let both = "gro-flush-timeout 20000 ns on instance 1: refused; \
                not put back: gro-flush-timeout 0 ns on instance 0: refused";
    assert_eq!(error.to_string(), both);
}

#[test]
fn attributes_that_instances_do_not_take_are_written_to_the_device() {
    let suspend = Write::Instance(NapiChange::IrqSuspendTimeout(Span::from_ms(20)));
    let [each, device] = threaded(ThreadedSetting::Enabled);
    let given = plan(&[deferral(3), suspend, each, Write::Wait(None)]);
    let without_threaded = given.device_wide(|change| !matches!(change, NapiChange::Threaded(_)));
    assert_eq!(without_threaded, plan(&[deferral(3), suspend, device, Write::Wait(None)]));
    let of_device = Write::Device(DevSetting::NapiDeferHardIrqs(3));
    assert_eq!(given.device_wide(|_| false), plan(&[of_device, suspend, device, Write::Wait(None)]));
    assert_eq!(given.device_wide(|_| true), given);
}

fn any_write() -> impl Strategy<Value = Write> {
    let setting = prop::sample::select(ThreadedSetting::ALL.as_slice());
    let span = (0..3_u64).prop_map(Span::from_us);
    prop_oneof![
        setting.clone().prop_map(|setting| Write::Instance(NapiChange::Threaded(setting))),
        (0..3_u32).prop_map(deferral),
        span.clone().prop_map(|span| Write::Instance(NapiChange::GroFlushTimeout(span))),
        span.clone().prop_map(|span| Write::Instance(NapiChange::IrqSuspendTimeout(span))),
        setting.prop_map(|setting| Write::Device(DevSetting::Threaded(setting))),
        (0..3_u32).prop_map(|count| Write::Device(DevSetting::NapiDeferHardIrqs(count))),
        (0..3).prop_map(|value| Write::Socket(BusyOption::BusyPoll, value)),
        (0..2).prop_map(|value| Write::Socket(BusyOption::PreferBusyPoll, value)),
        (0..3_u32)
            .prop_map(|busy_poll_usecs| { Write::Context(EpollParams { busy_poll_usecs, ..EpollParams::default() }) }),
        prop::option::of(span).prop_map(Write::Wait),
    ]
}

proptest! {
    /// From any state, whichever write is refused: what was there is there again.
    #[test]
    fn what_was_there_comes_back(
        at_first in prop::collection::vec((0..INSTANCES + 1, any_write()), 0..8),
        writes in prop::collection::vec(any_write(), 0..8),
        harms: bool,
    ) {
        let mut fake = Fake { harms, ..Fake::new() };
        for (place, write) in at_first {
            let place = fake.places(write.target()).expect("known").into_iter().cycle().nth(place).expect("one is there");
            fake.set(&place, &write);
        }
        let writes: Plan = writes.into_iter().collect();
        let mut undone = fake.clone();
        let changes = apply(&mut undone, &writes).expect("nothing is refused");
        let made = undone.log.len();
        put_back(&mut undone, &changes).expect("nothing is refused");
        prop_assert_eq!(&undone.values, &fake.values);
        for refused in 0..made {
            let mut fails = fake.clone().refusing(refused);
            let error = apply(&mut fails, &writes).expect_err("one is refused");
            prop_assert!(error.left.is_empty());
            prop_assert_eq!(&fails.values, &fake.values);
        }
    }
}

#[test]
fn a_plan_says_what_it_has_for_each_option() {
    let params = EpollParams { busy_poll_usecs: 64, busy_poll_budget: 8, prefer_busy_poll: true };
    let longest = Span::from_ms(3);
    let mut plan: Plan = [Write::Socket(BusyOption::PreferBusyPoll, 9)].into_iter().collect();
    assert_eq!((plan.context(), plan.wait()), (None, None));
    plan.extend([Write::Socket(BusyOption::BusyPoll, 7), Write::Context(params), Write::Wait(Some(longest))]);
    let options = [BusyOption::PreferBusyPoll, BusyOption::BusyPoll, BusyOption::BusyPollBudget];
    assert_eq!(options.map(|option| plan.option(option)), [Some(9), Some(7), None]);
    assert_eq!((plan.context(), plan.wait()), (Some(params), Some(longest)));
}

#[test]
fn places_have_words() {
    let places = [Place::Instance(9), Place::Queue(2), Place::Device, Place::Socket, Place::Context];
    let words = ["NAPI instance 9", "the NAPI instance of queue 2", "the device", "the socket", "the context"];
    assert_eq!(places.map(|place| place.to_string()), words);
}

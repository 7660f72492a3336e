//! Settings of the kernel are set, read and put back as they were.

mod common;

use std::fmt::Display;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use common::{config, pair};
use napier_core::control::{
    DevAttribute, DevSet, DevSetError, Errno, NapiInfo, NapiSet, NapiSetError, QueryError, ThreadedSetting,
};
use napier_core::event::{EpollParams, EpollParamsError};
use napier_core::sockopt::{BusyOption, SockOptError};
use napier_core::time::Span;
use napier_linux::{KernelError, Refusal, Veth, VethConfig, VethEnd, device, epoll, netdev, socket};
use rustix::event::epoll::{CreateFlags, create};

/// More than 32 bits of nanoseconds.
const LONG: Span = Span::from_secs(5);

fn pair_with_napi(test: &str) -> Option<Veth> {
    pair(test, &VethConfig { queues: 2, gro: true, tso: false, ..config() })
}

/// Runs `f` in the namespace of an end.
fn at<T: Send>(end: &VethEnd, f: impl FnOnce() -> T + Send) -> T {
    end.netns().run(f).expect("entered")
}

/// What was answered, or a line that says why the test does not run.
fn or_skip<T, R: Refusal>(test: &str, answer: Result<T, KernelError<R>>) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        Err(error) if error.is_privilege() => {
            napier_testkit::skip!(test, "{error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn errno_of<T, R: Refusal>(answer: Result<T, KernelError<R>>) -> Option<Errno> {
    answer.err().expect("it is refused").errno()
}

/// The request that sets an instance to what it was.
fn as_before(info: &NapiInfo) -> NapiSet {
    NapiSet {
        id: Some(info.id.into()),
        defer_hard_irqs: info.defer_hard_irqs.map(u64::from),
        gro_flush_timeout: info.gro_flush_timeout.map(|span| span.ns),
        irq_suspend_timeout: info.irq_suspend_timeout.map(|span| span.ns),
        threaded: info.threaded.and_then(ThreadedSetting::number).map(u64::from),
        workqueue: false,
    }
}

#[test]
fn an_instance_takes_settings_of_any_length_and_gets_its_own_back() {
    let test = "an_instance_takes_settings_of_any_length_and_gets_its_own_back";
    let Some(pair) = pair_with_napi(test) else { return };
    let end = pair.left();
    let (tested, other) = (end.napis().expect("listed")[0], end.napis().expect("listed")[1]);
    let get = |id| at(end, || netdev::napi_get(id)).expect("it is there");
    let set = |request: &NapiSet| at(end, || netdev::napi_set(request));
    assert_eq!((get(tested.id), get(other.id)), (tested, other), "one by one as in the list");

    for span in [Span::from_us(20), Span::from_ns(u64::from(u32::MAX)), Span::from_ns(1 << 32), LONG] {
        let request = NapiSet {
            defer_hard_irqs: Some(7),
            gro_flush_timeout: Some(span.ns),
            irq_suspend_timeout: Some(span.ns + 1),
            threaded: None,
            ..as_before(&tested)
        };
        let Some(()) = or_skip(test, set(&request)) else { return };
        let now = get(tested.id);
        assert_eq!((now.defer_hard_irqs, now.gro_flush_timeout), (Some(7), Some(span)));
        assert_eq!(now.irq_suspend_timeout, Some(span + Span::from_ns(1)));
        assert_eq!(get(other.id), other, "the other instance keeps its own");
    }
    set(&as_before(&tested)).expect("put back");
    assert_eq!(get(tested.id), tested);
}

#[test]
fn an_instance_is_threaded_and_is_not_again() {
    let test = "an_instance_is_threaded_and_is_not_again";
    let Some(pair) = pair_with_napi(test) else { return };
    let end = pair.left();
    let before = end.napis().expect("listed")[0];
    let set = |threaded| {
        let request = NapiSet { id: Some(before.id.into()), threaded: Some(threaded), ..NapiSet::default() };
        at(end, || netdev::napi_set(&request))
    };
    let now = || at(end, || netdev::napi_get(before.id)).expect("it is there");
    let Some(()) = or_skip(test, set(1)) else { return };
    assert_eq!(now().threaded, Some(ThreadedSetting::Enabled));
    assert!(now().pid.is_some());
    set(0).expect("put back");
    assert_eq!(now(), before);
    assert_eq!(end.napis().expect("listed")[1].pid, None);

    match set(2) {
        Ok(()) => assert_eq!(now().threaded, Some(ThreadedSetting::BusyPoll)),
        Err(error) => {
            let want = NapiSetError::OutOfRange { attribute: "threaded", max: 1 };
            assert!(matches!(&error, KernelError::Refused(refused) if *refused == want), "{error}");
        }
    }
}

#[test]
fn what_the_kernel_refuses_has_the_words_of_the_rules() {
    let test = "what_the_kernel_refuses_has_the_words_of_the_rules";
    let Some(pair) = pair_with_napi(test) else { return };
    let end = pair.left();
    let id = u64::from(end.napis().expect("listed")[0].id);
    let set = |request: NapiSet| at(end, move || netdev::napi_set(&request));
    let no_such = |id| NapiSet { id: Some(id), defer_hard_irqs: Some(1), ..NapiSet::default() };
    let Err(refused) = set(no_such(1)) else { panic!("1 is no id") };
    let Some(()) = or_skip(test, if refused.is_privilege() { Err(refused) } else { Ok(()) }) else { return };
    assert_eq!(errno_of(set(no_such(1))), Some(Errno::ENOENT));
    assert_eq!(errno_of(set(no_such(1 << 40))), Some(Errno::ENOENT));
    assert_eq!(errno_of(set(NapiSet { id: None, ..no_such(1) })), Some(Errno::EINVAL));
    assert_eq!(errno_of(set(NapiSet { defer_hard_irqs: Some(1 << 31), ..no_such(id) })), Some(Errno::ERANGE));
    assert_eq!(errno_of(set(NapiSet { workqueue: true, ..no_such(id) })), Some(Errno::EOPNOTSUPP));

    let refusal = at(end, || netdev::napi_get(1)).expect_err("no instance has it");
    assert!(matches!(refusal, KernelError::Refused(QueryError::NoSuchNapi { id: 1 })), "{refusal}");
    assert_eq!(errno_of(at(end, || netdev::napi_dump(Some(4_000_000)))), Some(Errno::ENODEV));
    assert_eq!(errno_of(at(end, || netdev::napi_dump(Some(0)))), Some(Errno::ERANGE));
    let all = at(end, || netdev::napi_dump(None)).expect("listed");
    assert!(all.iter().all(|napi| napi.ifindex == end.ifindex()), "this namespace alone");
    assert!(all.is_sorted_by_key(|napi| std::cmp::Reverse(napi.id)), "the kernel's order");
}

#[test]
fn a_device_takes_settings_and_gets_its_own_back() {
    let test = "a_device_takes_settings_and_gets_its_own_back";
    let Some(pair) = pair_with_napi(test) else { return };
    let end = pair.left();
    let settings = || at(end, || device::settings(end.name()));
    let set = |attribute, value| at(end, || device::set(end.name(), DevSet { attribute, value }));
    let Some(before) = or_skip(test, settings()) else { return };
    let Some(()) = or_skip(test, set(DevAttribute::NapiDeferHardIrqs, 9)) else { return };
    set(DevAttribute::GroFlushTimeout, LONG.ns).expect("set");
    set(DevAttribute::Threaded, 1).expect("set");
    let now = settings().expect("read");
    assert_eq!((now.defer_hard_irqs, now.gro_flush_timeout, now.threaded), (9, LONG, ThreadedSetting::Enabled));
    for napi in end.napis().expect("listed") {
        assert!(napi.pid.is_some(), "every instance gets it");
        assert!(napi.defer_hard_irqs.is_none_or(|count| count == 9));
        assert!(napi.gro_flush_timeout.is_none_or(|span| span == LONG));
    }
    set(DevAttribute::Threaded, 0).expect("put back");
    set(DevAttribute::GroFlushTimeout, before.gro_flush_timeout.ns).expect("put back");
    set(DevAttribute::NapiDeferHardIrqs, before.defer_hard_irqs.into()).expect("put back");
    assert_eq!(settings().expect("read"), before);

    let range = set(DevAttribute::NapiDeferHardIrqs, 1 << 31).expect_err("too many");
    assert!(matches!(range, KernelError::Refused(DevSetError::OutOfRange { .. })), "{range}");
    assert_eq!(errno_of(set(DevAttribute::Threaded, 3)), Some(Errno::EOPNOTSUPP));
    for name in ["no-such-if", "", "..", "left/queues", "../left"] {
        assert_eq!(errno_of(at(end, || device::settings(name))), Some(Errno::ENODEV), "{name:?}");
    }
    end.set_feature(c"rx-gro", false).expect("switched");
    let none = set(DevAttribute::Threaded, 1).expect_err("no instance is there");
    assert!(matches!(none, KernelError::Refused(DevSetError::NoNapi)), "{none}");
}

#[test]
fn a_socket_takes_its_options_and_gets_its_own_back() {
    let test = "a_socket_takes_its_options_and_gets_its_own_back";
    let bound = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    assert_eq!(errno_of(socket::set(&bound, BusyOption::IncomingNapiId, 1)), Some(Errno::ENOPROTOOPT));
    assert_eq!(errno_of(socket::set(&bound, BusyOption::BusyPoll, -1)), Some(Errno::EINVAL));
    let unknown = socket::get(&bound, BusyOption::BusyPollBudget).expect_err("no kernel tells");
    assert!(matches!(unknown, KernelError::Refused(SockOptError::WriteOnly(_))), "{unknown}");
    for (option, value) in [(BusyOption::BusyPoll, 77), (BusyOption::PreferBusyPoll, 1)] {
        let Some(before) = or_skip(test, socket::get(&bound, option)) else { return };
        let Some(()) = or_skip(test, socket::set(&bound, option, value)) else { return };
        assert_eq!(socket::get(&bound, option).expect("read"), value);
        socket::set(&bound, option, before).expect("put back");
        assert_eq!(socket::get(&bound, option).expect("read"), before);
    }
    let Some(()) = or_skip(test, socket::set(&bound, BusyOption::BusyPollBudget, 64)) else { return };
    assert_eq!(errno_of(socket::set(&bound, BusyOption::BusyPollBudget, 1 << 16)), Some(Errno::EINVAL));
}

#[test]
fn a_socket_knows_the_instance_that_received_for_it() {
    let test = "a_socket_knows_the_instance_that_received_for_it";
    let Some(pair) = pair_with_napi(test) else { return };
    let ids: Vec<_> = pair.left().napis().expect("listed").iter().map(|napi| napi.id.cast_signed()).collect();
    let here = at(pair.left(), || UdpSocket::bind("10.9.0.1:0")).expect("bound");
    let there = at(pair.right(), || UdpSocket::bind("10.9.0.2:0")).expect("bound");
    assert_eq!(socket::get(&here, BusyOption::IncomingNapiId).expect("read"), 0, "nothing was received yet");
    there.send_to(b"x", here.local_addr().expect("bound")).expect("sent");
    here.recv(&mut [0; 8]).expect("received");
    let id = socket::get(&here, BusyOption::IncomingNapiId).expect("read");
    assert!(ids.contains(&id), "{id} is none of {ids:?}");
}

#[test]
fn a_socket_is_bound_to_an_interface_that_is_there() {
    let bound = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let error = socket::bind_to_device(&bound, "no-such-if").expect_err("it is not there");
    assert_eq!(error.raw_os_error(), Some(Errno::ENODEV.number()));
    socket::bind_to_device(&bound, "lo").expect("loopback is there");
}

#[test]
fn an_event_context_takes_parameters_and_gets_its_own_back() {
    let test = "an_event_context_takes_parameters_and_gets_its_own_back";
    let context = create(CreateFlags::CLOEXEC).expect("a descriptor is left");
    let Some(before) = or_skip(test, epoll::params(&context)) else { return };
    assert_eq!(before, EpollParams::default());
    let wanted = EpollParams { busy_poll_usecs: 200, busy_poll_budget: 64, prefer_busy_poll: true };
    epoll::set_params(&context, wanted).expect("64 needs no capability");
    assert_eq!(epoll::params(&context).expect("read"), wanted);
    let too_long = EpollParams { busy_poll_usecs: 1 << 31, ..wanted };
    let error = epoll::set_params(&context, too_long).expect_err("an int");
    assert!(matches!(error, KernelError::Refused(EpollParamsError::Invalid("busy_poll_usecs"))), "{error}");
    assert_eq!(epoll::params(&context).expect("read"), wanted, "nothing was changed");
    epoll::set_params(&context, before).expect("put back");
    assert_eq!(epoll::params(&context).expect("read"), before);
}

#[test]
fn what_is_no_socket_and_no_event_context_is_refused() {
    let file = std::fs::File::open("/dev/null").expect("it is always there");
    let not_a_socket = |error: &dyn Display| assert!(error.to_string().contains("socket"), "{error}");
    not_a_socket(&socket::set(&file, BusyOption::BusyPoll, 0).expect_err("no socket"));
    not_a_socket(&socket::get(file.as_fd(), BusyOption::BusyPoll).expect_err("no socket"));
    assert_eq!(errno_of(epoll::params(&file)), Some(Errno::ENOTTY));
    assert_eq!(errno_of(epoll::set_params(&file, EpollParams::default())), Some(Errno::ENOTTY));
}

//! Plans put into force on the kernel, and taken back.

mod common;

use std::net::UdpSocket;
use std::os::fd::AsFd;

use common::{config, pair};
use napier_core::control::plan::{Change, Place, Plan, Write, apply, put_back};
use napier_core::control::{DevSetting, DevSettings, Errno, NapiChange, NapiInfo, ThreadedSetting};
use napier_core::event::EpollParams;
use napier_core::sockopt::BusyOption;
use napier_core::time::Span;
use napier_linux::{KernelSink, KernelWriteError, Veth, VethConfig, VethEnd, device, epoll, socket};
use rustix::event::epoll::{CreateFlags, create};

fn pair_with_napi(test: &str) -> Option<Veth> {
    pair(test, &VethConfig { queues: 2, gro: true, tso: false, ..config() })
}

fn sink(end: &VethEnd) -> KernelSink<'_> {
    KernelSink::Interface { name: end.name(), ifindex: end.ifindex() }
}

/// All that a plan could change of an interface, without the threads' own numbers.
fn state(end: &VethEnd) -> (Vec<NapiInfo>, DevSettings) {
    let mut infos = end.napis().expect("listed");
    infos.iter_mut().for_each(|info| info.pid = None);
    (infos, end.netns().run(|| device::settings(end.name())).expect("entered").expect("read"))
}

/// The changes, or a line that says why the test does not run.
fn applied(test: &str, end: &VethEnd, plan: &Plan) -> Option<Vec<Change<Place>>> {
    match end.netns().run(|| apply(&mut sink(end), plan)).expect("entered") {
        Ok(changes) => Some(changes),
        Err(error) if error.refused.error.is_privilege() => {
            napier_testkit::skip!(test, "{error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn take_back(end: &VethEnd, changes: &[Change<Place>]) {
    let left = end.netns().run(|| put_back(&mut sink(end), changes)).expect("entered");
    assert!(left.is_ok(), "{left:?}");
}

fn suspending(threaded: ThreadedSetting) -> Plan {
    let of_instances = [
        NapiChange::DeferHardIrqs(100),
        NapiChange::GroFlushTimeout(Span::from_us(20)),
        NapiChange::IrqSuspendTimeout(Span::from_secs(5)),
        NapiChange::Threaded(threaded),
    ];
    let busy = EpollParams { busy_poll_usecs: 0, busy_poll_budget: 64, prefer_busy_poll: true };
    let of_programs = [
        Write::Socket(BusyOption::BusyPoll, 400),
        Write::Socket(BusyOption::PreferBusyPoll, 1),
        Write::Socket(BusyOption::BusyPollBudget, 16),
        Write::Context(busy),
    ];
    of_instances.map(Write::Instance).into_iter().chain(of_programs).collect()
}

#[test]
fn instances_take_a_plan_and_give_it_back() {
    let test = "instances_take_a_plan_and_give_it_back";
    let Some(pair) = pair_with_napi(test) else { return };
    let end = pair.left();
    let at_first = state(end);
    for threaded in [ThreadedSetting::Disabled, ThreadedSetting::Enabled] {
        let plan = suspending(threaded);
        let plan = end.netns().run(|| sink(end).fit(&plan)).expect("entered").expect("listed");
        let Some(changes) = applied(test, end, &plan) else { return };
        for info in end.napis().expect("listed") {
            assert!(plan.changes().all(|change| info.in_place_of(change) == Some(change)), "{info:?}");
            assert_eq!(info.pid.is_some(), threaded == ThreadedSetting::Enabled, "{info:?}");
        }
        take_back(end, &changes);
        assert_eq!(state(end), at_first);
    }
}

#[test]
fn a_whole_interface_is_threaded_and_no_longer() {
    let test = "a_whole_interface_is_threaded_and_no_longer";
    let Some(pair) = pair_with_napi(test) else { return };
    let end = pair.left();
    let of_device = |setting| [Write::Device(DevSetting::Threaded(setting))].into_iter().collect::<Plan>();
    let threads = || end.napis().expect("listed").iter().filter(|info| info.pid.is_some()).count();
    let at_first = state(end);
    let Some(changes) = applied(test, end, &of_device(ThreadedSetting::Enabled)) else { return };
    assert_eq!((threads(), state(end).1.threaded), (2, ThreadedSetting::Enabled));
    take_back(end, &changes);
    assert_eq!((threads(), state(end)), (0, at_first));

    // What an instance has of its own comes back, where the kernel has that.
    let own: Plan = [Write::Instance(NapiChange::Threaded(ThreadedSetting::Enabled))].into_iter().collect();
    let Some(_) = applied(test, end, &own) else { return };
    let threaded = state(end);
    let Some(changes) = applied(test, end, &of_device(ThreadedSetting::Disabled)) else { return };
    assert_eq!(threads(), 0);
    take_back(end, &changes);
    assert_eq!((threads(), state(end)), (2, threaded));
}

#[test]
fn a_plan_that_the_kernel_refuses_leaves_nothing_behind() {
    let test = "a_plan_that_the_kernel_refuses_leaves_nothing_behind";
    let Some(pair) = pair_with_napi(test) else { return };
    let end = pair.left();
    let at_first = state(end);
    let Some(changes) = applied(test, end, &suspending(ThreadedSetting::Enabled)) else { return };
    take_back(end, &changes);
    let too_many = Write::Instance(NapiChange::DeferHardIrqs(u32::MAX));
    let plan: Plan = suspending(ThreadedSetting::Enabled).writes().copied().chain([too_many]).collect();
    let error = end.netns().run(|| apply(&mut sink(end), &plan)).expect("entered").expect_err("it is out of range");
    assert_eq!((error.refused.write, error.left.len()), (too_many, 0), "{error}");
    assert!(matches!(&error.refused.error, KernelWriteError::NapiSet(why) if why.errno() == Some(Errno::ERANGE)));
    assert_eq!(state(end), at_first);
    let error = applied_pool(end);
    assert!(error.contains("extension of the engine"), "{error}");
    assert_eq!(state(end), at_first);
}

fn applied_pool(end: &VethEnd) -> String {
    let plan = suspending(ThreadedSetting::Workqueue);
    let error = end.netns().run(|| apply(&mut sink(end), &plan)).expect("entered").expect_err("there is no pool");
    assert!(error.left.is_empty(), "{error}");
    error.to_string()
}

#[test]
fn sockets_and_epoll_descriptors_take_their_part_of_a_plan_and_give_it_back() {
    let test = "sockets_and_epoll_descriptors_take_their_part_of_a_plan_and_give_it_back";
    let plan = suspending(ThreadedSetting::Disabled);
    let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let options = || [BusyOption::BusyPoll, BusyOption::PreferBusyPoll].map(|option| socket::get(&udp, option).ok());
    let at_first = options();
    let mut of_socket = KernelSink::Socket(udp.as_fd());
    match apply(&mut of_socket, &plan) {
        Ok(changes) => {
            assert_eq!(options(), [Some(400), Some(1)]);
            assert_eq!(changes.len(), 2, "nobody is told the budget that was there");
            put_back(&mut of_socket, &changes).expect("they were there");
            assert_eq!(options(), at_first);
        }
        Err(error) if error.refused.error.is_privilege() => napier_testkit::skip!(test, "{error}"),
        Err(error) => panic!("{error}"),
    }

    let fd = create(CreateFlags::CLOEXEC).expect("a descriptor is left");
    let mut of_epoll = KernelSink::Epoll(fd.as_fd());
    match apply(&mut of_epoll, &plan) {
        Ok(changes) => {
            assert_eq!(epoll::params(&fd).ok(), plan.context());
            put_back(&mut of_epoll, &changes).expect("it was there");
            assert_eq!(epoll::params(&fd).ok(), Some(EpollParams::default()));
        }
        Err(error) if error.refused.error.is_privilege() => napier_testkit::skip!(test, "{error}"),
        Err(error) => panic!("{error}"),
    }
}

//! When a poll calls who sleeps for what it delivers.

use std::net::SocketAddr;

use napier_runtime::control::NapiSet;
use napier_runtime::device::{LinkConfig, PollContext};
use napier_runtime::event::{Event, EventContext, Interest, Timeout};
use napier_runtime::socket::{SocketOption, UdpSocket};
use napier_sys::sched::{available_cpus, pin_current_thread, set_fifo};

use crate::common::{PATIENCE, PEER_V4, Pair, TESTED_V4, eventually, v4};

/// Two rounds of telling, and more.
const SOCKETS: u16 = 20;

/// Whether thread `tid` of this process sleeps.
fn sleeps(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// A sleeper that preempts whatever calls it finds all that the poll has brought: it was called once, when the poll was over. Called for
/// the first socket, it would find one.
#[test]
fn a_poll_calls_who_sleeps_on_its_processor_when_it_is_over() {
    let pair = Pair::new(&LinkConfig::default());
    // After one interrupt there is none for good.
    let defers = NapiSet { defer_hard_irqs: Some(1), gro_flush_timeout: Some(600_000_000_000), ..NapiSet::default() };
    pair.set_all(&pair.tested, &defers);
    let bind = |port| UdpSocket::builder().nonblocking(true).bind(&pair.tested_ns, v4(TESTED_V4, port)).unwrap();
    let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    let send = |port| client.send_to(b"request", SocketAddr::from((TESTED_V4, port))).unwrap();
    let poller = bind(3999);
    send(3999);
    eventually("its instance is known", || poller.recv(&mut [0; 64]).is_ok());
    // A poll that goes on would take what is sent below, and nobody else could poll meanwhile.
    eventually("its poll is over", || pair.tested.napi_stats(0).deferrals > 0);

    let sockets: Vec<_> = (0..SOCKETS).map(|nth| bind(4000 + nth)).collect();
    let context = EventContext::new(&pair.engine);
    sockets.iter().for_each(|socket| context.add(socket, Interest::IN, 0).unwrap());
    let cpu = available_cpus()[0];
    let (tell, told) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn({
        let context = context.clone();
        move || {
            pin_current_thread(cpu);
            let preempts = set_fifo(1).is_ok();
            tell.send((rustix::thread::gettid().as_raw_nonzero().get(), preempts)).unwrap();
            let mut events = [Event::default(); SOCKETS as usize];
            context.wait(&mut events, Timeout::After(PATIENCE)).unwrap()
        }
    });
    let (tid, preempts) = told.recv().unwrap();
    eventually("it sleeps", || context.stats().sleeps == 1 && sleeps(tid));
    (0..SOCKETS).for_each(|nth| _ = send(4000 + nth));
    // One poll, on the sleeper's processor.
    let options = [(SocketOption::BusyPoll, 1), (SocketOption::PreferBusyPoll, 1), (SocketOption::BusyPollBudget, 64)];
    options.into_iter().for_each(|(option, value)| poller.setsockopt(option, value).unwrap());
    let polled = std::thread::spawn(move || {
        pin_current_thread(cpu);
        poller.recv(&mut [0; 64]).is_err()
    });
    assert!(polled.join().unwrap(), "there was nothing for the poller itself");
    assert_eq!(pair.tested.napi_stats(0).packets[PollContext::User], u64::from(SOCKETS));
    let found = sleeper.join().unwrap();
    assert_eq!((found, context.stats().wakes), (usize::from(SOCKETS), 1));
    if !preempts {
        napier_testkit::skip!(
            "a_poll_calls_who_sleeps_on_its_processor_when_it_is_over",
            "without a real-time class a sleeper may not preempt the poll, whenever it is called"
        );
    }
}

//! Interrupt suspension from end to end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use napier_runtime::control::NapiSet;
use napier_runtime::device::{LinkConfig, NapiStats, PollContext};
use napier_runtime::event::{Event, EventContext, Interest, Timeout, UserEvent};
use napier_runtime::socket::{SocketOption, UdpSocket};

use crate::common::{PATIENCE, PEER_V4, Pair, TESTED_V4, bound, eventually, prefer, v4};

const SERVER: (std::net::Ipv4Addr, u16) = (TESTED_V4, 4000);
const DATA_STOP: u64 = 1;

/// Requests in a stretch: most, and fewest where the machine lets none of so many pass.
const STRETCH: u32 = 100;
const STRETCH_MIN: u32 = 4;
/// Tries after which half as many have to do.
const TRIES: u32 = 2;

fn suspending(pair: &Pair) {
    let set = NapiSet {
        defer_hard_irqs: Some(100),
        gro_flush_timeout: Some(50_000),
        irq_suspend_timeout: Some(20_000_000),
        ..NapiSet::default()
    };
    pair.set_all(&pair.tested, &set);
}

/// Sends requests without a pause until told to end, and polls for answers by itself. None is needed to go on.
fn flood(client: &UdpSocket, end: &AtomicBool) {
    client.set_nonblocking(true).unwrap();
    client.setsockopt(SocketOption::BusyPoll, 50).unwrap();
    client.setsockopt(SocketOption::PreferBusyPoll, 1).unwrap();
    let mut buffer = [0; 64];
    while !end.load(Ordering::Relaxed) {
        // A full ring only means that the server has enough to do.
        let _ = client.send_to(b"request", SocketAddr::from(SERVER));
        while client.recv(&mut buffer).is_ok() {}
        std::thread::yield_now();
    }
}

/// A server that finds events in that many waits in a row; what happened to its instance meanwhile. `None`: a wait
/// found nothing, so the client was held up and this was no stretch.
fn stretch(pair: &Pair, context: &EventContext, socket: &UdpSocket, requests: u32) -> Option<NapiStats> {
    let mut events = [Event::default(); 4];
    let mut before = pair.tested.napi_stats(0);
    for request in 0..requests {
        let slept = context.stats().sleeps;
        assert!(context.wait(&mut events, Timeout::After(PATIENCE)).unwrap() > 0, "stalled");
        if context.stats().sleeps != slept {
            return None;
        }
        if request == 0 {
            // The first wait may have begun before suspension held.
            before = pair.tested.napi_stats(0);
        }
        let _ = socket.recv_batch(32, &mut |request, from| {
            let _ = socket.send_to(request, from);
        });
    }
    Some(pair.tested.napi_stats(0) - before)
}

fn undisturbed(during: &NapiStats) -> bool {
    let softirq = PollContext::Softirq;
    during.interrupts == 0 && during.polls[softirq] == 0 && during.unmasks == 0
}

/// While requests keep coming there is no interrupt and no softirq poll: all packets come by the program's own polls.
///
/// The system may take the processor from the program for longer than the timers run, and then softirq steps in as it
/// should; so one undisturbed stretch is asked for, out of as many as there is patience for, and shorter ones in time.
#[test]
fn busy_periods_have_no_interrupts() {
    let pair = Pair::new(&LinkConfig::default());
    suspending(&pair);
    pair.peer_never_interrupts();
    let context = EventContext::new(&pair.engine);
    // A client that is held up for less than that leaves the server in its busy loop.
    context.set_params(prefer(100_000)).unwrap();
    let socket = UdpSocket::builder().nonblocking(true).bind(&pair.tested_ns, SERVER).unwrap();
    context.add(&socket, Interest::IN, 0).unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let client = std::thread::spawn({
        let (client, end) = (UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap(), end.clone());
        move || flood(&client, &end)
    });

    let begun = Instant::now();
    let (mut tries, mut slept) = (0_u32, 0);
    let during = loop {
        assert!(begun.elapsed() < 3 * PATIENCE, "no undisturbed stretch in {tries} tries");
        let requests = STRETCH.checked_shr(tries / TRIES).unwrap_or(0).max(STRETCH_MIN);
        tries += 1;
        match stretch(&pair, &context, &socket, requests) {
            // A short one may find no more than one poll before it has brought.
            Some(during) if undisturbed(&during) && during.packets_total() > 0 => break during,
            Some(during) => println!("disturbed: {during:?}"),
            None => slept += 1,
        }
    };
    println!("{slept} of {tries} tries slept");
    assert!(during.packets[PollContext::User] > 0);
    assert_eq!(during.packets_total(), during.packets[PollContext::User]);
    end.store(true, Ordering::Relaxed);
    client.join().unwrap();
}

/// A server thread that counts what it answers.
fn server(
    pair: &Pair,
    context: EventContext,
    end: &UserEvent,
    answered: &Arc<AtomicU64>,
) -> std::thread::JoinHandle<()> {
    let socket = UdpSocket::builder().nonblocking(true).bind(&pair.tested_ns, SERVER).unwrap();
    context.add(&socket, Interest::IN, 0).unwrap();
    context.add(end, Interest::IN, DATA_STOP).unwrap();
    let answered = answered.clone();
    std::thread::spawn(move || {
        let mut events = [Event::default(); 4];
        loop {
            let ready = context.wait(&mut events, Timeout::Never).unwrap();
            if events[..ready].iter().any(|event| event.data == DATA_STOP) {
                return;
            }
            let _ = socket.recv_batch(32, &mut |request, from| {
                answered.fetch_add(1, Ordering::Relaxed);
                socket.send_to(request, from).unwrap();
            });
        }
    })
}

/// After the last request the interrupt is unmasked again, and the next packet wakes the sleeper by an interrupt.
#[test]
fn silence_brings_the_interrupt_back() {
    let pair = Pair::new(&LinkConfig::default());
    suspending(&pair);
    let context = EventContext::new(&pair.engine);
    context.set_params(prefer(64)).unwrap();
    let (end, answered) = (UserEvent::new(), Arc::new(AtomicU64::new(0)));
    let server = server(&pair, context.clone(), &end, &answered);
    let client = bound(&pair.peer_ns, v4(PEER_V4, 5000));
    for round in 1..=20_u64 {
        let (before, slept) = (pair.tested.napi_stats(0), context.stats().sleeps);
        for _ in 0..50 {
            client.send_to(b"request", SERVER.into()).unwrap();
            client.recv(&mut [0; 64]).expect("an answer");
        }
        assert_eq!(answered.load(Ordering::Relaxed), round * 50);
        // Nothing comes any more: the server sleeps and deferral runs out, 101 timers of 50 us later.
        eventually("the interrupt is unmasked", || pair.tested.napi_stats(0).unmasks > before.unmasks);
        eventually("the server sleeps", || context.stats().sleeps > slept);
        // Then a packet comes by an interrupt. Where a CPU was taken away, a timer may be left that its thread has not run yet,
        // and whose poll takes the packet: so it need not be the first packet, but each one after silence of its own.
        eventually("a packet comes by an interrupt", || {
            eventually("no timer is left", || {
                let fires = pair.tested.napi_stats(0).timer_fires;
                std::thread::sleep(Duration::from_millis(30));
                pair.tested.napi_stats(0).timer_fires == fires
            });
            let idle = pair.tested.napi_stats(0);
            client.send_to(b"request", SERVER.into()).unwrap();
            client.recv(&mut [0; 64]).expect("an answer");
            answered.fetch_sub(1, Ordering::Relaxed);
            let during = pair.tested.napi_stats(0) - idle;
            during.interrupts > 0 && during.packets[PollContext::Softirq] > 0
        });
    }
    end.trigger();
    server.join().unwrap();
}

/// A context that goes away while it keeps interrupts suspended gives them back at once, not after the time-out.
#[test]
fn a_closed_context_gives_the_interrupt_back() {
    let pair = Pair::new(&LinkConfig::default());
    let long = NapiSet {
        defer_hard_irqs: Some(1),
        gro_flush_timeout: Some(50_000),
        irq_suspend_timeout: Some(3_600_000_000_000),
        ..NapiSet::default()
    };
    pair.set_all(&pair.tested, &long);
    let context = EventContext::new(&pair.engine);
    context.set_params(prefer(0)).unwrap();
    let socket = UdpSocket::builder().nonblocking(true).bind(&pair.tested_ns, SERVER).unwrap();
    context.add(&socket, Interest::IN, 0).unwrap();
    let client = UdpSocket::bind(&pair.peer_ns, v4(PEER_V4, 5000)).unwrap();
    client.send_to(b"request", SERVER.into()).unwrap();
    let mut events = [Event::default(); 4];
    assert_eq!(context.wait(&mut events, Timeout::After(PATIENCE)), Ok(1));
    assert_eq!(context.napi_id(), pair.tested.napi_id(0), "the context has attached to the instance");
    drop(context);
    eventually("packets come by themselves", || {
        client.send_to(b"more", SERVER.into()).unwrap();
        std::iter::from_fn(|| socket.recv(&mut [0; 64]).ok()).count() > 1
    });
    eventually("the last packet is read", || {
        std::thread::sleep(Duration::from_millis(5));
        socket.recv(&mut [0; 64]).is_err()
    });
}

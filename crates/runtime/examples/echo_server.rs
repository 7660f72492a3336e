//! A UDP echo server that suspends interrupts while it is busy, and a client that keeps it busy for a second.
//!
//! The server waits in an event context that prefers busy polling. While its waits find events, its NAPI instance takes
//! no interrupts and no softirq polls it: the server's own polls bring the packets. When a wait finds nothing, the
//! interrupt comes back in two steps: first deferral looks after the queue, then the interrupt is unmasked.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use napier_runtime::device::PollContext;
use napier_runtime::event::UserEvent;
use napier_runtime::prelude::*;

const RUN: Duration = Duration::from_secs(1);
const STOP: u64 = 1;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().start()?;
    let (device, peer) = link(&engine)?;

    // 100 empty looks, 20 us apart, before the interrupt is unmasked; up to 20 ms for the server to come back.
    let mode: Mode = "suspend20".parse()?;
    engine.set_mode(&device, mode)?;
    // First: a context attaches to an instance when a socket is added or has news.
    let context = EventContext::new(&engine);
    context.set_mode(mode)?;
    let socket = UdpSocket::builder().nonblocking(true).bind(device.netns(), "10.7.0.1:7")?;
    context.add(&socket, Interest::IN, 0)?;
    let stop = UserEvent::new();
    context.add(&stop, Interest::IN, STOP)?;

    let before = device.napi_stats(0);
    let (answered, asked) = std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&context, &socket));
        let asked = ask(&peer);
        // Also if the client failed: the server would wait for ever.
        stop.trigger();
        (server.join().expect("the server does not panic"), asked)
    });
    let (answered, asked) = (answered?, asked?);

    let during = device.napi_stats(0) - before;
    println!("{asked} requests answered in {RUN:?}, the server counts {answered}");
    println!("interrupts            {:>8}", during.interrupts);
    println!("packets by softirq    {:>8}", during.packets[PollContext::Softirq]);
    println!("packets by the server {:>8}", during.packets[PollContext::User]);
    println!("waits that slept      {:>8}", context.stats().sleeps);
    assert!(asked > 0 && answered >= asked, "every answer was a request that the server has counted");
    Ok(())
}

/// Answers until it is told to stop; returns how often.
fn serve(context: &EventContext, socket: &UdpSocket) -> std::io::Result<u64> {
    let mut events = [Event::default(); 16];
    let mut answered = 0;
    loop {
        let ready = context.wait(&mut events, Timeout::Never).expect("there is room for events");
        for event in &events[..ready] {
            if event.data == STOP {
                return Ok(answered);
            }
            // Datagrams are read where the device put them, and each answer is built in a frame of the ring.
            let mut sent = Ok(0);
            answered += socket.recv_batch(32, &mut |request, from| sent = socket.send_to(request, from))? as u64;
            sent?;
        }
    }
}

/// Keeps a few requests under way; returns how many were answered.
fn ask(device: &DeviceHandle) -> Result<u64, Box<dyn std::error::Error>> {
    let server: SocketAddr = "10.7.0.1:7".parse()?;
    let socket = UdpSocket::bind(device.netns(), "10.7.0.2:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    for _ in 0..8 {
        socket.send(b"hello")?;
    }
    let (begun, mut answers) = (Instant::now(), 0);
    while answers == 0 || begun.elapsed() < RUN {
        socket.recv(&mut [0; 64])?;
        answers += 1;
        socket.send(b"hello")?;
    }
    Ok(answers)
}

/// Two devices that are each other's peer, each in a name space of its own.
fn link(engine: &Engine) -> Result<(DeviceHandle, DeviceHandle), Box<dyn std::error::Error>> {
    let end = |name: &str, last: u8| EndConfig {
        mac: [2, 0, 0, 7, 0, last],
        ..EndConfig::new(name, engine.namespace(), &[IfAddr { addr: [10, 7, 0, last].into(), prefix_len: 24 }])
    };
    Ok(engine.add_link(&LinkConfig::default(), end("server", 1), end("client", 2))?)
}

//! What waits when its engine goes ends with an error, and so does what comes later.

use std::io::ErrorKind::{ConnectionRefused, ConnectionReset, NetworkUnreachable};
use std::io::{Read as _, Write as _};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use napier_runtime::device::LinkConfig;
use napier_runtime::doc_link;
use napier_runtime::event::{Event, EventContext, Interest, Timeout, UserEvent, WaitError};
use napier_runtime::raw::RawPort;
use napier_runtime::socket::{TcpListener, TcpStream, UdpSocket};

use crate::common::{PATIENCE, PEER_V4, Pair, TESTED_V4, v4};

/// Source: `include/uapi/asm-generic/errno.h`.
const ESHUTDOWN: i32 = 108;

fn pair() -> Pair {
    Pair::new(&LinkConfig::default())
}

/// Runs a call that waits in a thread of its own.
fn waiting<R: Send + 'static>(call: impl FnOnce() -> R + Send + 'static) -> Receiver<R> {
    let (done, answer) = mpsc::channel();
    std::thread::spawn(move || done.send(call()));
    answer
}

/// Stops the engine, in the middle of the calls or just before them.
fn stop(pair: Pair) {
    std::thread::sleep(Duration::from_millis(30));
    drop(pair);
}

fn ended<T>(answer: &Receiver<std::io::Result<T>>) {
    is_stopped(answer.recv_timeout(PATIENCE).expect("the wait ends with the engine"));
}

#[track_caller]
fn is_stopped<T>(result: std::io::Result<T>) {
    let error = result.err().expect("nothing works without an engine");
    assert_eq!(error.raw_os_error(), Some(ESHUTDOWN), "{error}");
}

#[test]
fn a_blocked_udp_receive_ends() {
    let pair = pair();
    let ns = pair.tested_ns.clone();
    let sockets: Vec<_> = [1, 2].iter().map(|port| UdpSocket::bind(&ns, v4(TESTED_V4, *port)).unwrap()).collect();
    let sockets = std::sync::Arc::new(sockets);
    let receive = |at: usize| {
        let sockets = sockets.clone();
        waiting(move || sockets[at].recv(&mut [0; 64]))
    };
    // Two on the first, with one parker.
    let answers = [receive(0), receive(0), receive(1)];
    stop(pair);
    answers.iter().for_each(ended);
    let socket = &sockets[0];
    is_stopped(socket.recv(&mut [0; 64]));
    is_stopped(socket.recv_batch(8, &mut |_, _| ()));
    socket.set_nonblocking(true).unwrap();
    is_stopped(socket.recv_from(&mut [0; 64]));
    is_stopped(socket.send_to(b"late", v4(PEER_V4, 9)));
    is_stopped(socket.connect(v4(PEER_V4, 9)));
    is_stopped(UdpSocket::bind(&ns, v4(TESTED_V4, 3)));
}

#[test]
fn what_was_received_can_be_read_first() {
    // Without the check that every frame is back: one is not.
    let (engine, tested, peer) = doc_link().unwrap();
    let to = UdpSocket::bind(tested.netns(), v4(TESTED_V4, 7)).unwrap();
    let from = UdpSocket::bind(peer.netns(), v4(PEER_V4, 8)).unwrap();
    from.connect(v4(TESTED_V4, 7)).unwrap();
    from.send(b"one").unwrap();
    let context = EventContext::new(&engine);
    context.add(&to, Interest::IN, 1).unwrap();
    let mut events = [Event::default(); 4];
    assert_eq!(context.wait(&mut events, Timeout::After(PATIENCE)).unwrap(), 1);
    drop(engine);
    is_stopped(from.send(b"two"));
    assert_eq!(to.recv(&mut [0; 64]).unwrap(), 3);
    is_stopped(to.recv(&mut [0; 64]));
}

#[test]
fn blocked_tcp_calls_end() {
    let pair = pair();
    let ns = pair.peer_ns.clone();
    let listener = TcpListener::bind(&pair.tested_ns, v4(TESTED_V4, 80)).unwrap();
    let client = TcpStream::connect(&ns, v4(TESTED_V4, 80)).unwrap();
    let (server, _) = listener.accept().unwrap();
    let client = std::sync::Arc::new(client);
    let (reader, writer) = (client.clone(), client.clone());
    let read = waiting(move || (&*reader).read(&mut [0; 64]));
    // More than both buffers take; the error comes with the call after the one that was cut short.
    let write = waiting(move || {
        loop {
            let _as_much_as_fits: usize = (&*writer).write(&[0; 10_000])?;
        }
    });
    let accept = waiting(move || {
        let result = listener.accept().map(drop);
        is_stopped(listener.accept());
        listener.set_nonblocking(true).unwrap();
        is_stopped(listener.accept());
        result
    });
    // Nobody answers for this address.
    let (nobody, connecting) = (std::net::Ipv4Addr::new(10, 77, 0, 99), ns.clone());
    pair.peer_ns.neighbour_add(pair.peer.ifindex(), nobody.into(), [2, 0, 0, 9, 9, 9]).unwrap();
    let connect = waiting(move || TcpStream::connect(&connecting, v4(nobody, 80)));
    stop(pair);
    ended::<usize>(&read);
    ended::<()>(&write);
    ended(&accept);
    ended(&connect);
    for _ in 0..2 {
        is_stopped((&*client).read(&mut [0; 64]));
        is_stopped((&*client).write(b"late"));
        is_stopped((&server).write(b"late"));
    }
    assert_eq!(client.take_error().unwrap().unwrap().raw_os_error(), Some(ESHUTDOWN));
    is_stopped(TcpStream::connect(&ns, v4(TESTED_V4, 80)));
    is_stopped(TcpListener::bind(&ns, v4(PEER_V4, 80)));
}

#[test]
fn a_blocked_event_context_ends() {
    let pair = pair();
    let socket = UdpSocket::bind(&pair.tested_ns, v4(TESTED_V4, 7)).unwrap();
    let context = EventContext::new(&pair.engine);
    let user = UserEvent::new();
    context.add(&socket, Interest::IN, 1).unwrap();
    context.add(&user, Interest::IN, 2).unwrap();
    let wait = || {
        let context = context.clone();
        waiting(move || context.wait(&mut [Event::default(); 4], Timeout::Never))
    };
    let waits = [wait(), wait(), wait()];
    stop(pair);
    for wait in waits {
        assert_eq!(wait.recv_timeout(PATIENCE).expect("the wait ends with the engine"), Err(WaitError::Stopped));
    }
    user.trigger();
    for timeout in [Timeout::Never, Timeout::Now, Timeout::After(PATIENCE)] {
        assert_eq!(context.wait(&mut [Event::default(); 4], timeout), Err(WaitError::Stopped));
    }
    is_stopped(context.wait(&mut [Event::default(); 4], Timeout::Now).map_err(std::io::Error::from));
}

#[test]
fn a_context_of_another_engine_hears_of_it() {
    let (pair, other) = (pair(), pair());
    let listener = TcpListener::bind(&pair.tested_ns, v4(TESTED_V4, 80)).unwrap();
    let socket = UdpSocket::bind(&pair.tested_ns, v4(TESTED_V4, 7)).unwrap();
    let context = EventContext::new(&other.engine);
    context.add(&socket, Interest::IN, 1).unwrap();
    context.add(&listener, Interest::IN, 2).unwrap();
    let told = waiting(move || {
        let mut events = [Event::default(); 4];
        let mut seen = 0;
        while seen != 3 {
            let count = context.wait(&mut events, Timeout::Never).unwrap();
            for event in &events[..count] {
                assert!(event.events.contains(Interest::ERR | Interest::HUP), "{event:?}");
                seen |= event.data;
            }
        }
    });
    stop(pair);
    told.recv_timeout(PATIENCE).expect("both sockets are reported");
}

#[test]
fn a_blocked_raw_port_ends() {
    let pair = pair();
    let tested = pair.tested.clone();
    let (bound, is_bound) = mpsc::channel();
    let wait = waiting(move || {
        let port = RawPort::bind(&tested, 0).unwrap();
        bound.send(()).expect("the test waits for this");
        (port.wait(None), port.wait(None))
    });
    is_bound.recv_timeout(PATIENCE).expect("the port is bound");
    stop(pair);
    assert_eq!(wait.recv_timeout(PATIENCE).expect("the wait ends with the engine"), (false, false));
}

#[test]
fn engines_that_stop_in_the_middle_of_everything_hang_nobody() {
    for round in 0..20_u64 {
        // Without the check that every frame is back: those in sockets are not.
        let (engine, tested, peer) = doc_link().unwrap();
        let (here, there) = (tested.netns().clone(), peer.netns().clone());
        let listener = TcpListener::bind(&here, v4(TESTED_V4, 80)).unwrap();
        let serve = waiting(move || {
            loop {
                let stream = match listener.accept() {
                    Ok((stream, _)) => stream,
                    Err(error) => return error,
                };
                let _ = (&stream).write(&[1; 100]);
            }
        });
        let connect = waiting(move || {
            loop {
                let stream = match TcpStream::connect(&there, v4(TESTED_V4, 80)) {
                    Ok(stream) => stream,
                    // The other program heard of the end first, and its listener went; or the interface, which goes before.
                    Err(error) if matches!(error.kind(), ConnectionReset | ConnectionRefused | NetworkUnreachable) => {
                        continue;
                    }
                    Err(error) => return error,
                };
                let _ = (&stream).read(&mut [0; 100]);
            }
        });
        let bind = waiting(move || {
            loop {
                if let Err(error) = UdpSocket::bind(&here, v4(TESTED_V4, 7)) {
                    return error;
                }
            }
        });
        std::thread::sleep(Duration::from_micros(500 * round));
        drop(engine);
        for wait in [serve, connect, bind] {
            let error = wait.recv_timeout(PATIENCE).expect("it ends with the engine");
            assert_eq!(error.raw_os_error(), Some(ESHUTDOWN), "{error}");
        }
    }
}

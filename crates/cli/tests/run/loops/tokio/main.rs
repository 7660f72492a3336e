//! A current-thread runtime of tokio: mio's epoll instance, timers in its wheel, wake-ups by an eventfd.

use std::io::{BufRead as _, Read as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::net::TcpStream;

/// Sends back what comes on descriptor 40.
async fn echo(stream: TcpStream) {
    let mut bytes = [0; 64];
    while stream.ready(Interest::READABLE).await.is_ok() {
        match stream.try_read(&mut bytes) {
            Ok(0) => return,
            Ok(count) => drop(stream.try_write(&vec![b'x'; count])),
            Err(_) => {}
        }
    }
}

async fn run() {
    // SAFETY: whoever started this has opened descriptor 40 for it, and nothing else here uses it.
    let peer = std::net::TcpStream::from(unsafe { OwnedFd::from_raw_fd(40) });
    peer.set_nonblocking(true).expect("a socket");
    tokio::spawn(echo(TcpStream::from_std(peer).expect("a runtime")));
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new()).expect("a line");
    let begun = Instant::now();
    for _ in 0..2000 {
        tokio::task::yield_now().await;
    }
    let passes = begun.elapsed();
    let mut early = 0;
    for ms in [1, 3, 7, 20] {
        let begun = Instant::now();
        tokio::time::sleep(Duration::from_millis(ms)).await;
        early += i32::from(begun.elapsed() + Duration::from_millis(1) < Duration::from_millis(ms));
    }
    let (woken, mut wakes) = tokio::sync::mpsc::unbounded_channel();
    let (asks, asked) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        for _ in 0..200 {
            woken.send(()).expect("it listens");
            asked.recv().expect("it asks");
        }
    });
    let begun = Instant::now();
    for _ in 0..200 {
        wakes.recv().await;
        asks.send(()).expect("it listens");
    }
    let wakes = begun.elapsed();
    other.join().expect("it ends");
    println!("done {early} {} {}", passes.as_micros(), wakes.as_micros());
}

fn main() {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(run());
    std::io::stdin().read_to_end(&mut Vec::new()).expect("it ends");
}

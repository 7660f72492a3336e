//! Listens on a memif socket and counts packets; sleeps while there are none: `receiver SOCKET [COUNT]`.

use std::error::Error;
use std::time::Duration;

use napier_memif::{InterfaceConfig, Memif, MemifEvent, MemifPackets, MemifReceiver};
use rustix::event::{PollFd, PollFlags, poll};

/// Receives until `count` packets are there or the peer has gone; packets and bytes.
pub(crate) fn run(socket: &str, count: u64) -> Result<(u64, u64), Box<dyn Error>> {
    let mut memif = Memif::new()?;
    memif.add("receiver", InterfaceConfig::server(socket))?;
    let mut packets = MemifPackets::new(64, 2048);
    let mut queue: Option<MemifReceiver> = None;
    let mut over = false;
    loop {
        // Until it has nothing more to tell: what it has told is not told by the descriptor.
        while let Some(event) = memif.poll(Some(Duration::ZERO)) {
            match event {
                MemifEvent::Connected { receivers, .. } => queue = receivers.into_iter().next(),
                MemifEvent::Disconnected { why, .. } => {
                    eprintln!("{why}");
                    over = true;
                }
                MemifEvent::Refused { why, .. } => eprintln!("{why}"),
                MemifEvent::PacketsWait { .. } => {}
            }
        }
        let mut armed = false;
        if let Some(receiver) = &mut queue {
            receiver.disarm();
            while receiver.receive(&mut packets) > 0 {}
            let counted = receiver.counters();
            if over || counted.packets >= count {
                return Ok((counted.packets, counted.bytes));
            }
            armed = receiver.arm();
        }
        if queue.is_none() || armed {
            let mut sources = vec![PollFd::new(&memif, PollFlags::IN)];
            sources.extend(queue.iter().map(|receiver| PollFd::new(receiver, PollFlags::IN)));
            poll(&mut sources, None)?;
        }
    }
}

#[allow(dead_code)] // the test calls `run`
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().ok_or("usage: receiver SOCKET [COUNT]")?;
    let count = arguments.next().map_or(Ok(u64::MAX), |count| count.parse())?;
    let (packets, bytes) = run(&socket, count)?;
    println!("{packets} packets, {bytes} bytes");
    Ok(())
}

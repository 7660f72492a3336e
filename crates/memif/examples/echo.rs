//! Sends back every packet with its Ethernet addresses exchanged, on every queue: `echo SOCKET [QUEUES]`.

use std::error::Error;
use std::time::Duration;

use napier_memif::{InterfaceConfig, Memif, MemifEvent, MemifPackets, MemifReceiver, MemifSender};

/// Answers one peer until it has gone; packets that were sent back.
pub(crate) fn run(socket: &str, queues: u16) -> Result<u64, Box<dyn Error>> {
    let mut memif = Memif::new()?;
    memif.add("echo", InterfaceConfig { queues, ..InterfaceConfig::server(socket) })?;
    let mut packets = MemifPackets::new(64, 2048);
    let mut pairs: Vec<(MemifReceiver, MemifSender)> = Vec::new();
    loop {
        match memif.poll(if pairs.is_empty() { None } else { Some(Duration::ZERO) }) {
            Some(MemifEvent::Connected { receivers, senders, .. }) => {
                pairs = receivers.into_iter().zip(senders).collect()
            }
            Some(MemifEvent::Disconnected { why, .. }) => {
                eprintln!("{why}");
                return Ok(pairs.iter().map(|(_, sender)| sender.counters().packets).sum());
            }
            _ => {}
        }
        for (receiver, sender) in &mut pairs {
            if receiver.receive(&mut packets) == 0 {
                continue;
            }
            for packet in packets.iter_mut().filter(|packet| packet.len() >= 12) {
                let (to, from) = packet[..12].split_at_mut(6);
                to.swap_with_slice(from);
            }
            // What does not fit is lost: the peer is too slow to take its own packets back.
            sender.send(packets.iter());
        }
    }
}

#[allow(dead_code)] // the test calls `run`
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().ok_or("usage: echo SOCKET [QUEUES]")?;
    let queues = arguments.next().map_or(Ok(1), |queues| queues.parse())?;
    println!("{} packets sent back", run(&socket, queues)?);
    Ok(())
}

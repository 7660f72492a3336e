//! Sends packets to whoever listens on a memif socket: `sender SOCKET [COUNT]`.

use std::error::Error;
use std::time::Duration;

use napier_memif::{InterfaceConfig, Memif, MemifEvent, MemifSender};

/// Packets of one burst.
const BURST: u64 = 32;

/// Sends `count` packets, each of which says its number, and returns when the peer has them all.
pub(crate) fn run(socket: &str, count: u64) -> Result<u64, Box<dyn Error>> {
    let mut memif = Memif::new()?;
    memif.add("sender", InterfaceConfig::client(socket))?;
    let mut queue: Option<MemifSender> = None;
    let mut sent = 0;
    loop {
        // Now and then, for the peer may go; for as long as it likes while there is none.
        match memif.poll(queue.is_some().then_some(Duration::ZERO)) {
            Some(MemifEvent::Connected { senders, .. }) => queue = senders.into_iter().next(),
            Some(MemifEvent::Disconnected { why, .. }) if queue.is_some() => return Err(why.into()),
            Some(MemifEvent::Disconnected { why, .. }) => eprintln!("{why}"),
            _ => {}
        }
        let Some(sender) = &mut queue else { continue };
        if sent == count && sender.in_flight() == 0 {
            return Ok(sent);
        }
        let burst: Vec<[u8; 64]> = (sent..count.min(sent + BURST)).map(packet).collect();
        let accepted = sender.send(burst.iter().map(<[u8; 64]>::as_slice)).packets;
        sent += accepted;
        if accepted == 0 {
            // The ring is full.
            std::thread::yield_now();
        }
    }
}

/// An Ethernet frame of a type for experiments (IEEE 802, 0x88b5) with a number.
fn packet(number: u64) -> [u8; 64] {
    let mut packet = [0; 64];
    packet[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    packet[14..22].copy_from_slice(&number.to_be_bytes());
    packet
}

#[allow(dead_code)] // the test calls `run`
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().ok_or("usage: sender SOCKET [COUNT]")?;
    let count = arguments.next().map_or(Ok(1_000_000), |count| count.parse())?;
    println!("{} packets sent", run(&socket, count)?);
    Ok(())
}

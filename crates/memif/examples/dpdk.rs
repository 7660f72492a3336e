//! A memif pair with DPDK: sends packets to testpmd, which sends them back, and counts what returns: `dpdk SOCKET [COUNT]`.
//!
//! The other side is testpmd's net_memif (Debian: `apt-get install dpdk-dev librte-net-memif23`), which connects when it is started:
//!
//! ```text
//! dpdk-testpmd -l 0,1 --no-huge -m 256 --no-pci --vdev net_memif0,role=client,id=0,socket=SOCKET,socket-abstract=no -- \
//!     --forward-mode=io --auto-start --no-flush-rx
//! ```

use std::error::Error;
use std::time::Duration;

use napier_memif::{InterfaceConfig, Memif, MemifEvent, MemifPackets};

/// Packets on their way, most: fewer than a ring has slots, so testpmd drops none.
const WINDOW: u64 = 256;
const BURST: u64 = 32;

/// Sends `count` packets with a number each, and waits until all are back, in order.
pub(crate) fn run(socket: &str, count: u64) -> Result<u64, Box<dyn Error>> {
    let mut memif = Memif::new()?;
    memif.add("dpdk", InterfaceConfig::server(socket))?;
    let (mut packets, mut queues) = (MemifPackets::new(64, 2048), None);
    let (mut sent, mut back) = (0, 0);
    while back < count {
        match memif.poll(if queues.is_none() { None } else { Some(Duration::ZERO) }) {
            Some(MemifEvent::Connected { receivers, senders, .. }) => {
                queues = receivers.into_iter().next().zip(senders.into_iter().next());
            }
            Some(MemifEvent::Disconnected { why, .. }) if queues.is_some() => return Err(why.into()),
            _ => {}
        }
        let Some((receiver, sender)) = &mut queues else { continue };
        let until = count.min(back + WINDOW).min(sent + BURST);
        let burst: Vec<[u8; 64]> = (sent..until).map(packet).collect();
        sent += sender.send(burst.iter().map(<[u8; 64]>::as_slice)).packets;
        receiver.receive(&mut packets);
        for returned in packets.iter() {
            if returned[14..22] != back.to_be_bytes() {
                return Err(format!("packet {back} came back changed or out of order").into());
            }
            back += 1;
        }
    }
    Ok(back)
}

/// An Ethernet frame of a type for experiments (IEEE 802, 0x88b5) with a number.
fn packet(number: u64) -> [u8; 64] {
    let mut packet = [0; 64];
    packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    packet[12..14].copy_from_slice(&[0x88, 0xb5]);
    packet[14..22].copy_from_slice(&number.to_be_bytes());
    packet
}

#[allow(dead_code)] // the test calls `run`
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().ok_or("usage: dpdk SOCKET [COUNT]")?;
    let count = arguments.next().map_or(Ok(1_000_000), |count| count.parse())?;
    println!("{} packets came back", run(&socket, count)?);
    Ok(())
}

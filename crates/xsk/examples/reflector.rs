//! Answers UDP packets to a port, on all queues of an interface, from where they were received; the kernel has all other packets:
//! `reflector INTERFACE PORT [COUNT]`.

use std::error::Error;

use napier_xsk::{XdpFilter, Xsk, XskConfig};
use rustix::event::{PollFd, PollFlags, poll};

/// Answers until `count` packets were taken; how many.
pub(crate) fn run(config: &XskConfig, count: u64) -> Result<u64, Box<dyn Error>> {
    let (xsk, mut queues) = Xsk::open(config)?;
    println!("{:?}", xsk.info());
    let mut total = 0;
    while total < count {
        let taken: u32 = queues.iter_mut().map(|queue| queue.reflect(turn_round)).sum();
        total += u64::from(taken);
        if taken == 0 {
            let mut sources: Vec<_> = queues.iter().map(|queue| PollFd::new(queue, PollFlags::IN)).collect();
            poll(&mut sources, None)?;
        }
    }
    Ok(total)
}

/// Exchanges the addresses of Ethernet, IPv4 and UDP; no checksum changes by that. False: not to be answered.
fn turn_round(packet: &mut [u8]) -> bool {
    // The filter passes IPv4 without options and IPv6; this answers the former.
    if packet.len() < 42 || packet[12..14] != [0x08, 0x00] {
        return false;
    }
    for (at, bytes) in [(0, 6), (26, 4), (34, 2)] {
        let (one, other) = packet[at..at + 2 * bytes].split_at_mut(bytes);
        one.swap_with_slice(other);
    }
    true
}

#[allow(dead_code)] // the test calls `run`
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(interface), Some(port)) = (arguments.next(), arguments.next()) else {
        return Err("usage: reflector INTERFACE PORT [COUNT]".into());
    };
    let port: u16 = port.parse()?;
    let count = arguments.next().map_or(Ok(u64::MAX), |count| count.parse())?;
    let filter = XdpFilter::Ports { addresses: Vec::new(), udp: vec![port..=port], tcp: Vec::new() };
    println!("{} packets", run(&XskConfig { filter, ..XskConfig::on(&interface) }, count)?);
    Ok(())
}

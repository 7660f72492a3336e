//! Counts the packets of an interface's first queue, and sleeps while there are none: `counter INTERFACE [COUNT] [ADDRESS]`.

use std::error::Error;
use std::net::IpAddr;

use napier_xsk::{XdpFilter, Xsk, XskConfig};
use rustix::event::{PollFd, PollFlags, poll};

/// Receives `count` packets or more; packets and bytes.
pub(crate) fn run(config: &XskConfig, count: u64) -> Result<(u64, u64), Box<dyn Error>> {
    let (xsk, mut queues) = Xsk::open(config)?;
    println!("{:?}", xsk.info());
    let (receiver, _) = queues[0].parts();
    let (mut packets, mut bytes) = (0, 0);
    while packets < count {
        let taken = receiver.receive(|packet| bytes += packet.len() as u64);
        packets += u64::from(taken);
        if taken == 0 {
            poll(&mut [PollFd::new(&*receiver, PollFlags::IN)], None)?;
        }
    }
    println!("{:?}", xsk.statistics());
    Ok((packets, bytes))
}

#[allow(dead_code)] // the test calls `run`
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let interface = arguments.next().ok_or("usage: counter INTERFACE [COUNT] [ADDRESS]")?;
    let count = arguments.next().map_or(Ok(u64::MAX), |count| count.parse())?;
    // Without an address the kernel hears nothing on the queue.
    let filter = match arguments.next() {
        Some(address) => XdpFilter::Addresses(vec![address.parse::<IpAddr>()?]),
        None => XdpFilter::Everything,
    };
    let (packets, bytes) = run(&XskConfig { queues: 1, filter, ..XskConfig::on(&interface) }, count)?;
    println!("{packets} packets, {bytes} bytes");
    Ok(())
}

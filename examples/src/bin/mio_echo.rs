//! UDP echo in an event loop of mio, where the engine's sockets stand beside one of the kernel:
//! `mio_echo eth1 192.0.2.10/24 [::1]:7000`. Needs root; `socat - UDP:192.0.2.10:7` of another machine.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use mio::{Events, Interest, Poll, Token};
use napier_runtime::device::{EndConfig, IfAddr, XdpConfig};
use napier_runtime::engine::Engine;
use napier_runtime::event::{self, Event, EventContext, Timeout};
use napier_runtime::socket::UdpSocket;

const ENGINE: Token = Token(0);
const KERNEL: Token = Token(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [interface, address, kernels] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "give INTERFACE ADDRESS/LENGTH ADDRESS:PORT")?;
    let address: IfAddr = address.parse()?;
    let engine = Engine::builder().start()?;
    let end = EndConfig::new("xdp0", engine.namespace(), &[address]);
    let device = engine.add_xdp(&XdpConfig::on(&interface), end)?;
    let socket = UdpSocket::builder().nonblocking(true).bind(device.netns(), SocketAddr::new(address.addr, 7))?;
    println!("{}:7 and {kernels}", address.addr);
    echo(&engine, &socket, mio::net::UdpSocket::bind(kernels.parse()?)?)?;
    Ok(())
}

pub fn echo(engine: &Engine, socket: &UdpSocket, mut kernels: mio::net::UdpSocket) -> io::Result<()> {
    let mut context = EventContext::new(engine);
    context.add(socket, event::Interest::IN, 0)?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut context, ENGINE, Interest::READABLE)?;
    poll.registry().register(&mut kernels, KERNEL, Interest::READABLE)?;
    let (mut events, mut news, mut buffer) = (Events::with_capacity(16), [Event::default(); 16], [0; 2048]);
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == ENGINE {
                // Until there is nothing: mio tells of what comes after that.
                while context.wait(&mut news, Timeout::Outside)? > 0 {
                    answer_all(|| {
                        socket.recv_from(&mut buffer).and_then(|(len, from)| socket.send_to(&buffer[..len], from))
                    })?;
                }
            } else {
                answer_all(|| {
                    kernels.recv_from(&mut buffer).and_then(|(len, from)| kernels.send_to(&buffer[..len], from))
                })?;
            }
        }
    }
}

fn answer_all(mut answer: impl FnMut() -> io::Result<usize>) -> io::Result<()> {
    loop {
        match answer() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            other => other.map(drop)?,
        }
    }
}

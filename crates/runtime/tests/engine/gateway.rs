//! Two networks with a station between them that forwards: what is not on the link goes to the gateway.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use napier_runtime::device::{DeviceHandle, LinkConfig};
use napier_runtime::engine::Engine;
use napier_runtime::raw::RawPort;
use napier_runtime::socket::{GatewayError, NetNs, TcpListener, TcpStream, UdpSocket};

use crate::common::PATIENCE;
use crate::common::frames::ETH;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn mac(network: u8, station: u8) -> [u8; 6] {
    [2, 0, 0, 0x88, network, station]
}

/// Network `n` is 10.88.n.0/24 and fd88:n::/64, with the host at 2 and the gateway at 1.
struct Network {
    host: DeviceHandle,
    ns: NetNs,
    gateway: DeviceHandle,
}

impl Network {
    fn new(engine: &Engine, n: u8) -> Self {
        let (ns, router_ns) = (engine.namespace(), engine.namespace());
        let end = |name: &str, netns: &NetNs, station: u8| {
            let addr = |text: String, prefix_len| (text.parse().unwrap(), prefix_len);
            let addresses = [addr(format!("10.88.{n}.{station}"), 24), addr(format!("fd88:{n}::{station}"), 64)];
            crate::common::end(&format!("{name}{n}"), netns, mac(n, station), &addresses)
        };
        let ends = (end("host", &ns, 2), end("router", &router_ns, 1));
        let (host, gateway) = engine.add_link(&LinkConfig::default(), ends.0, ends.1).unwrap();
        for addr in [format!("10.88.{n}.1"), format!("fd88:{n}::1")] {
            ns.neighbour_add(host.ifindex(), addr.parse().unwrap(), mac(n, 1)).unwrap();
        }
        Self { host, ns, gateway }
    }

    fn use_gateways(&self, n: u8) {
        for addr in [format!("10.88.{n}.1"), format!("fd88:{n}::1")] {
            self.ns.gateway_set(self.host.ifindex(), addr.parse().unwrap()).unwrap();
        }
    }
}

/// Carries frames from either network to the other, as a router does, but for the hop limit.
struct Router {
    stop: Arc<AtomicBool>,
    forwarded: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Router {
    fn between(one: &Network, two: &Network) -> Self {
        let ports = [&one.gateway, &two.gateway].map(|device| RawPort::bind(device, 0).unwrap());
        let (stop, forwarded) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (stop.clone(), forwarded.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let mut idle = true;
                for (from, to, n) in [(&ports[0], &ports[1], 2), (&ports[1], &ports[0], 1)] {
                    let mut frames = Vec::new();
                    from.recv();
                    from.drain(usize::MAX, |frame| frames.push(frame.to_vec()));
                    for mut frame in frames {
                        idle = false;
                        frame[..6].copy_from_slice(&mac(n, 2));
                        frame[6..12].copy_from_slice(&mac(n, 1));
                        assert!(frame.len() > ETH);
                        // A full ring loses it, as on any router.
                        let _ = to.build(frame.len(), |slot| {
                            slot[..frame.len()].copy_from_slice(&frame);
                            frame.len()
                        });
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    to.flush();
                }
                if idle {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        });
        Self { stop, forwarded, thread: Some(thread) }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("ended once").join();
        assert!(ended.is_ok() || std::thread::panicking(), "the router failed");
    }
}

#[test]
fn datagrams_and_connections_reach_another_network() {
    let engine = Engine::builder().start().unwrap();
    let (one, two) = (Network::new(&engine, 1), Network::new(&engine, 2));
    one.use_gateways(1);
    two.use_gateways(2);
    let router = Router::between(&one, &two);
    for (client, server) in [("10.88.1.2", at("10.88.2.2:7000")), ("fd88:1::2", at("[fd88:2::2]:7000"))] {
        let (near, far) = (UdpSocket::bind(&one.ns, any(server)).unwrap(), UdpSocket::bind(&two.ns, server).unwrap());
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        near.connect(server).unwrap();
        assert_eq!(near.local_addr().unwrap().ip(), ip(client), "the address in the gateway's network");
        near.send(b"question").unwrap();
        let mut buffer = [0; 16];
        let (len, from) = far.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from.ip()), (&b"question"[..], ip(client)));
        far.send_to(b"answer", from).unwrap();
        assert_eq!(near.recv(&mut buffer).unwrap(), 6);

        let listener = TcpListener::bind(&two.ns, server).unwrap();
        let stream = TcpStream::connect(&one.ns, server).unwrap();
        let (accepted, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), ip(client));
        let echo = std::thread::spawn(move || {
            let mut all = Vec::new();
            (&accepted).read_to_end(&mut all).unwrap();
            all.len()
        });
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        (&stream).write_all(&[7; 300_000]).unwrap();
        drop(stream);
        assert_eq!(echo.join().unwrap(), 300_000);
    }
    assert!(router.forwarded.load(Ordering::Relaxed) > 400);
}

fn any(like: SocketAddr) -> SocketAddr {
    if like.is_ipv4() { at("0.0.0.0:0") } else { at("[::]:0") }
}

#[test]
fn without_a_gateway_other_networks_are_unreachable() {
    let engine = Engine::builder().start().unwrap();
    let one = Network::new(&engine, 1);
    let server = at("10.88.2.2:7000");
    let unreachable = || TcpStream::connect(&one.ns, server).unwrap_err().raw_os_error() == Some(libc::ENETUNREACH);
    assert!(unreachable());
    one.ns.gateway_set(one.host.ifindex(), ip("10.88.1.1")).unwrap();
    let socket = UdpSocket::bind(&one.ns, at("0.0.0.0:0")).unwrap();
    assert_eq!(socket.send_to(b"x", server).unwrap(), 1);
    one.ns.gateway_del(ip("10.88.1.1")).unwrap();
    assert!(unreachable());
    assert_eq!(one.ns.gateway_del(ip("10.88.1.1")), Err(GatewayError::NotFound { gateway: ip("10.88.1.1") }));
}

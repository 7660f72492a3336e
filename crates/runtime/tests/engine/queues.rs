//! Several queues: flows go where the indirection table says, and workers get the packets of their own instance only.

use std::net::SocketAddr;

use napier_runtime::control::NapiGet;
use napier_runtime::device::LinkConfig;
use napier_runtime::socket::{ReusePort, SocketOption, UdpSocket};

use crate::common::{PEER_V4, PEER_V6, Pair, TESTED_V4, TESTED_V6, bound, eventually, v4, v6};

const QUEUES: u16 = 4;
const FLOWS: u16 = 64;
const PER_FLOW: u64 = 4;

fn pair() -> Pair {
    Pair::new(&LinkConfig { queues: QUEUES, ..LinkConfig::default() })
}

/// Clients of one server, each a flow of its own.
fn flows(pair: &Pair, server: SocketAddr) -> Vec<UdpSocket> {
    (0..FLOWS)
        .map(|flow| {
            let port = 20_000 + flow;
            let addr = if server.is_ipv4() { v4(PEER_V4, port) } else { v6(PEER_V6, port) };
            let client = UdpSocket::bind(&pair.peer_ns, addr).unwrap();
            client.connect(server).unwrap();
            client
        })
        .collect()
}

fn packets(pair: &Pair) -> [u64; QUEUES as usize] {
    std::array::from_fn(|queue| pair.tested.napi_stats(queue as u16).packets_total())
}

/// Sends on every flow; returns what each queue received and what receive-side scaling promised.
fn spread(pair: &Pair, clients: &[UdpSocket], server: &UdpSocket) -> [[u64; QUEUES as usize]; 2] {
    let before = packets(pair);
    let mut promised = [0; QUEUES as usize];
    let mut buffer = [0; 64];
    for client in clients {
        let (src, dst) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        promised[usize::from(pair.tested.rx_queue_of(src, dst))] += PER_FLOW;
        for _ in 0..PER_FLOW {
            client.send(b"request").unwrap();
            assert_eq!(server.recv_from(&mut buffer).unwrap(), (7, src));
        }
    }
    // A poll counts its packets at its end, after they were read.
    let expected: u64 = promised.iter().sum();
    let received = || std::iter::zip(packets(pair), before).map(|(now, then)| now - then);
    eventually("every packet is counted", || received().sum::<u64>() == expected);
    let received = std::iter::zip(packets(pair), before).map(|(now, then)| now - then).collect::<Vec<_>>();
    [received.try_into().unwrap(), promised]
}

#[test]
fn flows_follow_the_indirection_table() {
    let pair = pair();
    for addr in [v4(TESTED_V4, 4000), v6(TESTED_V6, 4000)] {
        let server = bound(&pair.tested_ns, addr);
        let clients = flows(&pair, addr);

        let equal: [u16; 128] = std::array::from_fn(|entry| entry as u16 % QUEUES);
        pair.tested.set_indirection(equal).unwrap();
        let [received, promised] = spread(&pair, &clients, &server);
        assert_eq!(received, promised);
        assert!(received.iter().all(|count| *count > 0), "64 flows leave no queue out: {received:?}");

        // All flows move to one queue, then to two.
        pair.tested.set_indirection([2; 128]).unwrap();
        let [received, promised] = spread(&pair, &clients, &server);
        assert_eq!(received, promised);
        assert_eq!(received, [0, 0, u64::from(FLOWS) * PER_FLOW, 0]);

        let two: [u16; 128] = std::array::from_fn(|entry| if entry < 64 { 1 } else { 3 });
        pair.tested.set_indirection(two).unwrap();
        assert_eq!(pair.tested.indirection(), two);
        let [received, promised] = spread(&pair, &clients, &server);
        assert_eq!(received, promised);
        assert!(received[1] > 0 && received[3] > 0 && received[0] + received[2] == 0, "{received:?}");
    }
}

#[test]
fn an_entry_without_a_queue_is_refused() {
    let pair = pair();
    let before = pair.tested.indirection();
    let mut entries = before;
    entries[127] = QUEUES;
    let error = pair.tested.set_indirection(entries).unwrap_err();
    assert!(error.to_string().contains("EINVAL"), "{error}");
    assert_eq!(pair.tested.indirection(), before);
}

#[test]
fn sockets_know_the_instance_of_their_queue() {
    let pair = pair();
    let mut seen = [false; QUEUES as usize];
    for (flow, client) in flows(&pair, v4(TESTED_V4, 4000)).iter().enumerate() {
        let server = bound(&pair.tested_ns, v4(TESTED_V4, 4000));
        assert_eq!(server.getsockopt(SocketOption::IncomingNapiId), Ok(0), "nothing was received yet");
        let (src, dst) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        server.connect(src).unwrap();
        client.send(&[0; 9]).unwrap();
        assert_eq!(server.recv(&mut [0; 64]).unwrap(), 9, "flow {flow}");

        let queue = pair.tested.rx_queue_of(src, dst);
        seen[usize::from(queue)] = true;
        let id = server.getsockopt(SocketOption::IncomingNapiId).unwrap().cast_unsigned();
        assert_eq!(id, pair.tested.napi_id(queue));
        let info = pair.engine.napi_get(NapiGet { id: Some(u64::from(id)) }).unwrap();
        assert_eq!((info.id, info.ifindex), (id, pair.tested.ifindex()));
    }
    assert_eq!(seen, [true; QUEUES as usize]);
}

/// With as many workers as instances, each gets all that one instance receives and nothing else.
#[test]
fn by_napi_gives_each_worker_its_own_instance() {
    let pair = pair();
    let addr = v4(TESTED_V4, 4000);
    let builder = UdpSocket::builder().reuse_port(ReusePort::ByNapi).nonblocking(true).rcvbuf(4 << 20);
    let workers: Vec<_> = (0..QUEUES).map(|_| builder.bind(&pair.tested_ns, addr).unwrap()).collect();
    let clients = flows(&pair, addr);
    let queue_of = |client: &UdpSocket| pair.tested.rx_queue_of(client.local_addr().unwrap(), addr);

    // One packet per queue, one after the other: two instances that choose at the same moment may choose alike.
    let mut buffer = [0; 64];
    for queue in 0..QUEUES {
        let client = clients.iter().find(|client| queue_of(client) == queue).unwrap();
        client.send(&queue.to_le_bytes()).unwrap();
        eventually("a worker has the queue's first packet", || {
            workers.iter().any(|worker| worker.recv(&mut buffer).is_ok_and(|len| buffer[..len] == queue.to_le_bytes()))
        });
    }
    let mut ids: Vec<_> = workers.iter().map(|w| w.getsockopt(SocketOption::IncomingNapiId).unwrap()).collect();
    let mut counts = [0; QUEUES as usize];
    for round in 0..PER_FLOW {
        for client in &clients {
            client.send(&queue_of(client).to_le_bytes()).unwrap();
        }
        let mut left = usize::from(FLOWS);
        eventually("a round of all flows", || {
            for (worker, id) in workers.iter().zip(&ids) {
                while let Ok(len) = worker.recv(&mut buffer) {
                    let queue = u16::from_le_bytes(buffer[..len].try_into().unwrap());
                    assert_eq!(pair.tested.napi_id(queue), id.cast_unsigned(), "round {round}");
                    counts[usize::from(queue)] += 1;
                    left -= 1;
                }
            }
            left == 0
        });
    }
    for queue in 0..QUEUES {
        let promised = clients.iter().filter(|client| queue_of(client) == queue).count() as u64 * PER_FLOW;
        assert_eq!(counts[usize::from(queue)], promised);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), usize::from(QUEUES), "no two workers share an instance");
}

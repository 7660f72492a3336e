//! temporary
mod common;
use common::modes::{Mode, echo, stop};
use common::*;
use napier_runtime::{LinkConfig, UdpSocket};
use std::time::Duration;
#[test]
fn hunt() {
    let rounds: u32 = std::env::var("ROUNDS").map_or(200, |r| r.parse().unwrap());
    let mode = match std::env::var("MODE").as_deref() { Ok("softirq") => Mode::Softirq, Ok("threaded") => Mode::Threaded, _ => Mode::ThreadedBusyPoll };
    for round in 0..rounds {
        let pair = Pair::new(&LinkConfig::default());
        pair.set_all(&pair.tested, &mode.settings());
        for (server, client) in [(v4(TESTED_V4, 4000), v4(PEER_V4, 5000)), (v6(TESTED_V6, 4000), v6(PEER_V6, 5000))] {
            let thread = echo(&pair.engine, mode, UdpSocket::bind(&pair.tested_ns, server).unwrap());
            let client = UdpSocket::bind(&pair.peer_ns, client).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(4))).unwrap();
            let (mut sent, mut done) = (0_u64, 0_u64);
            while done < 1000 {
                while sent < 1000 && sent - done < 16 { client.send_to(&sent.to_le_bytes(), server).unwrap(); sent += 1; }
                if let Err(error) = client.recv(&mut [0; 64]) {
                    eprintln!("round {round} {server} sent {sent} done {done}: {error}");
                    eprintln!("tested {:?}\n{:?}\n{}", pair.tested.napi_stats(0), pair.tested.stats(), pair.tested_ns.counters());
                    eprintln!("peer {:?}\n{:?}\n{}", pair.peer.napi_stats(0), pair.peer.stats(), pair.peer_ns.counters());
                    eprintln!("{:?}", pair.engine.softirq_stats());
                    if let Err(error) = client.recv(&mut [0; 64]) { eprintln!("again {error}"); }
                    std::thread::sleep(Duration::from_secs(1000));
                }
                done += 1;
            }
            stop(&client, server, thread);
        }
    }
}

//! TCP above a transmit queue whose senders wait for the root lock and run the queue themselves.

use std::io::{Read, Write};
use std::net::Shutdown;

use napier_runtime::device::LinkConfig;
use napier_runtime::socket::TcpListener;
use napier_runtime::tx::{QdiscConfig, TxVariant};

use super::{echo, join, servers};
use crate::common::Pair;

const CONNECTIONS: usize = 4;
const ROUNDS: usize = 150;

/// A writer that runs the queue holds its connection. It must not poll there: what it receives may be for another
/// connection, or for the one that it holds.
#[test]
fn writers_that_run_the_queue_do_not_receive() {
    // Rings that are often full, so that queues stop and are scheduled.
    let pair = Pair::new(&LinkConfig { ring_size: 64, ..LinkConfig::default() });
    for device in [&pair.tested, &pair.peer] {
        device.set_qdisc(0, &QdiscConfig::pfifo()).unwrap();
        device.set_tx_variant(0, TxVariant::Locked).unwrap();
    }
    let listener = TcpListener::bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let connections: Vec<_> = (0..CONNECTIONS).map(|_| join(&pair.peer_ns, &listener)).collect();
    std::thread::scope(|scope| {
        for (client, server) in connections {
            let echo = echo(server);
            scope.spawn(move || {
                let (sent, mut back) = ([7; 20_000], [0; 20_000]);
                for _ in 0..ROUNDS {
                    (&client).write_all(&sent).unwrap();
                    (&client).read_exact(&mut back).unwrap();
                    assert_eq!(sent, back);
                }
                client.shutdown(Shutdown::Write).unwrap();
                assert_eq!(echo.join().unwrap(), (ROUNDS * sent.len()) as u64);
            });
        }
    });
    let faults = [&pair.tested_ns, &pair.peer_ns].map(|ns| ns.counters().tcp_faults);
    assert_eq!(faults, [0, 0]);
}

use napier_ring::Frame;

use super::*;
use crate::port::{Bell, FrameAccount, TxFull};

mod interrupts;
mod traffic;

struct Link {
    table: Arc<FrameTable>,
    client: Vec<QueuePair>,
    server: Vec<QueuePair>,
}

fn link(config: &LinkConfig) -> Link {
    let table = Arc::new(FrameTable::new());
    let (client, server) = create(config, &table).expect("link");
    Link { table, client: client.queues, server: server.queues }
}

fn small() -> LinkConfig {
    LinkConfig { ring_size: 64, frame_bytes: 256, ..LinkConfig::default() }
}

fn send(pair: &mut QueuePair, number: u64) -> Result<(), TxFull> {
    let sent = pair.tx.build(16, |buffer| {
        buffer[..8].copy_from_slice(&number.to_le_bytes());
        8
    });
    flush(pair);
    sent
}

/// Publishes, and interrupts the peer if it wants that.
fn flush(pair: &mut QueuePair) {
    pair.tx.flush();
    pair.tx.take_bell().into_iter().for_each(Bell::ring);
}

fn receive(pair: &mut QueuePair, table: &FrameTable) -> Option<u64> {
    let (frame, length) = pair.rx.take()?;
    let number = number_in(&frame, length, table);
    pair.rx.frames_home().free(frame);
    Some(number)
}

fn number_in(frame: &Frame, length: u32, table: &FrameTable) -> u64 {
    u64::from_le_bytes(table.data(frame, length as usize).try_into().expect("8 bytes"))
}

/// What an end's frames do at rest: all in pools and posted, none sent and not reclaimed.
fn assert_at_rest(end: &mut [QueuePair]) {
    let mut sum = FrameAccount::default();
    for pair in end {
        pair.rx.refill();
        pair.tx.flush();
        pair.tx.reclaim();
        assert_eq!(pair.tx.account().in_ring, 0);
        sum = [sum, pair.rx.account(), pair.tx.account()].into_iter().sum();
    }
    assert_eq!(sum.out(), 0, "{sum:?}");
}

impl Link {
    fn assert_at_rest(&mut self) {
        assert_at_rest(&mut self.server);
        assert_at_rest(&mut self.client);
    }
}

fn line_of(pair: &QueuePair) -> Arc<LinkLine> {
    match &pair.irq {
        IrqLine::LinkClient(line) | IrqLine::LinkServer(line) => line.clone(),
        _ => unreachable!("a link's line"),
    }
}

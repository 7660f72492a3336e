//! What becomes of the peer of a device.

use std::io;
use std::sync::Arc;

use napier_memif::Disconnect;
use napier_memif::drive::{Connection, PeerHandler};

use super::MemifLine;
use super::ends::{MemifRx, MemifTx};
use crate::port::{AddedDevice, RxCounters, RxEnd, TxCounters, TxEnd};

/// What is kept of a device's queues for its handler.
pub(super) struct PortParts {
    pub(super) lines: Vec<Arc<MemifLine>>,
    pub(super) counters: Vec<(Arc<RxCounters>, Arc<TxCounters>)>,
}

/// Carries the peer's coming and going to the device.
pub(super) struct DeviceHandler {
    pub(super) device: Arc<dyn AddedDevice>,
    pub(super) parts: PortParts,
    pub(super) frame_bytes: usize,
    pub(super) keep_connections: bool,
}

impl PeerHandler for DeviceHandler {
    fn connected(&self, Connection { peer, queues, tx_queues }: Connection) -> io::Result<()> {
        let mut ends = Vec::new();
        for (pair, line) in queues.into_iter().zip(&self.parts.lines) {
            let rx = match pair.rx {
                Some((ring, eventfd)) => {
                    line.connect(&eventfd, ring.interrupt_switch())?;
                    RxEnd::Memif(MemifRx { ring, frame_bytes: self.frame_bytes })
                }
                None => RxEnd::Detached,
            };
            let tx = pair
                .tx
                .map_or(TxEnd::Detached, |(ring, kick)| TxEnd::Memif(MemifTx::new(ring, self.frame_bytes, kick)));
            ends.push((rx, tx));
        }
        Ok(self.device.carrier_on(peer, ends, tx_queues)?)
    }

    fn disconnected(&self, why: Disconnect) {
        // The ends hold no frames.
        let had_peer = !self.device.carrier_off(why.to_string()).is_empty();
        if had_peer && !self.keep_connections {
            self.device.drop_connections();
        }
        self.parts.lines.iter().for_each(|line| line.disconnect());
    }

    fn refused(&self, why: &str) {
        drop(self.device.carrier_off(why.to_owned()));
    }

    fn index_errors(&self) -> u64 {
        self.parts.counters.iter().map(|(rx, tx)| rx.index_errors.get() + tx.index_errors.get()).sum()
    }

    fn look(&self) {
        for (queue, line) in self.parts.lines.iter().enumerate() {
            if line.overlooked() {
                self.device.interrupt(queue);
            }
        }
    }
}

//! What is asked once it is quiet: is every request accounted for, and does a new one on each flow get its answer?

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use napier_core::frames::udp_payload;
use napier_kv::load::codec::{Format, ReplyVerdict, Request, read_datagram};
use napier_lab::compare::parts::{CLIENT_PORT, PEER_IP, RawFlow, RawWire, write};

use super::act::{Act, PATIENCE};
use super::ledger::Losses;

/// Requests of an act that may be asked again, each after its loss was counted.
const REPEATS_MAX: u64 = 3;
/// Time between two looks at what was lost.
const LOSS_LOOK: Duration = Duration::from_millis(5);
const FRAME_BYTES: usize = 1514;

impl Act<'_> {
    /// Waits until every request is answered or counted as lost.
    pub(crate) fn settle(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let patient = begun.elapsed() < PATIENCE;
            self.receive(|_, _| Ok(()))?;
            let lost = Losses::read(self.pair);
            let known = self.replies + lost.total();
            if known == self.sent {
                return Ok(());
            }
            // Counters that are read one after the other may say too much for a moment.
            if !patient {
                bail!(
                    "a stall, an uncounted loss or one that counts twice: {} requests, {} answered, {} counted as lost ({lost})",
                    self.sent,
                    self.replies,
                    lost.total()
                );
            }
        }
    }

    /// Takes the replies that are there.
    fn receive(&mut self, each: impl FnMut(u16, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.replies += take(&self.client.wire, each)?;
        Ok(())
    }

    /// One request on each flow, alone.
    pub(crate) fn probe(&mut self) -> anyhow::Result<()> {
        (0..self.client.flows()).try_for_each(|flow| self.probe_flow(flow))
    }

    /// A request on a quiet link is answered. Its answer may meet a thread without a processor that was about to make
    /// room, and be refused and counted; that does not happen again and again.
    fn probe_flow(&mut self, flow: usize) -> anyhow::Result<()> {
        let (mut before, mut begun) = (Losses::read(self.pair), Instant::now());
        let key = self.ask(flow)?;
        let mut next_look = LOSS_LOOK;
        while !self.is_answered(flow, &key)? {
            if begun.elapsed() < next_look {
                continue;
            }
            next_look += LOSS_LOOK;
            let lost = Losses::read(self.pair);
            if lost.total() == before.total() {
                ensure!(begun.elapsed() < PATIENCE, "a stall: flow {flow} got no answer in {PATIENCE:?}");
                continue;
            }
            ensure!(
                self.repeats < REPEATS_MAX,
                "requests were lost on a quiet link, the last of flow {flow}; before it {before}, now {lost}"
            );
            self.repeats += 1;
            self.ask(flow)?;
            (before, begun, next_look) = (lost, Instant::now(), LOSS_LOOK);
        }
        Ok(())
    }

    /// Sends the request of a probe; its key.
    fn ask(&mut self, flow: usize) -> anyhow::Result<Vec<u8>> {
        // Ids of the probes repeat no id that is still on its way: nothing is.
        let id = u16::try_from(flow)?;
        let key = self.client.plan.profile.key(u32::from(id)).to_vec();
        let RawFlow { template, port, .. } = &self.client.wire.flows[flow];
        let build = |frame: &mut [u8]| write(frame, template, id, &Request::get(&key));
        let port = &self.client.wire.ports[*port];
        port.build(FRAME_BYTES, build).context("a quiet link has a full ring")?;
        port.flush();
        self.sent += 1;
        Ok(key)
    }

    fn is_answered(&mut self, flow: usize, key: &[u8]) -> anyhow::Result<bool> {
        let mut answered = false;
        self.receive(|udp_port, payload| {
            let (id, reply) = read_datagram(Format::Ascii, payload)?;
            let asked = udp_port == source(flow).port() && usize::from(id) == flow;
            ensure!(asked, "an answer to nothing that was asked");
            ensure!(reply.verdict(key, false) == ReplyVerdict::Right, "a wrong answer: {reply:?}");
            answered = true;
            Ok(())
        })?;
        Ok(answered)
    }
}

/// Takes the replies that are there; how many.
pub(crate) fn take(wire: &RawWire, mut each: impl FnMut(u16, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<u64> {
    let mut taken = 0;
    for port in &wire.ports {
        if !port.recv() {
            continue;
        }
        while let Some(frame) = port.next() {
            let (udp_port, payload) = udp_payload(frame.data()).context("a frame that is no datagram")?;
            taken += 1;
            each(udp_port, payload)?;
        }
    }
    Ok(taken)
}

/// Address of a flow.
pub(crate) fn source(flow: usize) -> SocketAddrV4 {
    SocketAddrV4::new(PEER_IP, CLIENT_PORT + u16::try_from(flow).expect("a few flows"))
}

//! A wire with a rate. Flows take turns on it, a part of a message each, as the discipline fq has them; a wire without a rate
//! takes everything at once.

use std::collections::VecDeque;

use napier_core::time::Span;

/// What a frame carries of a message, at an MTU of 1500 with TCP time stamps.
pub(crate) const SEGMENT_BYTES: u32 = 1448;

/// What a frame takes beside on the wire: TCP, IP and Ethernet headers, check sequence, preamble, gap.
const OVERHEAD_BYTES: u64 = 52 + 14 + 4 + 20;

/// Frames that a card cuts one buffer into, and that GRO makes one of again, at most.
const SEGMENTS_MAX: u32 = 45;

/// A part of a message, as one buffer of the sender.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    pub(crate) bytes: u32,
    pub(crate) segments: u16,
}

/// The parts of a message.
pub(crate) fn chunks(bytes: u32) -> impl Iterator<Item = Chunk> {
    let most = SEGMENTS_MAX * SEGMENT_BYTES;
    let number = bytes.div_ceil(most).max(1);
    (0..number).map(move |nth| {
        let bytes = (bytes - nth * most).min(most);
        Chunk { bytes, segments: bytes.div_ceil(SEGMENT_BYTES).max(1) as u16 }
    })
}

/// One direction.
#[derive(Debug)]
pub(crate) struct Link {
    /// Megabits per second, which are bits per microsecond; 0: no limit.
    mbit_s: u64,
    waiting: Vec<VecDeque<Chunk>>,
    turns: VecDeque<u16>,
    busy: bool,
}

impl Link {
    pub(crate) fn new(mbit_s: u32, flows: u16) -> Self {
        let waiting = if mbit_s == 0 { 0 } else { usize::from(flows) };
        Self { mbit_s: mbit_s.into(), waiting: vec![VecDeque::new(); waiting], turns: VecDeque::new(), busy: false }
    }

    /// Whether it has a rate: else nothing waits for it.
    pub(crate) fn is_limited(&self) -> bool {
        self.mbit_s > 0
    }

    /// A part of a flow's message waits for its turn.
    pub(crate) fn push(&mut self, flow: u16, chunk: Chunk) {
        let waiting = &mut self.waiting[usize::from(flow)];
        waiting.push_back(chunk);
        if waiting.len() == 1 {
            self.turns.push_back(flow);
        }
    }

    /// What goes next if the wire is free, and how long it is busy with that.
    pub(crate) fn next(&mut self) -> Option<(u16, Chunk, Span)> {
        if self.busy {
            return None;
        }
        let flow = self.turns.pop_front()?;
        let waiting = &mut self.waiting[usize::from(flow)];
        let chunk = waiting.pop_front().expect("a flow with a turn has something to send");
        if !waiting.is_empty() {
            self.turns.push_back(flow);
        }
        self.busy = true;
        let bits = 8 * (u64::from(chunk.bytes) + u64::from(chunk.segments) * OVERHEAD_BYTES);
        Some((flow, chunk, Span::from_ns((bits * 1000).div_ceil(self.mbit_s))))
    }

    /// It has sent what it was busy with.
    pub(crate) fn free(&mut self) {
        self.busy = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_into_parts_and_none_is_lost() {
        for (bytes, parts, last_segments) in
            [(1, 1, 1), (1448, 1, 1), (1449, 1, 2), (5000, 1, 4), (65_160, 1, 45), (65_161, 2, 1), (1_000_000, 16, 16)]
        {
            let all: Vec<Chunk> = chunks(bytes).collect();
            assert_eq!(all.len(), parts, "{bytes}");
            assert_eq!(all.iter().map(|chunk| chunk.bytes).sum::<u32>(), bytes);
            assert_eq!(all.last().expect("a part").segments, last_segments, "{bytes}");
        }
    }

    #[test]
    fn flows_take_turns_and_one_is_on_the_wire() {
        let mut link = Link::new(100_000, 3);
        let part = Chunk { bytes: 1448, segments: 1 };
        for flow in [2, 2, 2, 0] {
            link.push(flow, part);
        }
        let mut order = Vec::new();
        while let Some((flow, chunk, span)) = link.next() {
            assert_eq!((chunk, span), (part, Span::from_ns(124)), "1538 bytes at 100 Gbit/s");
            assert_eq!(link.next(), None, "it is busy");
            link.free();
            order.push(flow);
        }
        assert_eq!(order, [2, 0, 2, 2]);
    }
}

//! What an acknowledgement says of what is under way.

use napier_core::tcp::congestion::Acked;
use napier_core::tcp::options::BLOCKS_MAX;
use napier_core::tcp::ranges::SackBlock;
use napier_core::tcp::recovery::{Delivery, Phase};
use napier_core::tcp::sent::Sent;
use napier_core::tcp::seq::Seq;
use napier_core::time::{Deadline, Instant, Span};

use super::Sender;

/// Acknowledgements that repeat the last one and mean a loss, where the peer says nothing selectively (RFC 5681 section 3.2).
const REPEATS: u8 = 3;
/// Longest time that an echo is believed: what comes back later has gone round the clock.
const ECHO_MAX_MS: u32 = 1 << 24;

/// A timestamp that came back, in milliseconds of our clock.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp::machine) struct Echo {
    pub(in crate::tcp::machine) value: u32,
    /// What our clock says now.
    pub(in crate::tcp::machine) now: u32,
}

/// What a segment says of our data.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp::machine) struct Acknowledgement<'a> {
    pub(in crate::tcp::machine) seq: Seq,
    pub(in crate::tcp::machine) ack: Seq,
    /// In bytes.
    pub(in crate::tcp::machine) window: u32,
    pub(in crate::tcp::machine) blocks: &'a [SackBlock],
    pub(in crate::tcp::machine) echo: Option<Echo>,
    /// It carries data, or a FIN.
    pub(in crate::tcp::machine) carries: bool,
}

/// What an acknowledgement has brought so far.
#[derive(Default)]
struct Brought {
    bytes: u32,
    rtt: Option<Span>,
    /// A segment that had been sent again is among it.
    again: bool,
}

impl Sender {
    /// Takes an acknowledgement of something between SND.UNA and SND.NXT.
    pub(in crate::tcp::machine) fn answered(&mut self, now: Instant, answer: &Acknowledgement<'_>) {
        let (before, pipe) = (self.una, self.sent.pipe());
        let advances = answer.ack.is_after(before);
        let limited = self.was_limited(pipe);
        let mut brought = Brought::default();
        if advances {
            self.advance(now, answer, &mut brought);
        }
        let repeats = !advances && !answer.carries && answer.window == self.window && !self.sent.is_empty();
        let opens = self.take_window(answer, advances);
        if !answer.blocks.is_empty() {
            self.take_blocks(now, answer, before, &mut brought);
        } else if !advances && opens && self.sent.is_empty() {
            // The answer to a probe (`net/ipv4/tcp_input.c tcp_ack_probe`).
            self.persist = Deadline::NEVER;
            self.trips.answered();
        }
        if self.sent.is_empty() && !advances {
            return;
        }
        if brought.again {
            // Which of them it answers nobody knows (RFC 6298 section 3), unless an echo says so.
            brought.rtt = None;
        }
        self.sample(now, answer, advances, &brought);
        let was = self.recovery.phase();
        if advances && was != Phase::Open {
            self.repair_goes_on(answer);
        }
        let lost = self.sent.lost();
        if self.selective {
            if was != Phase::Open || self.sent.there() > 0 || !self.reorder.is_never() {
                self.detect(now);
            }
        } else {
            self.count_repeats(repeats, advances, pipe, &mut brought);
        }
        self.tail_is_answered(answer, advances, repeats);
        self.grow(now, limited, advances, self.sent.lost() > lost, &brought);
        if advances {
            self.restart(now);
        } else if self.sent.there() > 0 {
            self.tail_at = Deadline::NEVER;
        }
    }

    /// Whether the window of congestion keeps from growing what is under way.
    #[inline]
    fn was_limited(&self, pipe: u32) -> bool {
        let window = self.congestion.window();
        // Source: `include/net/tcp.h tcp_is_cwnd_limited`: in slow start half of it is enough.
        self.limited_to.is_some_and(|to| !self.una.is_after(to)) || self.congestion.is_slow_start() && window / 2 < pipe
    }

    #[inline]
    fn advance(&mut self, now: Instant, answer: &Acknowledgement<'_>, brought: &mut Brought) {
        let Self { sent, rack, trips, .. } = self;
        let least = trips.least();
        sent.acknowledge(answer.ack, |segment| {
            if !segment.fate.there {
                delivered(segment, now, least, answer.echo, rack, brought);
            }
        });
        let acknowledged = (answer.ack.earlier(self.end())).beyond(self.base);
        self.queue.consume(acknowledged as usize);
        self.base += acknowledged;
        self.una = answer.ack;
        if self.limited_to.is_some_and(|to| self.una.is_after(to)) {
            self.limited_to = None;
        }
        if self.short_end.is_before(self.una) {
            // It would be far behind one day, and look as if it were ahead.
            self.short_end = self.una;
        }
        self.trips.answered();
        self.repeats = 0;
    }

    /// RFC 9293 section 3.10.7.4. Source: `net/ipv4/tcp_input.c tcp_may_update_window`. Whether it has grown.
    #[inline]
    fn take_window(&mut self, answer: &Acknowledgement<'_>, advances: bool) -> bool {
        let (seq, _) = self.from;
        let newer = advances || answer.seq.is_after(seq) || answer.seq == seq && answer.window > self.window;
        if !newer || answer.ack.is_before(self.una) {
            return false;
        }
        let grown = answer.window > self.window;
        self.from = (answer.seq, answer.ack);
        self.window = answer.window;
        self.window_max = self.window_max.max(answer.window);
        grown
    }

    fn take_blocks(&mut self, now: Instant, answer: &Acknowledgement<'_>, before: Seq, brought: &mut Brought) {
        let mut blocks = answer.blocks;
        if let Some(twice) = came_twice(answer) {
            blocks = &blocks[1..];
            self.came_twice(twice, before);
        }
        let mut valid = [SackBlock::default(); BLOCKS_MAX];
        let mut count = 0;
        for block in blocks {
            // RFC 2018 section 3: of what is under way. Others are old, or wrong.
            let sound = block.start.is_before(block.end) && !block.end.is_after(self.next);
            if self.selective && sound && block.end.is_after(self.una) && !block.start.is_before(self.una) {
                valid[count] = *block;
                count += 1;
            }
        }
        if count == 0 {
            return;
        }
        let Self { sent, rack, trips, .. } = self;
        let least = trips.least();
        sent.tell(&valid[..count], |segment| delivered(segment, now, least, answer.echo, rack, brought));
    }

    /// The peer got something twice: a copy of what we have sent again was not needed, or the network made one.
    fn came_twice(&mut self, twice: SackBlock, before: Seq) {
        let window = self.window_max.max(self.congestion.window().min(1 << 28));
        if !twice.start.is_before(twice.end) || twice.end.is_after(self.next) || twice.end.is_before(before - window) {
            return;
        }
        if let Some(tail) = self.tail
            && tail.again
            && twice.end == tail.end
        {
            // The probe was what came twice (RFC 8985 section 7.4.2).
            self.tail = None;
            return;
        }
        self.rack.came_twice(self.una, self.next);
        // Of what is still under way only a copy of ours counts, not one that the network made (`tcp_sacktag_one`).
        let ours = !twice.end.is_after(self.una) || self.sent.was_sent_again(twice.start);
        if ours && self.recovery.came_twice(&mut self.congestion, twice) {
            self.nothing_is_lost();
        }
    }

    fn nothing_is_lost(&mut self) {
        self.sent.forget_lost();
        self.rack.reordered = true;
        self.again_due = false;
    }

    /// Round trips: of a segment that was sent once, else by the timestamp (RFC 6298 section 3, RFC 7323 section 4).
    #[inline]
    fn sample(&mut self, now: Instant, answer: &Acknowledgement<'_>, advances: bool, brought: &Brought) {
        let by_echo = || {
            let echo = answer.echo.filter(|_| advances)?;
            let ms = echo.now.wrapping_sub(echo.value);
            (ms < ECHO_MAX_MS).then(|| Span::from_ms(ms.into()))
        };
        if let Some(rtt) = brought.rtt.or_else(by_echo) {
            self.trips.sample(now, rtt, self.una, self.next);
        }
    }

    /// An acknowledgement of something new, while something is repaired.
    fn repair_goes_on(&mut self, answer: &Acknowledgement<'_>) {
        if answer.echo.is_some_and(|echo| self.recovery.echoed(&mut self.congestion, echo.value)) {
            return self.nothing_is_lost();
        }
        if self.recovery.acknowledged(&mut self.congestion, self.una) {
            self.rack.repaired();
            return;
        }
        if !self.selective {
            // What is acknowledged was repaired, and next is another hole, which is filled at once (RFC 6582 section 3.2).
            self.lose_first();
            self.again_due = self.sent.lost() > 0;
        }
    }

    /// The first segment is lost, unless it was sent again just now.
    fn lose_first(&mut self) {
        if self.sent.first().is_some_and(|first| !first.fate.again) {
            self.sent.lose_first();
        }
    }

    /// Where the peer says nothing selectively.
    fn count_repeats(&mut self, repeats: bool, advances: bool, pipe: u32, brought: &mut Brought) {
        if advances || !repeats {
            return;
        }
        self.repeats = self.repeats.saturating_add(1);
        if self.recovery.phase() == Phase::Repair {
            // A segment has left the network.
            brought.bytes = self.full;
        }
        if self.repeats == REPEATS && self.recovery.phase() == Phase::Open {
            self.lose_first();
            self.loses(pipe);
            brought.bytes = self.full;
        }
    }

    /// RFC 8985 section 7.4.2. A probe with new data has nothing to tell, and the next may leave as soon as anything is heard.
    fn tail_is_answered(&mut self, answer: &Acknowledgement<'_>, advances: bool, repeats: bool) {
        let Some(tail) = self.tail else { return };
        if !tail.again {
            if advances {
                self.tail = None;
            }
        } else if answer.ack.is_after(tail.end) {
            // The segment was lost and the probe has repaired it, which nothing else will tell.
            self.tail = None;
            if self.recovery.phase() == Phase::Open {
                self.recovery.probe_repaired(&mut self.congestion);
            }
        } else if answer.ack == tail.end && repeats && answer.blocks.is_empty() {
            self.tail = None;
        }
    }

    #[inline]
    fn grow(&mut self, now: Instant, limited: bool, advances: bool, loses: bool, brought: &Brought) {
        match self.recovery.phase() {
            Phase::Repair => {
                let (pipe, segment) = (self.sent.pipe(), self.full);
                let delivery = Delivery { bytes: brought.bytes, pipe, safe: advances && !loses, segment };
                self.recovery.delivered(&mut self.congestion, &delivery);
            }
            // Source: `net/ipv4/tcp_input.c tcp_may_raise_cwnd`: what came out of order raises nothing.
            phase @ (Phase::Open | Phase::Timeout) if advances => {
                self.congestion.acked(&Acked {
                    bytes: brought.bytes,
                    now,
                    rtt: brought.rtt,
                    smoothed: self.trips.smoothed(),
                    limited: limited || phase == Phase::Timeout,
                    acknowledged: self.una,
                    sent: self.next,
                });
                self.make_room();
            }
            Phase::Open | Phase::Timeout => {}
        }
    }
}

/// A segment has been delivered.
#[inline]
fn delivered(
    segment: &Sent,
    now: Instant,
    least: Span,
    echo: Option<Echo>,
    rack: &mut napier_core::tcp::rack::Rack,
    brought: &mut Brought,
) {
    brought.bytes += segment.end - segment.start;
    brought.again |= segment.fate.ever_again;
    // The clock of the stamps when it was sent last.
    let older = echo.is_some_and(|echo| {
        let age_ms = ((now - segment.at).ns / 1_000_000) as u32;
        // A millisecond more, for both clocks are rounded.
        Seq(echo.value).is_before(Seq(echo.now.wrapping_sub(age_ms).wrapping_sub(1)))
    });
    if !segment.fate.ever_again {
        brought.rtt = Some(now - segment.at);
    }
    rack.delivered(segment, now, least, older && segment.fate.ever_again);
}

/// The first block, if it tells of what came twice (RFC 2883 section 4).
fn came_twice(answer: &Acknowledgement<'_>) -> Option<SackBlock> {
    let (first, rest) = answer.blocks.split_first()?;
    let within = rest.first().is_some_and(|second| first.is_in(second));
    (!first.end.is_after(answer.ack) || within).then_some(*first)
}

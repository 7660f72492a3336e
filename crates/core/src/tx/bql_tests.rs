use super::*;

const fn at_ms(ms: u64) -> Instant {
    Instant::from_ns(ms * 1_000_000)
}

/// A ring under byte limits.
struct Ring {
    bql: Bql,
    sent: BqlSent,
}

impl Ring {
    fn new() -> Self {
        Self { bql: Bql::new(at_ms(0)), sent: BqlSent::default() }
    }

    /// That has this limit now, and any limit from now on.
    fn at_limit(bytes: u32, hold: Span) -> Self {
        let mut ring = Self::new();
        ring.bql.configure(bytes, bytes, hold);
        ring.sent = ring.sent.queued(1);
        ring.complete(at_ms(0), 1);
        ring.bql.configure(0, LIMIT_BYTES_MAX, hold);
        ring
    }

    fn available(&self) -> i32 {
        available(self.sent, self.bql.adjusted_limit())
    }

    /// Gives packets until the limit is exceeded; the bytes given.
    fn fill(&mut self, packet_bytes: u32) -> u32 {
        let mut given = 0;
        while self.available() >= 0 {
            self.sent = self.sent.queued(packet_bytes);
            given += packet_bytes;
        }
        given
    }

    fn complete(&mut self, now: Instant, bytes: u32) {
        self.bql.completed(now, self.sent, bytes);
    }

    fn in_flight(&self) -> u32 {
        self.bql.in_flight_bytes(self.sent)
    }
}

#[test]
fn a_new_ring_takes_one_packet() {
    let mut ring = Ring::new();
    assert_eq!(ring.available(), 0);
    assert_eq!(ring.fill(1000), 1000);
    assert_eq!(ring.available(), -1000);
}

/// The ring ran empty while the sender was held back: by what left beyond the last look.
#[test]
fn starvation_makes_the_limit_grow() {
    let mut ring = Ring::new();
    let mut limits = [0; 4];
    for limit in &mut limits {
        ring.fill(1000);
        ring.complete(at_ms(1), ring.in_flight());
        *limit = ring.bql.limit_bytes();
    }
    assert_eq!(limits, [1000, 3000, 7000, 15000]);
    assert_eq!(ring.available(), 15000);
}

/// The limit was exceeded at the last look and everything seen then has left: the ring may have been empty in between.
#[test]
fn the_excess_of_the_last_look_counts_as_starvation() {
    let mut ring = Ring::new();
    ring.fill(1000);
    ring.complete(at_ms(1), 1000);
    assert_eq!(ring.bql.limit_bytes(), 1000);
    ring.fill(1000);
    assert_eq!(ring.in_flight(), 2000);
    // Half has left: 1000 over the limit at this look, not starved.
    ring.complete(at_ms(2), 1000);
    assert_eq!((ring.bql.limit_bytes(), ring.available()), (1000, 0));
    ring.fill(1000);
    // All that was seen has left, 0 beyond it, plus the 1000 that exceeded.
    ring.complete(at_ms(3), 1000);
    assert_eq!(ring.bql.limit_bytes(), 2000);
}

#[test]
fn nothing_changes_while_the_limit_is_not_reached() {
    let mut ring = Ring::at_limit(10_000, SLACK_HOLD);
    for ms in 1..5000 {
        ring.sent = ring.sent.queued(500);
        ring.complete(at_ms(ms), 500);
        assert_eq!(ring.bql.limit_bytes(), 10_000);
    }
}

/// A ring that stays busy gives back its surplus, but only after the hold time.
#[test]
fn surplus_is_given_back_after_the_hold_time() {
    let mut ring = Ring::at_limit(100_000, SLACK_HOLD);
    let mut shrunk_at = None;
    for ms in 1..2000 {
        ring.fill(1000);
        ring.complete(at_ms(ms), 1000);
        if ring.bql.limit_bytes() < 100_000 {
            shrunk_at = Some(ms);
            break;
        }
    }
    assert_eq!(shrunk_at, Some(1001));
    // Twice what leaves between two completions is enough; the excess of one packet counts as held.
    assert!((1000..=3000).contains(&ring.bql.limit_bytes()), "{}", ring.bql.limit_bytes());
}

#[test]
fn the_least_surplus_counts() {
    let mut ring = Ring::at_limit(50_000, SLACK_HOLD);
    for ms in 1..=1001 {
        ring.fill(1000);
        // Once, half of the limit leaves at a stroke.
        ring.complete(at_ms(ms), if ms == 500 { 20_000 } else { 1000 });
    }
    assert!((38_000..=41_000).contains(&ring.bql.limit_bytes()), "{}", ring.bql.limit_bytes());
}

/// The last packet began 1000 bytes below the limit: those were surplus, though twice what left was needed.
#[test]
fn the_part_of_the_last_packet_within_the_limit_is_surplus() {
    let mut ring = Ring::at_limit(11_000, Span::ZERO);
    assert_eq!(ring.fill(5000), 15_000);
    ring.complete(at_ms(1), 1);
    assert_eq!(ring.bql.limit_bytes(), 11_000);
    ring.complete(at_ms(2), 7500);
    assert_eq!(ring.bql.limit_bytes(), 10_000);
}

#[test]
fn bounds_hold() {
    let mut ring = Ring::new();
    ring.bql.configure(3000, 5000, SLACK_HOLD);
    for _ in 0..6 {
        ring.fill(1000);
        ring.complete(at_ms(1), ring.in_flight());
        assert!((3000..=5000).contains(&ring.bql.limit_bytes()));
    }
    assert_eq!(ring.bql.limit_bytes(), 5000);
    ring.bql.reset(at_ms(2));
    ring.sent = BqlSent::default();
    assert_eq!((ring.bql.limit_bytes(), ring.available()), (0, 0));
}

#[test]
fn counters_wrap() {
    let mut plain = Ring::new();
    let mut wrapping = Ring::new();
    let near = u32::MAX - 1500;
    wrapping.sent.total_bytes = near;
    wrapping.bql.completed_bytes = near;
    wrapping.bql.seen.total_bytes = near;
    for (ms, part) in [(1, 1), (2, 2), (3, 1), (4, 3), (5, 1), (6, 2)] {
        for ring in [&mut plain, &mut wrapping] {
            ring.fill(700);
            ring.complete(at_ms(ms), ring.in_flight() / part);
        }
        assert_eq!(plain.bql.limit_bytes(), wrapping.bql.limit_bytes());
        assert_eq!(plain.available(), wrapping.available());
    }
}

#[test]
#[should_panic(expected = "more bytes completed than were given")]
fn completing_too_much_is_a_mistake() {
    let mut ring = Ring::new();
    ring.fill(100);
    ring.complete(at_ms(1), 101);
}

#[test]
fn a_least_limit_can_be_in_force_from_the_start() {
    let bql = Bql::beginning_at_min(Instant::ZERO, 3000, 9000, SLACK_HOLD);
    assert_eq!((bql.limit_bytes(), available(BqlSent::default(), bql.adjusted_limit())), (3000, 3000));
    let mut later = Bql::new(Instant::ZERO);
    later.configure(3000, 9000, SLACK_HOLD);
    assert_eq!(later.limit_bytes(), 0, "else it follows at a completion");
}

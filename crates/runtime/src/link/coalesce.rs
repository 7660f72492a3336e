//! When to interrupt for packets: the rule, without a clock.

/// Interrupt coalescing of one queue, in the words of `ethtool -C`.
///
/// | rx-usecs | rx-frames | an interrupt comes |
/// |---|---|---|
/// | 0 | any | at once |
/// | any | 1 | at once |
/// | n | 0 | n µs after the first packet |
/// | n | m | n µs after the first packet, or with the m-th packet if that is sooner |
///
/// `rx-usecs` 0 with more than one frame would leave the last packets of a burst waiting for ever, so it means at
/// once here, as in most drivers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Coalesce {
    /// Longest wait of a packet for its interrupt, µs.
    pub(crate) rx_usecs: u32,
    /// Most packets that wait; 0 = no limit.
    pub(crate) rx_frames: u32,
}

/// What packets without an interrupt lead to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Moderation {
    /// Interrupt now.
    Fire,
    /// Let the timer interrupt `rx-usecs` after the first of these packets.
    Delay,
}

impl Coalesce {
    /// The rule for `pending_frames` packets (one or more) that have had no interrupt since the last unmask.
    pub(super) fn moderate(self, pending_frames: u32) -> Moderation {
        let enough = self.rx_frames != 0 && pending_frames >= self.rx_frames;
        if self.rx_usecs == 0 || enough { Moderation::Fire } else { Moderation::Delay }
    }

    pub(super) fn pack(self) -> u64 {
        u64::from(self.rx_usecs) << 32 | u64::from(self.rx_frames)
    }

    pub(super) fn unpack(packed: u64) -> Self {
        Self { rx_usecs: (packed >> 32) as u32, rx_frames: packed as u32 } // the two halves of `pack`
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds() {
        let rule = |rx_usecs, rx_frames, pending| Coalesce { rx_usecs, rx_frames }.moderate(pending);
        assert_eq!(rule(0, 0, 1), Moderation::Fire);
        assert_eq!(rule(0, 8, 1), Moderation::Fire);
        assert_eq!(rule(50, 1, 1), Moderation::Fire);
        assert_eq!(rule(50, 0, 1000), Moderation::Delay);
        assert_eq!(rule(50, 8, 7), Moderation::Delay);
        assert_eq!(rule(50, 8, 8), Moderation::Fire);
    }

    #[test]
    fn packing_is_exact() {
        let coalesce = Coalesce { rx_usecs: u32::MAX, rx_frames: 3 };
        assert_eq!(Coalesce::unpack(coalesce.pack()), coalesce);
    }
}

use alloc::vec::Vec;

use super::*;

/// A defer list as far as the push sees it.
#[derive(Default)]
struct List {
    pkts: u64,
    count: u64,
}

impl List {
    fn push(&mut self, max_burst: i32) -> Pushed {
        let mut push = Push::new(self.pkts == 0);
        loop {
            match push.next() {
                PushStep::Count => {
                    self.count += 1;
                    push.on_counted(self.count, max_burst);
                }
                PushStep::Link => {
                    self.pkts += 1;
                    push.on_linked();
                }
                PushStep::Done(pushed) => return pushed,
            }
        }
    }

    fn flush(&mut self) {
        (self.pkts, self.count) = (0, 0);
    }
}

/// Scenario 78: burst 3, one flusher and five more: three are handed over, two dropped, and a flush begins anew.
#[test]
fn burst_of_three() {
    let mut list = List::default();
    for _ in 0..2 {
        let pushed: Vec<_> = (0..6).map(|_| list.push(3)).collect();
        use Pushed::{BurstDrop, Flush, Handed};
        assert_eq!(pushed, [Flush, Handed, Handed, Handed, BurstDrop, BurstDrop]);
        list.flush();
    }
}

/// Scenario 77: 0 refuses a sender that finds the list not empty and says so; negative is no limit; the default lets
/// 1000 wait.
#[test]
fn limits() {
    for (max_burst, accepted) in [(0, 1), (1, 2), (QDISC_MAX_BURST, 1001), (-1, 2000), (i32::MIN, 2000)] {
        let mut list = List::default();
        let taken = (0..2000).filter(|_| list.push(max_burst) != Pushed::BurstDrop).count();
        assert_eq!(taken, accepted, "{max_burst}");
    }
    assert_eq!(Pushed::BurstDrop.code(), Some(XmitCode::Drop));
    assert_eq!(Pushed::Handed.code(), Some(XmitCode::Success));
    assert_eq!(Pushed::Flush.code(), None);
}

#[test]
fn the_comparison_is_unsigned() {
    for (count, max_burst, exceeds) in
        [(1, 0, true), (3, 3, false), (4, 3, true), (u64::MAX, i32::MAX, true), (1 << 40, -1, false)]
    {
        assert_eq!(exceeds_burst(count, max_burst), exceeds, "{count} {max_burst}");
    }
}

#[test]
fn a_push_counts_at_most_once_however_often_it_tries() {
    let mut push = Push::new(true);
    assert_eq!(push.next(), PushStep::Link);
    push.on_moved(false);
    assert_eq!(push.next(), PushStep::Count);
    push.on_counted(1, 3);
    for _ in 0..5 {
        push.on_moved(false);
        assert_eq!(push.next(), PushStep::Link);
    }
    // The flusher has taken the list meanwhile: this push is the next flusher, though it was counted.
    push.on_moved(true);
    push.on_linked();
    assert_eq!(push.next(), PushStep::Done(Pushed::Flush));
}

#[test]
#[should_panic(expected = "on_linked answers Link")]
fn linking_before_counting_is_a_mistake() {
    Push::new(false).on_linked();
}

#[test]
#[should_panic(expected = "on_counted answers Count")]
fn counting_the_first_packet_is_a_mistake() {
    Push::new(true).on_counted(1, 3);
}

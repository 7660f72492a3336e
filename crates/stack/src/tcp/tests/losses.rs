//! What is sent when acknowledgements tell of losses. The peer names no segment size, so segments have 536 bytes.

use std::time::{Duration, Instant};

use crate::tcp::TcpStream;
use crate::tcp::tests::segments::{PEER, Seen, US, changed, connected, segment, sent};
use crate::testing::Rig;
use crate::wire::flag;

const MSS: u32 = 536;
/// The retransmission timer does not run out in so short a time.
const HASTE: Duration = Duration::from_millis(150);

/// A connection that has sent all that it may of `segments`, and the number of their first byte.
struct Sender {
    rig: Rig,
    _stream: TcpStream,
    first: u32,
    begun: Instant,
}

impl Sender {
    fn new(segments: u32) -> Self {
        let (rig, _listener, stream, first) = connected();
        let begun = Instant::now();
        let bytes = vec![7; (segments * MSS) as usize];
        assert_eq!(stream.send(&bytes).unwrap(), bytes.len());
        Self { rig, _stream: stream, first, begun }
    }

    /// The first `segments` are acknowledged; places of the segments that leave then.
    fn acknowledge(&mut self, segments: u32) -> Vec<u32> {
        self.take(&segment(PEER, US, flag::ACK, 1001, self.first.wrapping_add(segments * MSS), b""))
    }

    /// The same, and one of those behind is there.
    fn acknowledge_selectively(&mut self, segments: u32) -> Vec<u32> {
        let block = |at: u32| self.first.wrapping_add(at * MSS).to_be_bytes();
        let options = [&[1, 1, 5, 10][..], &block(segments + 1), &block(segments + 2)].concat();
        let number = self.first.wrapping_add(segments * MSS);
        let frame = changed(segment(PEER, US, flag::ACK, 1001, number, &options), |tcp| tcp[12] = 0x80);
        self.take(&frame)
    }

    fn take(&mut self, frame: &[u8]) -> Vec<u32> {
        let _ = sent(&self.rig);
        self.rig.inject(frame);
        self.places()
    }

    fn places(&self) -> Vec<u32> {
        let place = |seen: &Seen| seen.seq.wrapping_sub(self.first) / MSS;
        sent(&self.rig).iter().filter(|seen| !seen.payload.is_empty()).map(place).collect()
    }
}

/// Looks at what `look` gives of a sender that was quick enough for its timer.
fn quickly<T>(segments: u32, look: impl Fn(&mut Sender) -> T) -> T {
    for _ in 0..200 {
        let mut sender = Sender::new(segments);
        let seen = look(&mut sender);
        if sender.begun.elapsed() < HASTE {
            return seen;
        }
    }
    panic!("the machine is too busy: nothing was over within {HASTE:?}");
}

/// What is sent ends where the window does.
#[test]
fn an_acknowledgement_of_three_opens_the_window_by_two_steps() {
    let end = |sender: &Sender| {
        let mut ends = sent(&sender.rig).into_iter().map(|seen| seen.seq.wrapping_add(seen.payload.len() as u32));
        ends.next_back().expect("something was sent").wrapping_sub(sender.first)
    };
    let opened = quickly(20, |sender| {
        let before = end(sender);
        sender.rig.inject(&segment(PEER, US, flag::ACK, 1001, sender.first.wrapping_add(3 * MSS), b""));
        end(sender) - 3 * MSS - before
    });
    // One step is 1024 bytes where the peer names no segment size.
    assert!(opened > 1024, "{opened}");
}

#[test]
fn the_next_hole_is_filled_without_more_duplicates() {
    let seen = quickly(25, |sender| {
        sender.acknowledge(3);
        sender.acknowledge(5);
        let third = [(); 3].map(|()| sender.acknowledge(5).contains(&5));
        (third, sender.acknowledge(7)[0])
    });
    assert_eq!(seen, ([false, false, true], 7));
}

#[test]
fn one_of_two_segments_is_missing() {
    let seen = quickly(2, |sender| (sender.places(), sender.acknowledge(0), sender.acknowledge_selectively(0)));
    assert_eq!(seen, (vec![0, 1], vec![], vec![0]));
}

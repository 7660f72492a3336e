//! How a connection begins.

use napier_core::tcp::options::STAMPS_LEN;
use napier_core::tcp::options::SynOptions;
use napier_core::tcp::seq::Seq;
use napier_core::tcp::time_wait::{OnLate, Reuse};
use napier_core::time::{Deadline, Instant};

use super::segment::Inbound;
use super::{Beginning, PATH_MIN, SEGMENT_DEFAULT, SEGMENT_MIN, TcpMachine, TcpState};
use crate::wire::flag;

impl TcpMachine {
    /// The program connects.
    pub(in crate::tcp) fn connect(now: Instant, begin: &Beginning) -> Self {
        let mut machine = Self::new(TcpState::SynSent, now, begin);
        machine.sender.next = begin.numbers.first + 1;
        machine.opening.offer = SynOptions {
            segment_bytes: Some(segment_field(begin.segment)),
            scale: Some(machine.receiver.scale()),
            selective: true,
        };
        machine
    }

    /// A SYN came for a listener.
    pub(in crate::tcp) fn accept(now: Instant, begin: &Beginning, syn: &Inbound<'_>) -> Self {
        let mut machine = Self::new(TcpState::SynReceived, now, begin);
        machine.sender.next = begin.numbers.first + 1;
        machine.agree(now, syn, None);
        machine.sender.window_begins(syn.window.into(), syn.seq, Seq(0));
        machine
    }

    /// What both ends want holds (RFC 7323 sections 1.3 and 3.2, RFC 2018 section 2). `ours`: what our SYN said, if it has left.
    fn agree(&mut self, now: Instant, syn: &Inbound<'_>, ours: Option<SynOptions>) {
        let begin = self.begin;
        let theirs = syn.options.syn;
        let scaled = theirs.scale.is_some() && ours.is_none_or(|ours| ours.scale.is_some());
        self.receiver.begins(now, syn.seq + 1, begin.receive, scaled);
        self.sender.scale = if scaled { theirs.scale.unwrap_or(0) } else { 0 };
        self.sender.selective = theirs.selective;
        self.stamped = syn.options.stamps.is_some();
        if let Some(stamps) = syn.options.stamps {
            (self.clocks.recent, self.clocks.recent_at) = (stamps.value, now);
        }
        self.opening.stamped = self.stamped;
        self.opening.offer = SynOptions {
            segment_bytes: Some(segment_field(begin.segment)),
            scale: scaled.then(|| self.receiver.scale()),
            selective: theirs.selective,
        };
        let peer = theirs.segment_bytes.unwrap_or(SEGMENT_DEFAULT).max(SEGMENT_MIN);
        let options = if self.stamped { STAMPS_LEN as u32 } else { 0 };
        self.sender.set_segment(begin.segment.max(PATH_MIN), Some(peer.into()), options);
    }

    /// A segment in SYN-SENT (RFC 9293 section 3.10.7.3).
    #[cold]
    pub(super) fn opening_input(&mut self, now: Instant, seg: &Inbound<'_>) {
        let acknowledges = seg.has(flag::ACK);
        if acknowledges && seg.ack != self.sender.next {
            if !seg.has(flag::RST) {
                self.reset = Some(seg.ack);
            }
            return;
        }
        if seg.has(flag::RST) {
            if acknowledges {
                self.ends();
            }
            return;
        }
        if !seg.has(flag::SYN) {
            return;
        }
        let ours = self.opening.offer;
        self.agree(now, seg, Some(ours));
        self.sender.window_begins(seg.window.into(), seg.seq, seg.ack);
        if acknowledges {
            self.receiver.acks.at_once();
            self.opened(now, seg.ack);
        } else {
            // Both ends open: our SYN again, with an acknowledgement.
            self.state = TcpState::SynReceived;
            self.opening.due = true;
        }
    }

    /// Whether a SYN may begin a new connection in place of this one, which waits out its end; the number of its first byte then.
    pub(in crate::tcp) fn reopens(&self, now: Instant, syn: &Inbound<'_>) -> Option<Seq> {
        match self.ended()?.on_late(now, &syn.as_late()) {
            OnLate::Reopen(first) => Some(first),
            OnLate::Ignore | OnLate::Answer | OnLate::Again => None,
        }
    }

    /// Whether a connection that we open may take the place of this one, if it waits out its end; the number of its first byte then.
    pub(in crate::tcp) fn gives_way(&self, now: Instant, reuse: Reuse, in_process: bool) -> Option<Seq> {
        self.ended()?.gives_way(now, reuse, in_process)
    }

    /// Our SYN is acknowledged.
    pub(super) fn opened(&mut self, now: Instant, ack: Seq) {
        if !self.opening.again {
            self.sender.trips.sample(now, now - self.opening.sent_at, ack, ack);
        }
        self.sender.trips.answered();
        self.sender.una = ack;
        self.sender.rto = Deadline::NEVER;
        self.opening.due = false;
        self.state = if self.sender.closes { TcpState::FinWait1 } else { TcpState::Established };
        self.keep_from(now);
    }
}

fn segment_field(segment: u32) -> u16 {
    u16::try_from(segment).unwrap_or(u16::MAX)
}

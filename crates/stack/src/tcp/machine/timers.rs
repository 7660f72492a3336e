//! The times of a connection.

use napier_core::time::{Deadline, Instant};

use super::{TcpMachine, TcpState};

impl TcpMachine {
    /// When it wants to be asked again.
    #[inline]
    pub(in crate::tcp) fn next_at(&self, now: Instant) -> Deadline {
        let acks = match self.state {
            TcpState::Closed | TcpState::SynSent | TcpState::SynReceived => Deadline::NEVER,
            TcpState::Established
            | TcpState::FinWait1
            | TcpState::FinWait2
            | TcpState::CloseWait
            | TcpState::Closing
            | TcpState::LastAck
            | TcpState::TimeWait => self.receiver.acks.deadline(now),
        };
        let rare = self.keep_at.earliest(self.gone_at).earliest(self.trim_at);
        self.sender.next_at().earliest(acks).earliest(rare)
    }

    /// What is over by now is done; what is to be sent for it departs next.
    pub(in crate::tcp) fn on_timer(&mut self, now: Instant) {
        let now = self.latest(now);
        if self.trim_at.is_due(now) {
            self.trim(now);
        }
        match self.state {
            TcpState::Closed => {}
            TcpState::SynSent | TcpState::SynReceived => {
                if self.sender.rto.is_due(now) {
                    self.sender.rto = Deadline::NEVER;
                    self.sender.trips.back_off();
                    (self.opening.due, self.opening.again) = (true, true);
                }
            }
            TcpState::TimeWait => {
                if self.gone_at.is_due(now) {
                    self.ends();
                }
            }
            TcpState::Established
            | TcpState::FinWait1
            | TcpState::FinWait2
            | TcpState::CloseWait
            | TcpState::Closing
            | TcpState::LastAck => {
                self.probe |= self.sender.on_timer(now);
                if self.keep_at.is_due(now) {
                    self.asks(now);
                }
            }
        }
    }

    /// The peer was silent for the idle time of keep-alive. Source: `net/ipv4/tcp_timer.c tcp_keepalive_timer`.
    fn asks(&mut self, now: Instant) {
        let Some((idle, interval)) = self.keep else { return self.keep_at = Deadline::NEVER };
        if self.sender.sent.is_empty() && self.sender.unsent() == 0 {
            self.probe = true;
            self.keep_at = Deadline::after(now, interval);
        } else {
            // What is under way asks already.
            self.keep_at = Deadline::after(now, idle);
        }
    }
}

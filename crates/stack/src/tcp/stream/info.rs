//! What a program asks of a connection's path, and changes of it.

use crate::tcp::TcpStream;
use crate::tcp::congestion::{CongestionControl, control_for, control_of};
use crate::tcp::info::TcpInfo;
use crate::tcp::rules::Cause;
use napier_sys::clock::Clock;

impl TcpStream {
    /// What the connection knows of its path and of what is under way (`TCP_INFO`).
    #[must_use]
    pub fn info(&self) -> TcpInfo {
        let core = self.conn.own(&self.tcp);
        let machine = &core.machine;
        let (sender, receiver) = (&machine.sender, &machine.receiver);
        let view = sender.view();
        TcpInfo {
            rtt: view.trips.smoothed().into(),
            rtt_deviation: view.trips.deviation().into(),
            rtt_min: view.trips.least().into(),
            retransmission_timeout: view.trips.timeout().into(),
            timeouts: view.trips.backoffs().into(),
            segment: view.full,
            congestion_window: view.congestion.window(),
            slow_start_threshold: view.congestion.threshold(),
            congestion: control_of(view.congestion.control()),
            send_window: view.window,
            receive_window: receiver.window(),
            in_flight: view.sent.pipe(),
            lost: view.sent.lost(),
            selectively_acknowledged: view.sent.there(),
            reordering_seen: view.reordered,
            timestamps: machine.is_stamped(),
            selective_acknowledgements: view.selective,
            unread: machine.unread(),
            unacknowledged: machine.unacknowledged(),
            unsent: sender.unsent() as usize,
            receive_buffer: receiver.limit() as usize,
            send_buffer: sender.limit() as usize,
        }
    }

    /// Another congestion control from now on (`TCP_CONGESTION`).
    pub fn set_congestion(&self, control: CongestionControl) {
        let mut core = self.conn.own(&self.tcp);
        let control = control_for(Some(control), &core.outlet.route);
        core.machine.set_control(control);
        let now = Clock.now();
        if !core.dead {
            core.drive(&self.tcp.tables, now);
        }
        core.settle(now, Cause::Program);
    }
}

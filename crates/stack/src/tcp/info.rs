//! What a connection knows of its path.

use std::time::Duration;

use super::congestion::CongestionControl;

/// What a connection knows of its path and of what is under way (`TCP_INFO`, `include/uapi/linux/tcp.h struct tcp_info`). Amounts
/// are bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpInfo {
    /// Smoothed round trip (`tcpi_rtt`); zero: none was seen.
    pub rtt: Duration,
    /// Its mean deviation (`tcpi_rttvar`).
    pub rtt_deviation: Duration,
    /// The least round trip of the last five minutes (`tcpi_min_rtt`).
    pub rtt_min: Duration,
    /// How long an answer may take before a segment is sent again (`tcpi_rto`).
    pub retransmission_timeout: Duration,
    /// Time-outs in a row (`tcpi_backoff`).
    pub timeouts: u32,
    /// Data of a full segment that is sent (`tcpi_snd_mss`).
    pub segment: u32,
    /// What may be under way besides what the peer's window allows (`tcpi_snd_cwnd`); without congestion control 2^30.
    pub congestion_window: u32,
    /// Where it begins to grow slowly (`tcpi_snd_ssthresh`); 2^30: nothing was lost yet.
    pub slow_start_threshold: u32,
    /// Which congestion control it has.
    pub congestion: CongestionControl,
    /// The peer's window (`tcpi_snd_wnd`).
    pub send_window: u32,
    /// What the peer is offered (`tcpi_rcv_wnd`).
    pub receive_window: u32,
    /// Believed to be in the network.
    pub in_flight: u32,
    /// Taken for lost, and not sent again yet (`tcpi_lost`).
    pub lost: u32,
    /// At the peer, behind what is missing (`tcpi_sacked`).
    pub selectively_acknowledged: u32,
    /// Segments have come out of order (`tcpi_reord_seen`).
    pub reordering_seen: bool,
    /// Both ends have timestamps (`TCPI_OPT_TIMESTAMPS`).
    pub timestamps: bool,
    /// The peer takes selective acknowledgements (`TCPI_OPT_SACK`).
    pub selective_acknowledgements: bool,
    /// Received, and not read (`FIONREAD`).
    pub unread: usize,
    /// Written, and not acknowledged (`SIOCOUTQ`).
    pub unacknowledged: usize,
    /// Written, and not sent (`SIOCOUTQNSD`).
    pub unsent: usize,
    /// Most that may be received and not read, now.
    pub receive_buffer: usize,
    /// Most that may be written and not acknowledged, now.
    pub send_buffer: usize,
}

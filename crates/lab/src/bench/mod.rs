//! `napier bench`: one experiment each, on a link of its own.

mod answer;
mod defer;
mod flows;
mod group;
mod instructions;
mod kernel_pair;
mod memif;
mod pin;
mod raw_rr;
mod rounds;
mod rtt;
mod rx_cost;
mod stat;
mod storage;
mod tcp_flows;
mod tcp_rr;
mod ticks;
mod udp_rr;
mod udp_stream;
mod wakeup;
mod xdp;

pub use answer::{ranged, shown};
pub use defer::{Defer, DeferConfig, DeferCycle, defer};
pub use flows::{FlowFigures, FlowsConfig, MESSAGE_BYTES_MAX, PublishedFlow, WORKERS_MAX};
pub use group::{GroupBenchConfig, GroupFigure, group};
pub use memif::{MemifBench, MemifBenchConfig, MemifMode, memif};
pub use raw_rr::{RawRr, RawRrConfig, RawRrMode, published_raw_rr, raw_rr};
pub use rounds::{BenchDecided, Compared, RowFigures, RowPair};
pub use rtt::Percentiles;
pub use rx_cost::{RxCost, RxCostConfig, RxPath, measured_entry, rx_cost};
pub use stat::Spread;
pub use storage::{STORAGE_CONNECTIONS_MAX, STORAGE_OPERATIONS_MAX, STORAGE_SERVICE, Storage, StorageConfig, storage};
pub use tcp_flows::{FLOWS_MAX, TcpFlows, TcpFlowsConfig, tcp_flows};
pub use tcp_rr::{TCP_CONNECTIONS_MAX, TcpCost, TcpRr, TcpRrConfig, TcpRrTables, measured_tcp_entry, tcp_rr};
pub use ticks::TIMED_EVERY;
pub use udp_rr::{UdpMode, UdpRr, UdpRrConfig, udp_rr};
pub use udp_stream::{
    UDP_STREAM_BYTES_MAX, UDP_STREAM_SENDERS_MAX, UdpStream, UdpStreamConfig, UdpStreamVariant, udp_stream,
};
pub use wakeup::{WakeContext, Wakeup, WakeupConfig, wakeup};
pub use xdp::{XdpRr, XdpRrConfig, XdpRrPath, XdpRx, XdpRxConfig, XdpRxPath, xdp_rr, xdp_rx};

pub use napier_runtime::device::MemifRole;
pub use napier_runtime::tx::{FqConfig, QdiscConfig};
pub use napier_verdict::Metric;

//! `napier bench`: one experiment each, on a link of its own.

mod instructions;
mod pin;
mod rtt;
mod rx_cost;
mod stat;
mod ticks;
mod tx_list;
mod udp_rr;
mod wakeup;
mod xsk_rr;

pub use rtt::Percentiles;
pub use rx_cost::{RxCost, RxCostConfig, RxPath, measured_entry, rx_cost};
pub use stat::Spread;
pub use tx_list::{TX_LIST_SENDERS_MAX, TX_LIST_TIMED_EVERY, TxList, TxListConfig, TxListVariant, tx_list};
pub use udp_rr::{UdpMode, UdpRr, UdpRrConfig, udp_rr};
pub use wakeup::{WakeContext, Wakeup, WakeupConfig, wakeup};
pub use xsk_rr::{XskMode, XskRr, XskRrConfig, xsk_rr};

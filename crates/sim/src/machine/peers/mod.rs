//! Those at the other end of the wire: clients, and the hosts of round trips and of messages.

pub(crate) mod arrivals;
pub(crate) mod bulk;
pub(crate) mod chance;
pub(crate) mod clients;
pub(crate) mod datagrams;
pub(crate) mod link;
pub(crate) mod recorded;
pub(crate) mod rpc;
pub(crate) mod tally;

use crate::machine::group::Grouped;
use crate::machine::peers::bulk::BulkFlows;
use crate::machine::peers::clients::Asking;
use crate::machine::peers::datagrams::Datagrams;
use crate::machine::peers::rpc::RoundTrips;
use crate::machine::sim::event::Ev;
use napier_scenario::SocketIx;

/// Those at the other end of the wire, in runs for figures.
pub(crate) struct Peers {
    below: Grouped,
    /// Clients of a server.
    pub(crate) asking: Option<Asking>,
    /// Round trips between two hosts.
    pub(crate) rpc: Option<RoundTrips>,
    /// Messages between two hosts.
    pub(crate) bulk: Option<Box<BulkFlows>>,
    /// Datagrams, for which no one waits.
    pub(crate) datagrams: Option<Box<Datagrams>>,
}

stands_on!(Peers, Grouped);

impl Peers {
    pub(crate) fn new(below: Grouped) -> Self {
        Self { below, asking: None, rpc: None, bulk: None, datagrams: None }
    }

    /// What those do who send to the machine, in runs for figures.
    pub(crate) fn on_traffic(&mut self, event: Ev) {
        match event {
            Ev::Ask { .. } if self.datagrams.is_some() => self.send_datagram(),
            Ev::Frame { .. } if self.datagrams.is_some() => self.datagram_arrives(),
            Ev::Answered { .. } if self.datagrams.is_some() => self.datagram_is_back(),
            Ev::Ask { connection } => self.ask(connection as usize),
            Ev::Frame { connection, is_ack } => self.frame_arrives(connection as usize, is_ack),
            Ev::Answered { connection } => self.answered(connection as usize),
            Ev::Wire { napi } => _ = self.put_in_rx_ring(napi, Some(SocketIx(napi as u16)), false),
            Ev::Chunk { flow, to, is_ack, segments } => {
                self.chunk_arrives(flow.into(), to.into(), is_ack, segments);
            }
            Ev::LinkFree { from } => self.link_is_free(from.into()),
            Ev::Due { flow } => self.request_is_due(flow.into()),
            Ev::Stored { flow } => self.stored(flow.into()),
            other => unreachable!("{other:?} is no traffic"),
        }
    }
}

//! The load generator on a device of an engine, in this process or in one of its own.

use std::net::SocketAddrV4;
use std::sync::atomic::AtomicBool;

use napier_runtime::{DeviceHandle, Engine};

use super::case::{CLIENT_PORT, CLIENT_THREAD, SERVER};
use super::client::{Client, Measured, Pace, Window};
use super::frames::Template;
use super::wire::{RawFlow, RawWire, address_of};
use crate::kv::profile::Profile;
use crate::pair::{PEER_IP, PEER_MAC, TESTED_MAC};

/// The generator's end.
pub(crate) struct GeneratorEnd {
    pub(crate) engine: Engine,
    pub(crate) device: DeviceHandle,
    /// Processor of its thread.
    pub(crate) cpu: usize,
}

/// What is offered.
#[derive(Clone)]
pub(crate) struct Offer {
    pub(crate) profile: Profile,
    pub(crate) flows: usize,
    pub(crate) seed: u64,
    pub(crate) pace: Pace,
    pub(crate) window: Window,
}

impl GeneratorEnd {
    /// Offers a load, on the calling thread. `queue_of` tells the queue of the server's end for a flow's address.
    pub(crate) fn offer(
        &self,
        offer: &Offer,
        queue_of: &dyn Fn(SocketAddrV4) -> u16,
        interrupted: &AtomicBool,
        on_edge: &mut dyn FnMut(bool),
    ) -> anyhow::Result<Measured> {
        let _counted = self.engine.count_thread(CLIENT_THREAD, Some(self.cpu));
        let flows = (0..offer.flows).map(|flow| {
            let source = address_of(flow, SocketAddrV4::new(PEER_IP, CLIENT_PORT));
            let template = Template::new(PEER_MAC, TESTED_MAC, source, SERVER);
            RawFlow { template, port: usize::from(queue_of(source)) }
        });
        let wire = RawWire::new(&self.engine, &self.device, flows.collect(), CLIENT_PORT)?;
        let mut client = Client::new(wire, offer.flows, offer.profile.clone(), offer.seed);
        Ok(client.run(offer.pace, offer.window, interrupted, on_edge))
    }
}

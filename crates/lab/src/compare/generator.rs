//! The load generator on a device of an engine, in this process or in one of its own.

use std::net::SocketAddrV4;
use std::sync::atomic::AtomicBool;

use napier_runtime::{DeviceHandle, Engine, NetNs};

use super::case::{CLIENT_PORT, CLIENT_THREAD, SERVER};
use super::client::{Client, Measured, Pace, Window};
use super::frames::Template;
use super::stream_wire::StreamWire;
use super::wire::{RawFlow, RawWire, Wire, address_of};
use crate::pair::{PEER_IP, PEER_MAC, TESTED_MAC, never_interrupt};
use napier_kv::load::net::Proto;
use napier_kv::profile::Profile;

/// The generator's end.
pub(crate) struct GeneratorEnd {
    pub(crate) engine: Engine,
    pub(crate) device: DeviceHandle,
    pub(crate) netns: NetNs,
    /// Processor of its thread.
    pub(crate) cpu: usize,
}

/// What is offered.
#[derive(Clone)]
pub(crate) struct Offer {
    pub(crate) proto: Proto,
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
        match offer.proto {
            Proto::Udp => {
                let flows = (0..offer.flows).map(|flow| {
                    let source = address_of(flow, SocketAddrV4::new(PEER_IP, CLIENT_PORT));
                    let template = Template::new(PEER_MAC, TESTED_MAC, source, SERVER);
                    RawFlow { template, port: usize::from(queue_of(source)) }
                });
                let wire = RawWire::new(&self.engine, &self.device, flows.collect(), CLIENT_PORT)?;
                self.drive(wire, offer, interrupted, on_edge)
            }
            Proto::Tcp => {
                let wire = StreamWire::connect(&self.engine, &self.netns, SERVER, offer.flows)?;
                self.drive(wire, offer, interrupted, on_edge)
            }
        }
    }

    fn drive(
        &self,
        wire: impl Wire,
        offer: &Offer,
        interrupted: &AtomicBool,
        on_edge: &mut dyn FnMut(bool),
    ) -> anyhow::Result<Measured> {
        // The generator polls its own end: an interrupt there would measure the generator.
        never_interrupt(&self.engine, &self.device)?;
        let mut client = Client::new(wire, offer.flows, offer.profile.clone(), offer.seed);
        Ok(client.run(offer.pace, offer.window, interrupted, on_edge))
    }
}

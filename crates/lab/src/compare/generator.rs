//! The load generator on a device of an engine, in this process or in one of its own.

use crate::loads::Load;
use std::net::SocketAddrV4;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

use napier_core::frames::Template;
use napier_kv::load::codec::Format;
use napier_kv::load::engine::EngineClient;
use napier_kv::load::generator::Generator;
use napier_kv::load::net::Proto;
use napier_kv::load::plan::{Measured, Window};
use napier_kv::load::wire::{SocketWire, Wire};
use napier_kv::profile::Profile;
use napier_runtime::device::DeviceHandle;
use napier_runtime::engine::Engine;
use napier_runtime::socket::NetNs;

use super::addresses::{CLIENT_PORT, CLIENT_THREAD};
use super::wire::{RawFlow, RawWire, address_of};
use crate::offer::plan;
use crate::pair::{PEER_IP, PEER_MAC, TESTED_MAC, never_interrupt};

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
    /// To whom.
    pub(crate) server: SocketAddrV4,
    pub(crate) proto: Proto,
    pub(crate) format: Format,
    pub(crate) profile: Profile,
    pub(crate) flows: usize,
    pub(crate) seed: u64,
    pub(crate) pace: Load,
    pub(crate) window: Window,
    /// Told when the load begins.
    pub(crate) started: Option<Sender<()>>,
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
                let wire = self.datagrams(offer.server, offer.flows, queue_of)?;
                self.drive(wire, offer, interrupted, on_edge)
            }
            Proto::Tcp => {
                let net = EngineClient::new(&self.engine, &self.netns, offer.flows).polling();
                let wire = SocketWire::connect(net, Proto::Tcp, offer.format, offer.server.into(), offer.flows)?;
                self.drive(wire, offer, interrupted, on_edge)
            }
        }
    }

    /// A wire of datagrams to a server, which stays for as long as it is held.
    pub(super) fn datagrams(
        &self,
        server: SocketAddrV4,
        flows: usize,
        queue_of: &dyn Fn(SocketAddrV4) -> u16,
    ) -> anyhow::Result<RawWire> {
        let flows = (0..flows).map(|flow| {
            let source = address_of(flow, SocketAddrV4::new(PEER_IP, CLIENT_PORT));
            let template = Template::new(PEER_MAC, TESTED_MAC, source, server);
            RawFlow { template, port: usize::from(queue_of(source)) }
        });
        Ok(RawWire::new(&self.engine, &self.device, flows.collect(), CLIENT_PORT)?)
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
        let mut generator = Generator::new(wire, offer.flows, plan(&offer.profile, offer.proto, offer.pace));
        if let Some(started) = &offer.started {
            // If nobody listens, nobody waits for it.
            let _ = started.send(());
        }
        generator.run(offer.pace, offer.window, (offer.seed, "client"), interrupted, on_edge)
    }
}

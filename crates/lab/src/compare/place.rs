//! What connects the two ends, for a whole comparison.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use napier_linux::{EndConfig, Veth, VethConfig};

use super::config::OnConfig;
use super::kernel::on::OnInterface;
use crate::agent::driver::Driver;
use crate::pair::{PEER_IP, PEER_MAC, TESTED_IP, TESTED_MAC};

/// What connects the two ends, for a whole comparison.
#[derive(Debug)]
pub(crate) enum Testbed {
    /// A link within the engine, made anew for each run.
    Link,
    /// A pair of interfaces of the kernel, each in a namespace of its own.
    Veth(Veth),
    /// Shared memory with the generator's process, both made anew for each run.
    Memif,
    /// An interface of this machine, and an agent elsewhere.
    On(On),
}

/// An interface of this machine, and the agent that loads the server there.
#[derive(Debug)]
pub(crate) struct On {
    pub(crate) interface: OnInterface,
    pub(crate) agent: Arc<Mutex<Driver>>,
}

impl Testbed {
    /// A veth pair. The sender computes checksums and segments by itself, for what comes out at the other end
    /// is to be what goes over a wire.
    ///
    /// # Errors
    /// No capability, or a kernel that cannot; says what needs none.
    pub(crate) fn veth(queues: u16) -> anyhow::Result<Self> {
        // Tracepoints tell devices by their names alone, and other namespaces have devices too.
        let name = format!("tested-{}", std::process::id());
        let tested = EndConfig::new(&name, TESTED_MAC).address(TESTED_IP.into(), 24);
        // The generator's end has no address, or the kernel would answer beside the generator.
        let peer = EndConfig::new("peer", PEER_MAC);
        let config = VethConfig { queues, tso: false, tx_checksum: false, ..VethConfig::new(tested, peer) };
        let veth = Veth::new(&config).and_then(|veth| {
            veth.left().add_neighbour(PEER_IP.into(), PEER_MAC)?;
            Ok(veth)
        });
        veth.map(Self::Veth).context(
            "no veth pair, over which rows of the kernel and --over xdp are measured: run it as root (CAP_SYS_ADMIN, CAP_NET_ADMIN and \
             CAP_NET_RAW), or measure the engine over its own link, which needs no privilege (omit --over and --backend)",
        )
    }

    /// An interface of this machine; the agent is connected, so that no other comparison has it.
    ///
    /// # Errors
    /// The interface cannot be used, or the agent not be driven.
    pub(crate) fn on(on: &OnConfig, interrupted: &AtomicBool) -> anyhow::Result<Self> {
        let interface = OnInterface::new(&on.interface, on.client)?;
        let agent = Driver::connect(on.client, &on.secret, interrupted)?;
        Ok(Self::On(On { interface, agent: Arc::new(Mutex::new(agent)) }))
    }
}

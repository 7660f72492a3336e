//! A veth pair on which experiments run with the kernel's network, and a mode applied to an end of it.

use anyhow::Context as _;
use napier_core::control::plan::{Plan, apply};
use napier_linux::{EndConfig, KernelSink, Veth, VethConfig, VethEnd};
use rustix::thread::{CpuSet, Pid};

use super::rounds::Stopped;
use crate::pair::{PEER_IP, PEER_MAC, TESTED_IP, TESTED_MAC};

/// The server's end is the left one. With receive offload on, and no segments that the sender leaves to the device, packets
/// go through NAPI instances, which the modes are about.
pub(super) fn veth(queues: u16) -> Result<Veth, Stopped> {
    let left = EndConfig::new("server", TESTED_MAC).address(TESTED_IP.into(), 24);
    let right = EndConfig::new("client", PEER_MAC).address(PEER_IP.into(), 24);
    let config = VethConfig { queues, gro: true, tso: false, ..VethConfig::new(left, right) };
    let made = Veth::new(&config).and_then(|veth| {
        veth.left().add_neighbour(PEER_IP.into(), PEER_MAC)?;
        veth.right().add_neighbour(TESTED_IP.into(), TESTED_MAC)?;
        Ok(veth)
    });
    made.map_err(|error| {
        if error.is_privilege() {
            let help = "run it as root (CAP_SYS_ADMIN, CAP_NET_ADMIN; with AF_XDP CAP_NET_RAW, CAP_BPF)";
            return Stopped::Refused(format!("no veth pair: {error}: {help}; --backend engine needs no privilege"));
        }
        Stopped::Failed(anyhow::Error::new(error).context("a veth pair"))
    })
}

/// Applies a mode to an end; it goes with its namespace. The thread of a queue goes to the CPU that `cpu_of` names.
pub(super) fn put_in_force(end: &VethEnd, plan: &Plan, cpu_of: impl Fn(usize) -> Option<usize>) -> Result<(), Stopped> {
    let set = end.netns().run(|| {
        let mut sink = KernelSink::Interface { name: end.name(), ifindex: end.ifindex() };
        let plan = sink.fit(plan).map_err(|error| error.to_string())?;
        apply(&mut sink, &plan).map(drop).map_err(|error| error.to_string())
    })?;
    let since = "threaded-busy-poll is there since Linux 6.19, deferral of an instance since 6.13";
    set.map_err(|why| Stopped::Refused(format!("the kernel refuses: {why}; {since}")))?;
    let threads = end.napis()?.into_iter().filter_map(|napi| napi.pid);
    for (queue, pid) in threads.filter_map(|pid| Pid::from_raw(pid.cast_signed())).enumerate() {
        let Some(cpu) = cpu_of(queue) else { continue };
        let mut set = CpuSet::new();
        set.set(cpu);
        rustix::thread::sched_setaffinity(Some(pid), &set)
            .with_context(|| format!("pinning the thread of queue {queue} to CPU {cpu}"))?;
    }
    Ok(())
}

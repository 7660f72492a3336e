//! What the machine has counted.

use crate::machine::world::World;
use napier_scenario::DropReason;

impl World {
    /// All of them, by name.
    pub(crate) fn counters(&self) -> Vec<(String, i64)> {
        let mut counters = Vec::new();
        let mut add = |name: String, value: u64| counters.push((name, value as i64));
        for (cpu, c) in self.cpus.iter().enumerate() {
            add(format!("cpu{cpu}.time_squeeze"), c.time_squeeze);
            add(format!("cpu{cpu}.softirq_runs"), c.softirq_runs);
            add(format!("cpu{cpu}.ksoftirqd"), c.ksoftirqd_wakes);
        }
        for (napi, n) in self.napis.iter().enumerate() {
            let name = self.napi_name(napi);
            add(format!("{name}.polls"), n.polls);
            add(format!("{name}.packets"), n.packets);
            add(format!("{name}.interrupts"), n.interrupts);
            add(format!("{name}.timer_fires"), n.timer_fires);
            add(format!("{name}.unmasks"), n.unmasks);
        }
        add("busy_poll_rx_packets".to_owned(), self.busy_poll_rx_packets);
        for reason in DropReason::ALL {
            add(format!("drops.{}", reason.name()), self.drops[*reason as usize]);
        }
        for sock in &self.socks {
            add(format!("{}.delivered", sock.name), sock.delivered);
        }
        self.tx_counters(&mut add);
        self.group_counters(&mut add);
        counters
    }
}

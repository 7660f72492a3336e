//! What things cost: the parameters of the model, each with its unit, its origin and the reason.
//!
//! Both ways of transmitting are run with the same figures. A count of lines means lines that the CPU must wait for one
//! after the other: fetches that hide behind another one, and stores that no CPU waits for, are not in it.

/// Where a figure comes from.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Taken from the named source as it is.
    Source,
    /// Worked out from the named source.
    Computed,
    /// Assumed. The sensitivity table shows what depends on it.
    Chosen,
}

impl Origin {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Computed => "computed",
            Self::Chosen => "chosen",
        }
    }
}

/// One parameter, described.
#[derive(Copy, Clone, Debug)]
pub struct Cost {
    /// Its name, the unit last.
    pub name: &'static str,
    /// Where the figure comes from.
    pub origin: Origin,
    /// Source or reason.
    pub reason: &'static str,
    read: fn(&Costs) -> u64,
    write: fn(&mut Costs, u64),
}

impl Cost {
    /// Its value.
    #[must_use]
    pub fn value(&self, costs: &Costs) -> u64 {
        (self.read)(costs)
    }

    /// The same costs with this one times `percent` / 100, rounded to the nearest whole number.
    #[must_use]
    pub fn scaled(&self, costs: &Costs, percent: u64) -> Costs {
        let mut costs = costs.clone();
        let value = (self.value(&costs) * percent + 50) / 100;
        (self.write)(&mut costs, value);
        costs
    }
}

macro_rules! costs {
    ($($name:ident = $value:literal, $origin:ident, $reason:literal;)*) => {
        /// The parameters.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct Costs { $(#[doc = $reason] pub $name: u64),* }

        impl Default for Costs {
            fn default() -> Self {
                Self { $($name: $value),* }
            }
        }

        /// All of them, in the order of a packet's way.
        pub const COSTS: &[Cost] = &[$(Cost {
            name: stringify!($name),
            origin: Origin::$origin,
            reason: $reason,
            read: |costs| costs.$name,
            write: |costs, value| costs.$name = value,
        }),*];
    };
}

costs! {
    transfer_same_core_ns = 8, Source,
        "a line from the other thread of the core: core-to-core-latency, Ice Lake 8375C, 8.1 ns";
    transfer_same_die_ns = 51, Source,
        "a modified line from another core of the die: Ice Lake 8375C, which is one mesh on one die, 51 ns (core-to-core-latency)";
    transfer_same_socket_ns = 110, Chosen,
        "a modified line from another of the socket's three dies: with the third of all cores that are near 90 ns in the mean, 1.75 times as \
         long as on one die";
    transfer_other_socket_ns = 190, Chosen,
        "a modified line from the other socket: 108 ns on Ice Lake 8375C, times 1.75 likewise";
    atomic_ns = 6, Source, "a locked instruction on a line in the own cache: about 20 cycles, instruction tables";
    pause_ns = 40, Source,
        "a spinning CPU looks again after each PAUSE: 140 cycles since Skylake (Intel optimization manual); half of it \
         passes on average before a change is seen";
    send_ns = 900, Chosen,
        "send() up to __dev_queue_xmit: system call, udp_sendmsg, ip_make_skb, allocation, copy; about 3000 \
         instructions";
    alloc_lines = 2, Computed,
        "memory that another CPU has freed: the free-list pointer in the packet's struct and in its head \
         (mm/slub.c get_freepointer)";
    entry_ns = 60, Computed,
        "__dev_queue_xmit before the discipline: about 200 instructions";
    enqueue_ns = 60, Computed, "net/sched/sch_fq.c fq_enqueue, fq_classify: about 200 instructions";
    dequeue_ns = 80, Computed, "net/sched/sch_fq.c fq_dequeue, dequeue_skb: about 250 instructions";
    transmit_ns = 250, Chosen,
        "validate_xmit_skb, dev_hard_start_xmit and a driver that maps and describes one packet: about 800 instructions";
    doorbell_ns = 100, Chosen, "a posted write to the device, and the barrier before it; once per chain";
    complete_ns = 150, Chosen, "a packet's completion in the driver, and giving back its memory: about 500 instructions";
    qdisc_lines = 1, Computed,
        "struct Qdisc beside the line of the root lock: backlog, running flag, state; written by enqueue and dequeue";
    fq_lines = 2, Computed, "struct fq_sched_data: the lists of flows, and the counters";
    flow_lines = 2, Computed, "struct fq_flow is two lines, both written by enqueue and by dequeue";
    fast_lines = 2, Computed,
        "instead of lists, counters and flow, where fq is all but empty: its inner flow lies across two lines \
         (fq_fastpath_check)";
    driver_lines = 4, Computed,
        "transmit lock, byte limit, the ring's indices: when another CPU transmitted before; one of them when completions \
         have written to it";
    skb_enqueue_lines = 2, Computed,
        "struct sk_buff, written by the sender: the link with the control block behind it, and the priority";
    skb_dequeue_lines = 2, Computed, "struct sk_buff, written by who queued it: the link, and length and control block";
    skb_count_lines = 2, Computed,
        "written by the sender, read when a packet is counted on leaving (qdisc_bstats_update): the end of struct sk_buff, \
         and struct skb_shared_info, which says whether it is one packet";
    skb_transmit_lines = 1, Computed,
        "written by the sender: the line of struct sk_buff with protocol, marks and offsets (validate_xmit_skb)";
    skb_free_lines = 4, Computed,
        "the driver's note of the packet, two lines of struct sk_buff, struct skb_shared_info; after who transmitted it";
    interrupt_ns = 1000, Computed, "a hard interrupt that schedules a poll: entry, handler, softirq entry";
    moderation_ns = 100000, Computed,
        "shortest time between two interrupts of a queue: 495000 interrupts a second were seen with locks, of which a tick \
         per millisecond on 250 CPUs; the rest is 8000 per queue";
    device_ns = 2000, Computed, "from the doorbell to the completion in memory: two round trips over PCIe";
    sleep_ns = 1500, Chosen, "a sender that goes to sleep: schedule() to idle";
    wake_ns = 1000, Chosen, "what a wake-up costs the waker: try_to_wake_up, interrupt to the idle CPU";
    wake_latency_ns = 5000, Chosen, "from the wake-up until the sender runs: idle state left, schedule()";
    tick_ns = 2000, Chosen, "a timer tick, every millisecond on each busy CPU";
    probe_ns = 100, Chosen,
        "what the two probes of bpftrace add to a time that is taken with them; part of the histogram only";
    sibling_pct = 160, Computed, "time of the same instructions while the other thread of the core is busy";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_changes_one_cost_and_no_other() {
        let costs = Costs::default();
        for cost in COSTS {
            let doubled = cost.scaled(&costs, 200);
            assert_eq!(cost.value(&doubled), 2 * cost.value(&costs), "{}", cost.name);
            let changed = COSTS.iter().filter(|other| other.value(&doubled) != other.value(&costs)).count();
            assert_eq!(changed, 1, "{}", cost.name);
        }
    }
}

//! Small machines with known answers, and what must hold on each.

use super::costs::{COSTS, Costs};
use super::plan::{Contended, Path, PlanError};
use super::topology::Topology;
use super::{Outcome, run};

/// One socket, lines that cost 100 ns, nothing that comes by chance.
fn small(path: Path, senders: u16, queues: u16) -> Contended {
    let costs = Costs {
        transfer_same_die_ns: 100,
        transfer_same_core_ns: 100,
        tick_ns: 0,
        probe_ns: 0,
        sibling_pct: 100,
        ..Costs::default()
    };
    Contended {
        topology: Topology { sockets: 1, dies_per_socket: 1, cores_per_socket: 32, threads_per_core: 1 },
        senders,
        queues,
        placements: 1,
        warm_up_ns: 1_000_000,
        run_ns: 4_000_000,
        costs,
        ..Contended::new(path, 7)
    }
}

fn outcome(plan: &Contended) -> Outcome {
    run(plan).expect("a plan that can be run")
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_another() {
    for path in Path::ALL {
        let plan = Contended { placements: 2, run_ns: 1_000_000, ..small(path, 12, 2) };
        assert_eq!(outcome(&plan), outcome(&plan));
        assert_ne!(outcome(&plan), outcome(&Contended { seed: 8, ..plan.clone() }));
    }
}

/// No other CPU touches anything of the discipline: a packet's time is the sum of its work.
#[test]
fn a_sender_alone_takes_the_sum_of_its_work() {
    let mut plan = small(Path::Locked, 1, 1);
    // Lines that completions have are free, so that only the sender's work is left.
    plan.costs = Costs { alloc_lines: 0, driver_lines: 0, ..plan.costs };
    plan.costs.transfer_same_die_ns = 0;
    let costs = &plan.costs;
    let stay_ns = costs.entry_ns
        + costs.enqueue_ns
        + costs.dequeue_ns
        + costs.transmit_ns
        + costs.doorbell_ns
        + costs.atomic_ns
        // Dequeue once more, find nothing; and the root lock is taken twice.
        + costs.dequeue_ns
        + costs.atomic_ns;
    let packet_ns = stay_ns + costs.send_ns;
    let outcome = outcome(&plan);
    let pkts = outcome.counts.entered_pkts as f64;
    let expected = plan.run_ns as f64 / packet_ns as f64;
    assert!((pkts - expected).abs() <= 2.0, "{pkts} packets, {expected} expected");
    assert_eq!(outcome.counts.chain_pkts, outcome.counts.chains);
    assert_eq!(outcome.stays.fullest_power(), Some(stay_ns.ilog2()));
    assert_eq!(outcome.stays.share_pct(stay_ns.ilog2()), 100.0);
    assert_eq!((outcome.counts.contended_pkts, outcome.counts.sleeps), (0, 0));
}

#[test]
fn alone_the_list_costs_no_more_than_a_lock() {
    let [locked, list] = Path::ALL.map(|path| outcome(&small(path, 1, 1)).mpps());
    assert!((list / locked - 1.0).abs() < 0.1, "{locked} and {list} Mpps");
}

/// Two senders on one queue: who comes second waits for the first, never for longer than a run.
#[test]
fn two_senders_on_one_lock_get_in_each_others_way() {
    let alone = outcome(&small(Path::Locked, 1, 1));
    let both = outcome(&small(Path::Locked, 2, 1));
    let apart = {
        let plan = small(Path::Locked, 2, 1);
        let costs = Costs { transfer_same_die_ns: 0, ..plan.costs.clone() };
        outcome(&Contended { costs, ..plan })
    };
    assert!(both.counts.contended_pkts > 0);
    assert!(both.mpps() < 1.8 * alone.mpps(), "{} and alone {}", both.mpps(), alone.mpps());
    assert!(both.mpps() < apart.mpps(), "lines that cost time cost packets");
}

/// Locks and their lines cross sockets with every packet; who sleeps for the list is woken where the lines are.
#[test]
fn with_many_senders_on_two_sockets_the_list_beats_the_locks() {
    let [locked, list] = Path::ALL.map(|path| {
        let topology = Topology { sockets: 2, dies_per_socket: 1, cores_per_socket: 16, threads_per_core: 1 };
        outcome(&Contended { topology, placements: 4, ..small(path, 16, 2) })
    });
    assert!(list.mpps() > 1.2 * locked.mpps(), "{} and {} Mpps", locked.mpps(), list.mpps());
    assert!(list.stays.below_pct(10) > locked.stays.below_pct(10) + 50.0);
    assert!(list.counts.batch_pkts > list.counts.batches, "some flush the packets of others");
    assert_eq!((locked.counts.batches, list.counts.contended_pkts), (0, 0));
}

/// Neighbours send on one queue: here each queue has a socket, and what lies between sockets matters to no line.
#[test]
fn pinned_senders_share_a_queue_with_their_neighbours() {
    let topology = Topology { sockets: 2, dies_per_socket: 1, cores_per_socket: 16, threads_per_core: 2 };
    for path in Path::ALL {
        let with = |pinned, far_ns| {
            let mut plan = Contended { topology, ..small(path, 32, 2) };
            (plan.settings.pinned, plan.costs.transfer_other_socket_ns) = (pinned, far_ns);
            outcome(&plan)
        };
        assert_eq!(with(true, 100), with(true, 400), "{path:?}");
        let [near, far] = [100, 400].map(|far_ns| with(false, far_ns).mpps());
        assert!(far < 0.8 * near, "{path:?}: senders that are anywhere cross sockets: {near} and {far} Mpps");
        // They never move, whatever those do that may.
        let mut plan = Contended { topology, ..small(path, 32, 2) };
        plan.settings = super::plan::Settings { pinned: true, follow_waker: false, ..plan.settings };
        assert_eq!(outcome(&plan), with(true, plan.costs.transfer_other_socket_ns), "{path:?}");
    }
}

/// A quota of a few packets ends runs early: a thread has to come back for the rest, and does.
#[test]
fn what_a_run_leaves_behind_is_sent_all_the_same() {
    for path in Path::ALL {
        let mut plan = small(path, 12, 1);
        plan.settings.quota_pkts = 2;
        let few = outcome(&plan);
        assert!(few.counts.unfinished_runs > few.counts.completed_pkts / 10);
        assert!(few.mpps() > 0.3 * outcome(&small(path, 12, 1)).mpps(), "{} Mpps", few.mpps());
    }
}

#[test]
fn a_burst_limit_drops_and_nothing_is_lost_uncounted() {
    let mut plan = small(Path::List, 16, 1);
    plan.settings.burst_max = 1;
    let outcome = outcome(&plan);
    let counts = &outcome.counts;
    assert!(counts.dropped_pkts > 0 && counts.completed_pkts > 0);
    assert_eq!(
        outcome.before_pkts + counts.made_pkts,
        counts.completed_pkts + counts.dropped_pkts + outcome.after_pkts
    );
}

#[test]
fn a_small_send_buffer_puts_senders_to_sleep_and_wakes_them() {
    for path in Path::ALL {
        let mut plan = small(path, 8, 2);
        plan.settings.send_buffer_bytes = 4 * plan.settings.packet_memory_bytes;
        let outcome = outcome(&plan);
        assert!(outcome.counts.sleeps > 100, "{path:?}: {} sleeps", outcome.counts.sleeps);
        assert!(outcome.cpu_pct() < 40.0 && outcome.counts.completed_pkts > outcome.counts.sleeps);
    }
}

#[test]
fn each_packet_that_left_is_in_the_histogram() {
    for path in Path::ALL {
        let plan = small(path, 12, 2);
        let outcome = outcome(&plan);
        let difference = outcome.stays.count().abs_diff(outcome.counts.entered_pkts);
        assert!(difference <= plan.senders.into(), "no more than are inside: {difference}");
    }
}

/// What is done under the root lock cannot make anything faster. (What is done outside it can: who comes back to it
/// less often hinders the others less.)
#[test]
fn lines_and_work_that_cost_more_send_fewer_packets() {
    for path in Path::ALL {
        let plan = small(path, 12, 1);
        let before = outcome(&plan).mpps();
        for name in ["transfer_same_die_ns", "enqueue_ns"] {
            let cost = COSTS.iter().find(|cost| cost.name == name).expect("a cost of this name");
            let after = outcome(&Contended { costs: cost.scaled(&plan.costs, 300), ..plan.clone() }).mpps();
            assert!(after < 1.02 * before, "{path:?}, {name}: {before} and {after} Mpps");
        }
    }
}

#[test]
fn what_cannot_be_run_is_refused() {
    assert_eq!(run(&small(Path::List, 0, 1)), Err(PlanError::Nothing));
    assert_eq!(run(&small(Path::List, 30, 3)), Err(PlanError::TooFewCpus { cpus: 32 }));
    let mut plan = small(Path::List, 1, 1);
    plan.settings.send_buffer_bytes = plan.settings.packet_memory_bytes;
    assert_eq!(run(&plan), Err(PlanError::SendBuffer));
}

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Whole {
    #[command(flatten)]
    sim: Sim,
}

fn parsed(line: &str) -> Result<Sim, clap::Error> {
    Whole::try_parse_from(std::iter::once("napier").chain(line.split_whitespace())).map(|whole| whole.sim)
}

#[test]
fn a_plan_needs_no_word() {
    for line in ["xsk-rr --modes interrupts,busy-read --jobs 1", "plan xsk-rr --modes interrupts,busy-read --jobs 1"] {
        let sim = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let plan = match &sim.what {
            Some(What::Plan(args)) => args,
            Some(_) => panic!("{line}: something else"),
            None => sim.plan.as_ref().expect("a plan"),
        };
        assert_eq!((plan.plan.as_str(), plan.jobs, plan.modes.as_ref().map(Vec::len)), ("xsk-rr", Some(1), Some(2)));
    }
    assert!(matches!(parsed("farm --runs 1").expect("a word").what, Some(What::Farm(_))));
    assert!(matches!(parsed("fidelity --jobs 1").expect("a word").what, Some(What::Fidelity { jobs: Some(1) })));
    for line in ["", "--jobs 1", "xsk-rr farm", "xsk-rr --shard 1/2"] {
        assert!(parsed(line).is_err(), "{line}");
    }
}

#[test]
fn what_is_run_as_a_whole_has_no_parts() {
    let stop = AtomicBool::new(false);
    let said = |line: &str| {
        let sim = parsed(line).expect("the options are there");
        run(&sim, &stop).expect_err(line).to_string()
    };
    assert!(said("xsk-rr --shard 1/2 --out /nowhere/file").contains("xsk-rr is run as a whole"));
    assert!(said("udp-stream --modes base").contains("which has locked, llist"));
    assert!(said("irq-suspension --modes bass").contains("is no mode"));
    assert!(
        said("no-such-plan").contains("or one of irq-suspension, xsk-rr, busy-read, udp-stream, tcp-rr, remote-ssd")
    );
}

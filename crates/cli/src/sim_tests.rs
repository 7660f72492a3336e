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
    for line in ["", "--jobs 1", "--jobs 1 farm", "xsk-rr --shard 1/2"] {
        assert!(parsed(line).is_err(), "{line}");
    }
}

#[test]
fn colours_are_chosen_before_a_word_as_behind_it() {
    for line in ["sim --color never farm", "sim farm --color never", "--color never sim farm"] {
        let parsed = crate::Cli::try_parse_from(std::iter::once("napier").chain(line.split_whitespace()));
        let cli = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(cli.color, clap::ColorChoice::Never, "{line}");
        assert!(matches!(cli.command, crate::Command::Sim(Sim { what: Some(What::Farm(_)), .. })), "{line}");
    }
}

#[test]
fn a_plan_and_a_word_are_not_given_together() {
    let sim = parsed("xsk-rr farm --runs 1").expect("the parser takes both");
    let error = run(&sim, &AtomicBool::new(false)).expect_err("both were given");
    assert!(error.is::<crate::Usage>() && error.to_string().contains("give the plan xsk-rr or one of"), "{error}");
}

#[test]
fn parts_that_are_joined_fail_as_the_plan_does() {
    let plan = plan::named("irq-suspension").expect("it comes along");
    let broken = |(load, mode): (plan::PlanLoad, &plan::PlanMode)| plan::PlanCell {
        load,
        mode: mode.clone(),
        predicted: Err("two owners".to_owned()),
    };
    let cells: Vec<plan::PlanCell> = plan.cells().map(broken).collect();
    let file = std::env::temp_dir().join(format!("napier-merge-{}.json", std::process::id()));
    plan::Results::new("irq-suspension", &plan, &cells).write(&file).expect("a file of one's own can be written");
    let sim = parsed(&format!("merge {}", file.display())).expect("a word");
    let error = run(&sim, &AtomicBool::new(false)).expect_err("no rule held").to_string();
    std::fs::remove_file(&file).expect("it is there");
    assert!(error.ends_with(": two owners"), "{error}");
}

#[test]
fn what_there_is_not_is_said() {
    let stop = AtomicBool::new(false);
    let said = |line: &str| {
        let sim = parsed(line).expect("the options are there");
        run(&sim, &stop).expect_err(line).to_string()
    };
    assert!(said("udp-stream --modes base").contains("which has locked, llist"));
    assert!(said("irq-suspension --modes bass").contains("is no mode of this plan"));
    assert!(
        said("no-such-plan").contains("or one of irq-suspension, xsk-rr, busy-read, udp-stream, tcp-rr, remote-ssd")
    );
}

use crate::{Action, Call, GroupDeed, Scenario};

const HEAD: &str = "title = \"t\"\n[machine]\ncpus = 2\n[[device]]\nname = \"eth0\"\nqueues = 2\n";
const G0: &str = "[[group]]\nname = \"g0\"\ncpus = [0]\nmembers = [\"eth0/0\"]\n";

fn error(text: &str) -> String {
    Scenario::parse(&format!("{HEAD}{text}"), "x.toml").expect_err("it is wrong").to_string()
}

#[test]
fn groups_that_cannot_be_are_refused_with_their_line() {
    let table = [
        ("[[group]]\nname = \"g0\"", "x.toml:7: group[0]: missing key \"cpus\""),
        ("[[group]]\nname = \"g0\"\ncpus = []", "group g0 has no CPU"),
        ("[[group]]\nname = \"g0\"\ncpus = [2]", "x.toml:9: group[0].cpus"),
        ("[[group]]\nname = \"g0\"\ncpus = [1, 1]", "CPU 1 is in the group already: name it once"),
        ("[[group]]\nname = \"g0\"\ncpus = [0]\nmembers = [\"eth0/2\"]", "unknown instance \"eth0/2\""),
        ("[[group]]\nname = \"g0\"\ncpus = [0]\npolicy = \"spread\"", "x.toml:10: group[0].policy"),
        ("[[group]]\nname = \"g0\"\ncpus = [0]\ndelay-target = \"2s\"", "it is 1000 ns to 1000000000 ns"),
        ("[[group]]\nname = \"g0\"\ncpus = [0]\nmin-active = 2", "min-active 2 for a group of 1 CPU:"),
        ("[[group]]\nname = \"g0\"\ncpus = [0]\nshrink-after = 0", "more than no time"),
        ("[[socket]]\nname = \"g0\"\n[[group]]\nname = \"g0\"\ncpus = [0]", "the name \"g0\" is taken"),
    ];
    for (text, want) in table {
        let found = error(text);
        assert!(found.contains(want), "{text}\n{found}");
    }
}

#[test]
fn a_cpu_and_an_instance_are_in_one_group() {
    let found = error(&format!("{G0}[[group]]\nname = \"g1\"\ncpus = [1, 0]"));
    assert!(found.contains("CPU 0 is in group g0: detach it there first"), "{found}");
    let found = error(&format!("{G0}[[group]]\nname = \"g1\"\ncpus = [1]\nmembers = [\"eth0/0\"]"));
    assert!(found.contains("eth0/0 is in group g0: detach it there first"), "{found}");
}

#[test]
fn steps_about_groups_say_what_they_need() {
    let step = |step: &str| error(&format!("{G0}[timeline]\nsteps = [{{ at = 0, {step} }}]"));
    for (text, want) in [
        ("check = \"g0\"", "nothing to look at"),
        ("check = \"g0\", member = \"eth0/0\"", "member and cpu go together"),
        ("call = \"group-attach\", group = \"g1\", napi = \"eth0/0\"", "unknown group \"g1\"; expected g0"),
        ("call = \"group-attach\", group = \"g0\"", "missing key \"napi\""),
        ("call = \"group-del\", group = \"g0\", cpu = 0", "unknown key \"cpu\""),
        ("stop-cpu = 2, for = \"1ms\"", "stop-cpu"),
        ("stop-cpu = 1", "missing key \"for\""),
    ] {
        let found = step(text);
        assert!(found.contains(want), "{text}\n{found}");
    }
}

#[test]
fn a_setting_that_a_call_leaves_out_is_as_declared() {
    let text = format!(
        "{HEAD}{G0}delay-target = \"20us\"\n[timeline]\nsteps = [{{ at = 0, call = \"group-set\", group = \"g0\", min-active = 0 }}]"
    );
    let scenario = Scenario::parse(&text, "x.toml").expect("a scenario");
    let Action::Call { call: Call::Group(call), .. } = &scenario.timeline[0].action else { panic!("a call") };
    let GroupDeed::Set(settings) = &call.deed else { panic!("settings") };
    assert_eq!((settings.delay_target.ns, settings.min_active), (20_000, 0));
}

use alloc::string::ToString;

use super::*;

const MACHINE: Machine<'_> = Machine { cpus: 4, offline: &[GroupCpu(3)] };

fn cpu(number: u16) -> GroupCpu {
    GroupCpu(number)
}

/// `g0` on CPUs 0 and 1 with queue 7, `g1` on CPU 2.
fn two() -> Groups {
    let mut groups = Groups::new();
    groups.create("g0", &[cpu(0), cpu(1)], Settings::default(), MACHINE).unwrap();
    groups.create("g1", &[cpu(2)], Settings::default(), MACHINE).unwrap();
    groups.attach("g0", MemberId(7), "eth0/7", true).unwrap();
    groups
}

/// The request fails with this message, and nothing has changed.
fn refused(request: impl FnOnce(&mut Groups) -> Result<()>, message: &str) {
    let mut groups = two();
    assert_eq!(request(&mut groups).unwrap_err().to_string(), message);
    assert_eq!(groups, two(), "nothing has changed");
}

#[test]
fn bad_cpus_are_refused() {
    let settings = Settings::default();
    refused(|g| g.create("g2", &[], settings, MACHINE), "group g2 has no CPU: name at least one");
    refused(|g| g.create("g2", &[cpu(4)], settings, MACHINE), "CPU 4 is not there: this machine has 0 to 3");
    refused(|g| g.create("g2", &[cpu(3)], settings, MACHINE), "CPU 3 is offline: switch it on, or leave it out");
    refused(|g| g.attach_cpu("g0", cpu(2), MACHINE), "CPU 2 is in group g1: detach it there first");
    refused(|g| g.attach_cpu("g0", cpu(1), MACHINE), "CPU 1 is in the group already: name it once");
    refused(|g| g.detach_cpu("g0", cpu(2)), "CPU 2 is not in group g0");
    let wide = Machine { cpus: 9, offline: &[] };
    let twice = [cpu(5), cpu(5)];
    refused(|g| g.create("g2", &twice, settings, wide), "CPU 5 is in the group already: name it once");
}

#[test]
fn bad_names_are_refused() {
    let settings = Settings::default();
    let wide = Machine { cpus: 9, offline: &[] };
    let name = "cannot name a group: take 1 to 32 letters, digits, - and _";
    refused(|g| g.create("", &[cpu(5)], settings, wide), &alloc::format!("\"\" {name}"));
    refused(|g| g.create("a b", &[cpu(5)], settings, wide), &alloc::format!("\"a b\" {name}"));
    let taken = "there is a group g1 already: take another name, or change it";
    refused(|g| g.create("g1", &[cpu(5)], settings, wide), taken);
    refused(|g| g.set("g9", settings), "there is no group g9: make it first");
    refused(|g| g.delete("g9").map(|_| ()), "there is no group g9: make it first");
}

#[test]
fn bad_members_are_refused() {
    let no_queue = "there is no queue eth9/0: name one as DEVICE/QUEUE";
    refused(|g| g.attach("g0", MemberId(9), "eth9/0", false), no_queue);
    refused(|g| g.attach("g0", MemberId(7), "eth0/7", true), "eth0/7 is in the group already: name it once");
    refused(|g| g.attach("g1", MemberId(7), "eth0/7", true), "eth0/7 is in group g0: detach it there first");
    refused(|g| g.detach("g1", MemberId(7), "eth0/7"), "eth0/7 is not in group g1");
}

#[test]
fn values_out_of_range_are_refused() {
    let with = |delay_target, min_active| Settings { delay_target, min_active, ..Settings::default() };
    let range = "it is 1000 ns to 1000000000 ns";
    let small = alloc::format!("a delay target of 999 ns: {range}");
    refused(|g| g.set("g0", with(Span::from_ns(999), 1)), &small);
    let large = alloc::format!("a delay target of 1000000001 ns: {range}");
    refused(|g| g.set("g0", with(Span::from_ns(1_000_000_001), 1)), &large);
    let stall_after = Settings { stall_after: Span::ZERO, ..Settings::default() };
    refused(|g| g.set("g0", stall_after), "stall-after of 0 ns: it is at least 10000 ns");
    let shrink_after = Settings { shrink_after: Span::ZERO, ..Settings::default() };
    refused(|g| g.set("g0", shrink_after), "shrink-after of 0 ns: it is at least 1000 ns");
    refused(|g| g.set("g0", with(DELAY_TARGET_MIN, 3)), "min-active 3 for a group of 2 CPUs: it is 0 to 2");
    let mut groups = two();
    groups.set("g0", with(DELAY_TARGET_MAX, 2)).unwrap();
    groups.set("g0", with(DELAY_TARGET_MIN, 0)).unwrap();
}

#[test]
fn the_last_cpu_stays_with_the_members() {
    let mut groups = two();
    groups.detach_cpu("g0", cpu(0)).unwrap();
    let refused = groups.detach_cpu("g0", cpu(1)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "CPU 1 is the last one of group g0, which polls 1 queues: attach another CPU, or detach the queues first"
    );
    groups.detach("g0", MemberId(7), "eth0/7").unwrap();
    groups.detach_cpu("g0", cpu(1)).unwrap();
    assert_eq!(groups.all()[0].settings.min_active, 0, "nobody is left to be active");
    let refused = groups.attach("g0", MemberId(7), "eth0/7", true).unwrap_err();
    assert_eq!(refused, GroupError::NoCpus { name: "g0".to_owned() });
}

#[test]
fn what_leaves_one_group_can_come_to_another() {
    let mut groups = two();
    groups.detach_cpu("g0", cpu(1)).unwrap();
    groups.attach_cpu("g1", cpu(1), MACHINE).unwrap();
    let gone = groups.delete("g0").unwrap();
    assert_eq!((gone.cpus, gone.members), (alloc::vec![cpu(0)], alloc::vec![MemberId(7)]));
    groups.attach("g1", MemberId(7), "eth0/7", true).unwrap();
    assert_eq!(groups.of_member(MemberId(7)), Some(0));
}

#[test]
fn names_have_one_to_thirty_two_letters_digits_and_lines() {
    for name in ["", " ", "a b", "a/b", "ä", &"x".repeat(33), &"x".repeat(64)] {
        assert!(matches!(check_name(name), Err(GroupError::BadName { .. })), "{name:?}");
    }
    for name in ["a", "A-b_9", &"x".repeat(32)] {
        assert_eq!(check_name(name), Ok(()), "{name:?}");
    }
}

#[test]
fn the_least_delay_that_may_be_asked_for_may_be_asked_for() {
    for delay_target in [DELAY_TARGET_MIN, DELAY_TARGET_MAX] {
        assert_eq!(check_settings(&Settings { delay_target, ..Settings::default() }, 2), Ok(()));
    }
    let settings = |shrink_after| Settings { shrink_after, ..Settings::default() };
    let (_, least) = PATIENCE_MIN[0];
    assert_eq!(check_settings(&settings(least), 2), Ok(()));
    assert!(check_settings(&settings(Span { ns: least.ns - 1 }), 2).is_err());
}

//! What a group leaves to others.

use super::*;

#[test]
fn real_time_threads_leave_programs_a_cpu() {
    let rig = Rig::new();
    let cpus = available_cpus();
    rig.engine.group_new("g", &cpus, Settings::default()).unwrap();
    let refused = rig.engine.group_set_class("g", GroupClass::Fifo).unwrap_err();
    assert!(matches!(refused, GroupChangeError::NoCpuLeft), "{refused}");
    assert_eq!(rig.engine.groups()[0].class, GroupClass::Auto, "nothing has changed");
    let Some(last) = cpus.get(1..).and_then(<[usize]>::last) else { return };
    rig.engine.group_detach_cpu("g", *last).unwrap();
    if rig.engine.group_set_class("g", GroupClass::Fifo).is_err() {
        return napier_testkit::skip!("real_time_threads_leave_programs_a_cpu", "SCHED_FIFO is not granted");
    }
    // By one CPU at a time, or by another group, it is the same.
    assert!(matches!(rig.engine.group_attach_cpu("g", *last), Err(GroupChangeError::NoCpuLeft)));
    rig.engine.group_new("other", &[*last], Settings::default()).unwrap();
    assert!(matches!(rig.engine.group_set_class("other", GroupClass::Fifo), Err(GroupChangeError::NoCpuLeft)));
}

/// A group that is never to sleep by its settings has nothing to poll while it has no members.
#[test]
fn a_group_without_members_sleeps_until_the_first_comes() {
    let rig = Rig::new();
    for settings in [Settings { policy: Policy::Static, ..Settings::default() }, Settings::default()] {
        rig.engine.group_new("g", &available_cpus()[..1], settings).unwrap();
        let doing = |doing: Doing| rig.engine.groups()[0].cpus.iter().all(|cpu| cpu.doing == doing);
        eventually("it sleeps without members", || doing(Doing::Asleep));
        rig.engine.group_attach("g", rig.id(0)).unwrap();
        eventually("it polls its member", || doing(Doing::Active));
        (0..20).for_each(|number| rig.round(number));
        rig.engine.group_detach("g", rig.id(0)).unwrap();
        eventually("it sleeps again", || doing(Doing::Asleep));
        rig.engine.group_del("g").unwrap();
    }
}

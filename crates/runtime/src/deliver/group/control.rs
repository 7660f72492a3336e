//! What the control path does with groups: make, change, take away, show. One change at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use napier_core::group::{
    CpuWord, Decider, GroupCpu, GroupError, Groups, Machine, MemberId, Phase, Seat, Settings, Woken,
};
use napier_core::state::State;
use napier_sys::sched::available_cpus;

use super::elsewhere::Stands;
use super::policy::Turn;
use super::{CpuPoller, Group, GroupClass, GroupMember, GroupTable, stall_ns};
use crate::deliver::Deliver;
use crate::napi::{Context, Napi};

/// Pause between two looks while waiting for an owner to let go.
const WAIT: Duration = Duration::from_micros(50);

/// A change of groups that was refused; nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum GroupChangeError {
    /// What was asked for cannot be.
    #[error("{0}")]
    Refused(#[from] GroupError),
    /// No enabled instance has this id.
    #[error("no enabled NAPI instance has id {id} (ENOENT): napi-get shows them")]
    NoSuchNapi {
        /// The id.
        id: u32,
    },
    /// The system refused a thread.
    #[error("the thread of CPU {cpu} was not created: {error}")]
    ThreadNotCreated {
        /// The CPU.
        cpu: u16,
        /// What the system said.
        error: std::io::Error,
    },
    /// The real-time class was asked for.
    #[error(
        "the thread of CPU {cpu} may not run as SCHED_FIFO ({error}): give the engine CAP_SYS_NICE or an RLIMIT_RTPRIO, or take \
         the class auto"
    )]
    ClassNotGranted {
        /// The CPU.
        cpu: u16,
        /// What the system said.
        error: std::io::Error,
    },
    /// Real-time threads that poll would have every CPU.
    #[error(
        "real-time threads that poll would have every CPU that this process may use, and programs almost nothing of them: leave \
         the group a CPU less, or take the class other"
    )]
    NoCpuLeft,
    /// The journal records what Linux does, and Linux has no groups.
    #[error("an engine that keeps a journal has no groups: start it without the journal")]
    Journal,
    /// The engine is ending.
    #[error("the engine is ending (ESHUTDOWN)")]
    Closing,
}

impl GroupTable {
    fn lock(&self) -> MutexGuard<'_, Groups> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn group(&self, name: &str) -> Arc<Group> {
        let running = self.running.load();
        running.iter().find(|group| group.name == name).expect("a group that is known runs").clone()
    }

    fn may_change(deliver: &Deliver) -> Result<(), GroupChangeError> {
        if deliver.is_closing() {
            return Err(GroupChangeError::Closing);
        }
        if deliver.journal.is_some() { Err(GroupChangeError::Journal) } else { Ok(()) }
    }

    /// See [`crate::engine::Engine::group_new`].
    pub(crate) fn create(
        &self,
        deliver: &Arc<Deliver>,
        name: &str,
        cpus: &[GroupCpu],
        settings: Settings,
    ) -> Result<(), GroupChangeError> {
        Self::may_change(deliver)?;
        let mut table = self.lock();
        let mut known = table.clone();
        known.create(name, cpus, settings, machine(&offline()))?;
        let group = Arc::new(Group {
            name: name.to_owned(),
            pollers: ArcSwap::default(),
            members: ArcSwap::default(),
            turn: Mutex::new(Turn::new(Decider::new(settings))),
            settings: Mutex::new(settings),
            class: Mutex::default(),
            decided_ns: AtomicU64::new(0),
            stall_ns: AtomicU64::new(stall_ns(&settings)),
            stop: AtomicBool::new(false),
        });
        for cpu in cpus {
            if let Err(error) = add_poller(deliver, &group, *cpu) {
                group.end();
                return Err(error);
            }
        }
        *table = known;
        self.running.rcu(|all| all.iter().cloned().chain([group.clone()]).collect::<Vec<_>>());
        Ok(())
    }

    /// See [`crate::engine::Engine::group_del`].
    pub(crate) fn delete(&self, deliver: &Deliver, name: &str) -> Result<(), GroupChangeError> {
        let mut table = self.lock();
        table.delete(name)?;
        let group = self.group(name);
        for member in group.members.load_full().iter() {
            self.take_out(deliver, &group, member);
        }
        self.running.rcu(|all| all.iter().filter(|other| other.name != name).cloned().collect::<Vec<_>>());
        group.end();
        Ok(())
    }

    /// See [`crate::engine::Engine::group_set`].
    pub(crate) fn set(&self, deliver: &Deliver, name: &str, settings: Settings) -> Result<(), GroupChangeError> {
        let mut table = self.lock();
        table.set(name, settings)?;
        let group = self.group(name);
        group.set(settings);
        for member in group.members.load().iter() {
            set_run(deliver, &group, member);
        }
        Ok(())
    }

    /// See [`crate::engine::Engine::group_set_class`].
    pub(crate) fn set_class(&self, name: &str, class: GroupClass) -> Result<(), GroupChangeError> {
        let table = self.lock();
        table.find(name)?;
        let group = self.group(name);
        self.leaves_a_cpu(&group, class, None)?;
        group.set_class(class)
    }

    /// See [`crate::engine::Engine::group_attach_cpu`].
    pub(crate) fn attach_cpu(&self, deliver: &Arc<Deliver>, name: &str, cpu: GroupCpu) -> Result<(), GroupChangeError> {
        Self::may_change(deliver)?;
        let mut table = self.lock();
        let mut known = table.clone();
        known.attach_cpu(name, cpu, machine(&offline()))?;
        let group = self.group(name);
        let class = *group.class.lock().expect("only stored");
        self.leaves_a_cpu(&group, class, Some(cpu))?;
        add_poller(deliver, &group, cpu)?;
        *table = known;
        Ok(())
    }

    /// See [`crate::engine::Engine::group_detach_cpu`].
    pub(crate) fn detach_cpu(&self, name: &str, cpu: GroupCpu) -> Result<(), GroupChangeError> {
        let mut table = self.lock();
        table.detach_cpu(name, cpu)?;
        let group = self.group(name);
        let position = table.find(name)?;
        group.set(table.all()[position].settings);
        let Some(poller) = group.poller(cpu) else { return Ok(()) };
        if poller.change(CpuWord::go) == Woken::Rouse {
            poller.parker.wake();
        }
        let others: Vec<_> = group.pollers.load().iter().filter(|other| other.cpu != cpu).cloned().collect();
        let of_cpu = group.members.load_full();
        for (nth, member) in of_cpu.iter().filter(|member| member.seat().cpu() == cpu).enumerate() {
            group.move_member(member, others[nth % others.len()].cpu);
        }
        poller.join();
        group.pollers.store(Arc::new(others));
        // Another may have gone to sleep because this one was awake.
        group.wake_all();
        Ok(())
    }

    /// See [`crate::engine::Engine::group_attach`].
    pub(crate) fn attach(&self, deliver: &Deliver, name: &str, id: u32) -> Result<(), GroupChangeError> {
        Self::may_change(deliver)?;
        let mut table = self.lock();
        table.find(name)?;
        let napi = deliver.napi_by_id(id).ok_or(GroupChangeError::NoSuchNapi { id })?.clone();
        let called = called(&napi);
        table.attach(name, MemberId(napi.index), &called, true)?;
        let group = self.group(name);
        let cpu = {
            let mut turn = group.turn.lock().unwrap_or_else(PoisonError::into_inner);
            turn.place(&group, deliver.clock.now())
        };
        let cpu = cpu.expect("a group that takes members has a CPU");
        let member = Arc::new(GroupMember::new(napi.clone(), &group));
        member.turn_ended_ns.store(deliver.clock.now().ns, Ordering::Relaxed);
        assert!(member.sit_if(|seat| seat.reserve(cpu)), "it is new");
        self.member(&napi).store(Some(member.clone()));
        let owned = claim(deliver, &napi);
        let before = group.members.rcu(|all| all.iter().cloned().chain([member.clone()]).collect::<Vec<_>>());
        if before.is_empty() {
            // They sleep for want of members, whatever the settings say.
            group.wake_all();
        }
        let wake = if owned { Some(member.sit(Seat::attached)) } else { member.sit(Seat::unhold) };
        if let Some(cpu) = wake {
            group.wake(&member, cpu);
        }
        set_run(deliver, &group, &member);
        Ok(())
    }

    /// See [`crate::engine::Engine::group_detach`].
    pub(crate) fn detach(&self, deliver: &Deliver, name: &str, id: u32) -> Result<(), GroupChangeError> {
        let mut table = self.lock();
        table.find(name)?;
        let napi = deliver.napi_by_id(id).ok_or(GroupChangeError::NoSuchNapi { id })?;
        self.detach_napi(&mut table, deliver, name, napi)
    }

    /// The instance, enabled or not, leaves the group that it is in, if any: its device is removed.
    pub(crate) fn leave(&self, deliver: &Deliver, napi: &Napi) {
        let mut table = self.lock();
        if let Some(group) = self.of(napi) {
            let left = self.detach_napi(&mut table, deliver, &group.name, napi);
            debug_assert!(left.is_ok(), "a member leaves the group that it is in");
        }
    }

    fn detach_napi(
        &self,
        table: &mut Groups,
        deliver: &Deliver,
        name: &str,
        napi: &Napi,
    ) -> Result<(), GroupChangeError> {
        table.detach(name, MemberId(napi.index), &called(napi))?;
        let group = self.group(name);
        if let Some(member) = self.member(napi).load_full() {
            self.take_out(deliver, &group, &member);
        }
        Ok(())
    }

    /// A member leaves its group: from here on it is polled as if it had never been there.
    pub(super) fn take_out(&self, deliver: &Deliver, group: &Group, member: &Arc<GroupMember>) {
        member.set_run(false);
        let _control = deliver.control();
        let napi = &*member.napi;
        assert!(member.sit_if(Seat::hold), "one change at a time");
        let mut stands = Stands::new(deliver.clock.now());
        while !member.sit_if(Seat::take_held) {
            stands.look(group, member, deliver.clock.now());
            let is_armed = member.seat().phase() == Phase::Armed;
            let disabled = napi.state().is_disabled();
            if is_armed && (disabled || napi.transition(crate::journal::Rule::SchedulePrep, State::schedule_prep)) {
                member.sit(|seat| (seat.take_armed(), ()));
                break;
            }
            std::thread::sleep(WAIT);
        }
        drop(stands);
        let owned = napi.state.update(|bits| {
            let (next, owned) = State::from_bits(bits).group_leave();
            (next.bits(), owned)
        });
        group.members.rcu(|all| all.iter().filter(|other| !Arc::ptr_eq(other, member)).cloned().collect::<Vec<_>>());
        member.sit(|seat| (seat.free(), ()));
        self.member(napi).store(None);
        if owned {
            // The caller has locks: another thread polls.
            deliver.schedule_owned(*Context::current().kick_only(), napi);
        }
    }

    /// Ends all groups; the instances are disabled.
    pub(crate) fn end(&self) {
        let running = {
            let _known = self.lock();
            self.running.swap(Arc::default())
        };
        // First all of them: one that fails leaves no other running.
        running.iter().for_each(|group| group.stop());
        for group in running.iter() {
            for member in group.members.load().iter() {
                member.set_run(false);
                self.member(&member.napi).store(None);
            }
            group.end();
        }
    }
}

/// A group gets a CPU, and its thread.
fn add_poller(deliver: &Arc<Deliver>, group: &Arc<Group>, cpu: GroupCpu) -> Result<(), GroupChangeError> {
    let poller = Arc::new(CpuPoller::new(cpu));
    poller.seen_ns.store(deliver.clock.now().ns, Ordering::Relaxed);
    group.start(deliver, &poller).map_err(|error| GroupChangeError::ThreadNotCreated { cpu: cpu.0, error })?;
    if let Err(error) = poller.set_class(*group.class.lock().expect("only stored")) {
        poller.change(|word| (word.go().0, ()));
        poller.join();
        return Err(error);
    }
    group.pollers.rcu(|all| all.iter().cloned().chain([poller.clone()]).collect::<Vec<_>>());
    Ok(())
}

/// Who runs the member's discipline by the settings in force. A group that does is told to look, whatever it does now: no other
/// thread looks at what senders push.
fn set_run(deliver: &Deliver, group: &Group, member: &GroupMember) {
    let cx = Context::current().kick_only();
    member.set_run(group.is_always_awake());
    if group.is_always_awake() {
        deliver.interrupt(*cx, &member.napi);
    }
}

/// The group becomes the owner, once the owner has let go; false: the instance is disabled.
pub(super) fn claim(deliver: &Deliver, napi: &Napi) -> bool {
    // Nobody enables or disables meanwhile.
    let _control = deliver.control();
    let at_once = napi.state.update(|bits| {
        let (next, at_once) = State::from_bits(bits).group_attach_begin();
        (next.bits(), at_once)
    });
    if at_once {
        return false;
    }
    let claim = |bits: u32| match State::from_bits(bits).group_attach_claim() {
        Some(next) => (next.bits(), true),
        None => (bits, false),
    };
    while !napi.state.update(claim) {
        std::thread::sleep(WAIT);
    }
    napi.timer.cancel();
    let _ = napi.moderation.end();
    napi.mask();
    true
}

/// `DEVICE/QUEUE`.
fn called(napi: &Napi) -> String {
    format!("{}/{}", napi.device.name, napi.queue)
}

/// Processors that this process may not use, among those below the last that it may.
fn offline() -> Vec<GroupCpu> {
    let may = available_cpus();
    let last = may.iter().copied().max().unwrap_or(0);
    (0..=last).filter(|cpu| !may.contains(cpu)).map(|cpu| GroupCpu(cpu as u16)).collect()
}

fn machine(offline: &[GroupCpu]) -> Machine<'_> {
    let last = available_cpus().into_iter().max().unwrap_or(0);
    Machine { cpus: u16::try_from(last + 1).unwrap_or(u16::MAX), offline }
}

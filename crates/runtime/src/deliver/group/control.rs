//! What the control path does with groups: make, change, take away, show. One change at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use napier_core::group::{
    CpuWord, Decider, GroupCpu, GroupError, Groups, Machine, MemberId, Phase, Policy, Seat, Settings, Woken,
};
use napier_core::state::State;
use napier_sys::sched::available_cpus;

use super::elsewhere::Stands;
use super::policy::Turn;
use super::{Group, GroupClass, Member, Poller, stall_ns};
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

impl Deliver {
    fn known_groups(&self) -> MutexGuard<'_, Groups> {
        self.groups.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn running_group(&self, name: &str) -> Arc<Group> {
        let running = self.groups.running.load();
        running.iter().find(|group| group.name == name).expect("a group that is known runs").clone()
    }

    fn may_change_groups(&self) -> Result<(), GroupChangeError> {
        if self.is_closing() {
            return Err(GroupChangeError::Closing);
        }
        if self.journal.is_some() { Err(GroupChangeError::Journal) } else { Ok(()) }
    }

    /// See [`crate::engine::Engine::group_new`].
    pub(crate) fn group_new(
        self: &Arc<Self>,
        name: &str,
        cpus: &[GroupCpu],
        settings: Settings,
    ) -> Result<(), GroupChangeError> {
        self.may_change_groups()?;
        let mut table = self.known_groups();
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
            if let Err(error) = self.add_poller(&group, *cpu) {
                group.end();
                return Err(error);
            }
        }
        *table = known;
        self.groups.running.rcu(|all| all.iter().cloned().chain([group.clone()]).collect::<Vec<_>>());
        Ok(())
    }

    fn add_poller(self: &Arc<Self>, group: &Arc<Group>, cpu: GroupCpu) -> Result<(), GroupChangeError> {
        let poller = Arc::new(Poller::new(cpu));
        poller.seen_ns.store(self.clock.now().ns, Ordering::Relaxed);
        group.start(self, &poller).map_err(|error| GroupChangeError::ThreadNotCreated { cpu: cpu.0, error })?;
        if let Err(error) = poller.set_class(*group.class.lock().expect("only stored")) {
            poller.change(|word| (word.go().0, ()));
            poller.join();
            return Err(error);
        }
        group.pollers.rcu(|all| all.iter().cloned().chain([poller.clone()]).collect::<Vec<_>>());
        Ok(())
    }

    /// See [`crate::engine::Engine::group_del`].
    pub(crate) fn group_del(&self, name: &str) -> Result<(), GroupChangeError> {
        let mut table = self.known_groups();
        table.delete(name)?;
        let group = self.running_group(name);
        for member in group.members.load_full().iter() {
            self.take_out(&group, member);
        }
        self.groups.running.rcu(|all| all.iter().filter(|other| other.name != name).cloned().collect::<Vec<_>>());
        group.end();
        Ok(())
    }

    /// See [`crate::engine::Engine::group_set`].
    pub(crate) fn group_set(&self, name: &str, settings: Settings) -> Result<(), GroupChangeError> {
        let mut table = self.known_groups();
        table.set(name, settings)?;
        let group = self.running_group(name);
        group.set(settings);
        for member in group.members.load().iter() {
            self.set_run(&group, member);
        }
        Ok(())
    }

    /// See [`crate::engine::Engine::group_set_class`].
    pub(crate) fn group_set_class(&self, name: &str, class: GroupClass) -> Result<(), GroupChangeError> {
        let table = self.known_groups();
        table.find(name)?;
        let group = self.running_group(name);
        self.leaves_a_cpu(&group, class, None)?;
        group.set_class(class)
    }

    /// See [`crate::engine::Engine::group_attach_cpu`].
    pub(crate) fn group_attach_cpu(self: &Arc<Self>, name: &str, cpu: GroupCpu) -> Result<(), GroupChangeError> {
        self.may_change_groups()?;
        let mut table = self.known_groups();
        let mut known = table.clone();
        known.attach_cpu(name, cpu, machine(&offline()))?;
        let group = self.running_group(name);
        let class = *group.class.lock().expect("only stored");
        self.leaves_a_cpu(&group, class, Some(cpu))?;
        self.add_poller(&group, cpu)?;
        *table = known;
        Ok(())
    }

    /// See [`crate::engine::Engine::group_detach_cpu`].
    pub(crate) fn group_detach_cpu(&self, name: &str, cpu: GroupCpu) -> Result<(), GroupChangeError> {
        let mut table = self.known_groups();
        table.detach_cpu(name, cpu)?;
        let group = self.running_group(name);
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
    pub(crate) fn group_attach(&self, name: &str, id: u32) -> Result<(), GroupChangeError> {
        self.may_change_groups()?;
        let mut table = self.known_groups();
        table.find(name)?;
        let napi = self.napi_by_id(id).ok_or(GroupChangeError::NoSuchNapi { id })?.clone();
        let called = called(&napi);
        table.attach(name, MemberId(napi.index), &called, true)?;
        let group = self.running_group(name);
        let cpu = {
            let mut turn = group.turn.lock().unwrap_or_else(PoisonError::into_inner);
            turn.place(&group, self.clock.now())
        };
        let cpu = cpu.expect("a group that takes members has a CPU");
        let member = Arc::new(Member::new(napi.clone(), &group));
        member.turn_ended_ns.store(self.clock.now().ns, Ordering::Relaxed);
        assert!(member.sit_if(|seat| seat.reserve(cpu)), "it is new");
        self.groups.member(&napi).store(Some(member.clone()));
        let owned = self.claim_for_group(&napi);
        let before = group.members.rcu(|all| all.iter().cloned().chain([member.clone()]).collect::<Vec<_>>());
        if before.is_empty() {
            // They sleep for want of members, whatever the settings say.
            group.wake_all();
        }
        let wake = if owned { Some(member.sit(Seat::attached)) } else { member.sit(Seat::unhold) };
        if let Some(cpu) = wake {
            group.wake(&member, cpu);
        }
        self.set_run(&group, &member);
        Ok(())
    }

    /// Who runs the member's discipline by the settings in force. A group that does is told to look, whatever it does now: nobody
    /// else looks at what senders push.
    fn set_run(&self, group: &Group, member: &Member) {
        let cx = Context::current().kick_only();
        member.set_run(group.is_always_awake());
        if group.is_always_awake() {
            self.interrupt(*cx, &member.napi);
        }
    }

    /// The group becomes the owner, once whoever is has let go; false: the instance is disabled.
    pub(super) fn claim_for_group(&self, napi: &Napi) -> bool {
        // Nobody enables or disables meanwhile.
        let _control = self.control();
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

    /// See [`crate::engine::Engine::group_detach`].
    pub(crate) fn group_detach(&self, name: &str, id: u32) -> Result<(), GroupChangeError> {
        let mut table = self.known_groups();
        table.find(name)?;
        let napi = self.napi_by_id(id).ok_or(GroupChangeError::NoSuchNapi { id })?.clone();
        table.detach(name, MemberId(napi.index), &called(&napi))?;
        let group = self.running_group(name);
        if let Some(member) = self.groups.member(&napi).load_full() {
            self.take_out(&group, &member);
        }
        Ok(())
    }

    /// A member leaves its group: from here on it is polled as if it had never been there.
    pub(super) fn take_out(&self, group: &Group, member: &Arc<Member>) {
        member.set_run(false);
        let _control = self.control();
        let napi = &*member.napi;
        assert!(member.sit_if(Seat::hold), "one change at a time");
        let mut stands = Stands::new(self.clock.now());
        while !member.sit_if(Seat::take_held) {
            stands.look(group, member, self.clock.now());
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
        self.groups.member(napi).store(None);
        if owned {
            // The caller has locks: another thread polls.
            self.schedule_owned(*Context::current().kick_only(), napi);
        }
    }

    /// Ends all groups; the instances are disabled.
    pub(crate) fn end_groups(&self) {
        let running = {
            let _known = self.known_groups();
            self.groups.running.swap(Arc::default())
        };
        // First all of them: one that fails leaves no other running.
        running.iter().for_each(|group| group.stop());
        for group in running.iter() {
            for member in group.members.load().iter() {
                member.set_run(false);
                self.groups.member(&member.napi).store(None);
            }
            group.end();
        }
    }
}

impl Group {
    fn is_always_awake(&self) -> bool {
        let settings = self.settings.lock().expect("only stored");
        settings.min_active > 0 || settings.policy == Policy::Static
    }

    fn set(&self, settings: Settings) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        turn.decider.set(settings);
        *self.settings.lock().expect("only stored") = settings;
        self.stall_ns.store(stall_ns(&settings), Ordering::Relaxed);
        // What was asked for by the settings before.
        self.pollers.load().iter().for_each(|poller| poller.shall_park.store(false, Ordering::Relaxed));
        drop(turn);
        self.wake_all();
    }

    /// Who sleeps looks at what is in force now: more of them may be wanted.
    fn wake_all(&self) {
        for poller in self.pollers.load().iter() {
            let _ = poller.wake();
        }
    }

    /// Tells the threads to end.
    fn stop(&self) {
        // Release: pairs with the Acquire of the threads' loops.
        self.stop.store(true, Ordering::Release);
        self.pollers.load().iter().for_each(|poller| poller.parker.wake_all());
    }

    /// Ends the threads.
    fn end(&self) {
        self.stop();
        for poller in self.pollers.load().iter() {
            poller.join();
        }
    }
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

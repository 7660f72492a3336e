//! CPU polling groups: threads, one per CPU of a group, that poll the members of the group.
//!
//! The rules are in [`napier_core::group`], which says what the three words mean and in which order they change. Here are
//! the threads (`poll`), how one of them goes to sleep (`park`), when they ask the policy (`policy`), and what the control path
//! does (`control`, `show`). Lists of pollers and members are replaced as a whole, so that who polls locks nothing.

mod class;
mod control;
mod elsewhere;
mod park;
mod policy;
mod poll;
mod show;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use arc_swap::{ArcSwap, ArcSwapOption};
use napier_core::group::{CpuWord, Doing, GroupCpu, Groups, Load, Policy, Seat, Settings, Woken};
use napier_core::time::Instant;
use napier_ring::{Exclusive, StateCell};
use napier_stack::park::Parker;
use napier_sys::clock::Clock;
use napier_sys::topology::{Place, place_of};

use super::Deliver;
use super::owner::Owner;
use crate::bounds::NAPI_MAX;
use crate::napi::{Context, Napi};
use crate::tx::{Mode, OwnerTurns};
pub use class::GroupClass;
pub use control::GroupChangeError;
use policy::Turn;
pub use show::{GroupInfo, GroupMemberInfo, GroupOfNapi, PollerInfo};

/// No CPU.
const NOWHERE: u32 = u32::MAX;

/// A queue that a group polls.
pub(crate) struct GroupMember {
    napi: Arc<Napi>,
    group: Weak<Group>,
    seat: StateCell,
    /// Whose turn it is has it.
    own: Exclusive<Own>,
    /// How senders handed over before the group took the transmit run; none: they run it.
    run_before: Mutex<Option<Mode>>,
    /// The group has the transmit run.
    has_run: AtomicBool,
    turn_ended_ns: AtomicU64,
    /// Its last turn found nothing to do, and a look tells whether that has changed.
    idle: AtomicBool,
    backlog: AtomicU32,
    load_permille: AtomicU32,
    per_packet_ns: AtomicU64,
    /// The CPU before, or [`NOWHERE`].
    last_cpu: AtomicU32,
    moves: AtomicU64,
}

/// What a member's polls remember.
#[derive(Default)]
struct Own {
    load: Load,
    run: OwnerTurns,
}

impl GroupMember {
    fn new(napi: Arc<Napi>, group: &Arc<Group>) -> Self {
        Self {
            napi,
            group: Arc::downgrade(group),
            seat: StateCell::new(Seat::FREE.bits()),
            own: Exclusive::new(Own::default()),
            run_before: Mutex::new(None),
            has_run: AtomicBool::new(false),
            turn_ended_ns: AtomicU64::new(0),
            idle: AtomicBool::new(false),
            backlog: AtomicU32::new(0),
            load_permille: AtomicU32::new(0),
            per_packet_ns: AtomicU64::new(0),
            last_cpu: AtomicU32::new(NOWHERE),
            moves: AtomicU64::new(0),
        }
    }

    /// The group runs the queue's discipline, and senders only push, for as long as one of its CPUs is always awake; else they
    /// run it themselves, for no thread would look at what they push.
    fn set_run(&self, always_awake: bool) {
        let mut before = self.run_before.lock().expect("no panic while held");
        let path = self.napi.tx_path();
        if always_awake && before.is_none() {
            *before = path.group_takes_run();
            self.has_run.store(before.is_some(), Ordering::Relaxed);
        } else if !always_awake && let Some(mode) = before.take() {
            self.has_run.store(false, Ordering::Relaxed);
            path.group_gives_run(mode);
        }
    }

    fn seat(&self) -> Seat {
        Seat::from_bits(self.seat.load())
    }

    /// Applies a rule to the seat.
    fn sit<R>(&self, mut rule: impl FnMut(Seat) -> (Seat, R)) -> R {
        self.seat.update(|bits| {
            let (next, answer) = rule(Seat::from_bits(bits));
            (next.bits(), answer)
        })
    }

    /// Applies a rule that may decline; false if it did.
    fn sit_if(&self, mut rule: impl FnMut(Seat) -> Option<Seat>) -> bool {
        self.sit(|seat| rule(seat).map_or((seat, false), |next| (next, true)))
    }
}

/// A CPU of a group, and its thread.
struct CpuPoller {
    cpu: GroupCpu,
    place: Place,
    word: StateCell,
    parker: Parker,
    /// The policy wants it to park.
    shall_park: AtomicBool,
    /// When it last came round.
    seen_ns: AtomicU64,
    /// Thread id of the operating system.
    pid: AtomicU32,
    /// It runs as `SCHED_FIFO`.
    fifo: AtomicBool,
    /// The system does not keep other threads from its CPU.
    shared: AtomicBool,
    parks: AtomicU64,
    vain_parks: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl CpuPoller {
    fn new(cpu: GroupCpu) -> Self {
        Self {
            cpu,
            place: place_of(cpu.0),
            word: StateCell::new(CpuWord::OFF.join().expect("it is off").bits().into()),
            parker: Parker::new(),
            shall_park: AtomicBool::new(false),
            seen_ns: AtomicU64::new(0),
            pid: AtomicU32::new(0),
            fifo: AtomicBool::new(false),
            shared: AtomicBool::new(true),
            parks: AtomicU64::new(0),
            vain_parks: AtomicU64::new(0),
            thread: Mutex::new(None),
        }
    }

    fn word(&self) -> CpuWord {
        CpuWord::from_bits(self.word.load() as u8)
    }

    /// Applies a rule to the word.
    fn change<R>(&self, mut rule: impl FnMut(CpuWord) -> (CpuWord, R)) -> R {
        self.word.update(|bits| {
            let (next, answer) = rule(CpuWord::from_bits(bits as u8));
            (next.bits().into(), answer)
        })
    }

    /// Applies a rule that may decline; false if it did.
    fn change_if(&self, mut rule: impl FnMut(CpuWord) -> Option<CpuWord>) -> bool {
        self.change(|word| rule(word).map_or((word, false), |next| (next, true)))
    }

    /// Something is there for it; false: it has left the group.
    fn wake(&self) -> bool {
        if sleeps(self) {
            // It counts as having come round now, not as silent since it went to sleep.
            self.seen_ns.store(Clock.now().ns, Ordering::Relaxed);
        }
        match self.change(CpuWord::wake) {
            Woken::Awake => true,
            Woken::Rouse => {
                self.parker.wake();
                true
            }
            Woken::Gone => false,
        }
    }
}

/// A group that runs.
pub(crate) struct Group {
    name: String,
    pollers: ArcSwap<Vec<Arc<CpuPoller>>>,
    members: ArcSwap<Vec<Arc<GroupMember>>>,
    turn: Mutex<Turn>,
    /// What is in force, for who looks: `turn` may be with a CPU that the host has stopped.
    settings: Mutex<Settings>,
    class: Mutex<GroupClass>,
    /// When the policy was last asked.
    decided_ns: AtomicU64,
    /// A CPU that has not come round for so long is taken for stopped ([`stall_ns`]).
    stall_ns: AtomicU64,
    stop: AtomicBool,
}

impl Group {
    fn poller(&self, cpu: GroupCpu) -> Option<Arc<CpuPoller>> {
        self.pollers.load().iter().find(|poller| poller.cpu == cpu).cloned()
    }

    /// A member has something to poll on this CPU, and that is written down. If the CPU has left meanwhile, another one gets it.
    fn wake(&self, member: &GroupMember, cpu: GroupCpu) {
        if self.poller(cpu).is_some_and(|poller| poller.wake()) {
            return;
        }
        for poller in self.pollers.load().iter().filter(|poller| !poller.word().is_going()) {
            let moved = member.sit(|seat| seat.move_to(poller.cpu).map_or((seat, false), |(next, _)| (next, true)));
            if !moved || poller.wake() {
                return;
            }
        }
    }

    /// The CPU that a member goes to gets it.
    fn move_member(&self, member: &GroupMember, to: GroupCpu) {
        let mut from = None;
        let awake = member.sit(|seat| {
            from = Some(seat.cpu());
            seat.move_to(to).map_or((seat, false), |(next, wake)| (next, wake))
        });
        if let Some(from) = from.filter(|from| *from != to) {
            member.last_cpu.store(from.0.into(), Ordering::Relaxed);
            member.moves.fetch_add(1, Ordering::Relaxed);
        }
        if awake {
            self.wake(member, to);
        }
    }

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

/// All groups of an engine.
pub(crate) struct GroupTable {
    /// The control path's, for a change as a whole, which may have to wait for a CPU: who polls and who looks does not take it.
    known: Mutex<Groups>,
    /// In the order of `known`.
    running: ArcSwap<Vec<Arc<Group>>>,
    /// What an instance is in its group, by its number.
    members: Box<[ArcSwapOption<GroupMember>]>,
    /// Members have dry runs while nothing comes.
    dry_runs: bool,
}

impl GroupTable {
    pub(super) fn new(dry_runs: bool) -> Self {
        let running = ArcSwap::default();
        let members = (0..NAPI_MAX).map(|_| ArcSwapOption::empty()).collect();
        Self { known: Mutex::default(), running, members, dry_runs }
    }

    fn member(&self, napi: &Napi) -> &ArcSwapOption<GroupMember> {
        &self.members[napi.index as usize]
    }

    /// The group that polls the instance: its name, the CPU that has it and that one's thread.
    pub(crate) fn of(&self, napi: &Napi) -> Option<GroupOfNapi> {
        let member = self.member(napi).load_full()?;
        let (group, cpu) = (member.group.upgrade()?, member.seat().cpu());
        let pid = group.poller(cpu).map_or(0, |poller| poller.pid.load(Ordering::Relaxed));
        Some(GroupOfNapi { name: group.name.clone(), cpu: cpu.0, pid })
    }
}

/// A group as an owner: it is given instances whose interrupt was armed.
pub(super) struct Grouped;

impl Owner for Grouped {
    fn take(&self, cx: Context, deliver: &Deliver, napi: &Napi) {
        let member = deliver.groups.member(napi).load_full().expect("an instance of a group is its member");
        // Whoever took it after a timer has not masked it.
        napi.mask();
        // A hold that the interrupt began would never end: a group completes nothing.
        let _ = napi.moderation.end();
        let cpu = member.sit(Seat::ready);
        if let Some(group) = member.group.upgrade() {
            group.first_turn(cx, deliver, &member, cpu);
            group.wake(&member, member.seat().cpu());
        }
    }
}

/// Asleep, until it is woken.
fn sleeps(poller: &CpuPoller) -> bool {
    poller.word().doing() == Doing::Asleep
}

/// How long a CPU may be silent before its members are taken over; never, under a policy that moves nothing.
const fn stall_ns(settings: &Settings) -> u64 {
    match settings.policy {
        Policy::Static => u64::MAX,
        Policy::Delay | Policy::Compact => settings.stall_after.ns,
    }
}

fn instant(ns: &AtomicU64) -> Instant {
    Instant::from_ns(ns.load(Ordering::Relaxed))
}

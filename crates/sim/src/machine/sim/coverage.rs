//! What happened at least once: events and decisions of the rules.

use napier_scenario::{Event, Kind};

macro_rules! decisions {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// A decision that the rules took, by the branch that was taken.
        #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
        #[expect(missing_docs, reason = "each has its text")]
        pub enum Decision { $($name),* }

        impl Decision {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// In words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

decisions! {
    PrepTook = "a schedule got the ownership",
    PrepMissed = "a schedule found an owner",
    ScheduleToThread = "scheduled to the thread",
    ScheduleToList = "scheduled to a poll list",
    TimerTook = "the timer got the ownership",
    TimerFoundOwner = "the timer found an owner or a pending disable",
    CompleteRefused = "a completion was refused",
    CompleteUnmask = "a completion unmasked",
    CompleteArm = "a completion deferred",
    CompleteArmUnmask = "a completion armed the timer for held packets and unmasked",
    CompleteReschedule = "a completion saw MISSED",
    SecondLook = "the look after an unmask found packets",
    Repoll = "a full poll is repeated",
    CompleteZero = "a full poll met a pending disable",
    HandToBusyPoller = "a full poll met a waiting busy poller",
    SoftirqAgain = "the softirq core made another pass",
    SoftirqDone = "the softirq core was done",
    SoftirqToKsoftirqd = "the softirq core left the rest to ksoftirqd",
    BusyLost = "a busy loop could not get the ownership",
    BusyPolled = "a busy loop polled",
    BusyYield = "a busy loop gave way",
    StopArm = "a busy-poll stop armed the timer",
    StopPoll = "a busy-poll stop polled once more",
    StopHandOver = "the last poll of a stop was full",
    Suspend = "interrupts were suspended",
    SuspendNothing = "a suspension without a time-out",
    Resume = "interrupts were resumed",
    ResumeNothing = "a resume without a time-out",
    BusyFoundEvents = "an event context's busy loop found events",
    BusyFoundNothing = "an event context's busy loop found nothing, without prefer",
    WaitEvents = "a wait returned events",
    WaitTimedOut = "a wait timed out",
    WaitSleeps = "a wait slept",
    ThreadTurn = "a thread polled as plain thread",
    ThreadBusyTurn = "a thread polled in busy-poll mode",
    StopThreadCleared = "a thread was taken off an instance",
    StopThreadBusy = "taking the thread off had to wait for another owner",
    DisableClaimed = "a disable claimed the instance",
    DisableWaits = "a disable waited for the owner",
    Added = "an instance was added",
    Deleted = "an instance was deleted",
    ThreadFailed = "a thread could not be created",
    TxPushFlush = "a push found the defer list empty",
    TxPushHanded = "a push found a flusher",
    TxPushMoved = "a push found that the list had moved",
    TxBurstDrop = "a push was over the burst limit",
    TxNotInstalled = "a sender found the discipline taken away",
    TxFlushDrop = "a flush dropped its batch",
    TxFlushBypass = "a flush passed by the discipline",
    TxFlushRun = "a flush queued its batch and ran the discipline",
    TxFlushRunning = "a flush queued its batch and left it to the runner",
    TxRootSpin = "a sender waited for a root lock",
    TxLockSpin = "a sender waited for a transmit lock",
    TxRunEmpty = "a run ended because nothing was left",
    TxRunStopped = "a run ended before a stopped queue",
    TxRunLater = "a run ended because nothing may leave yet",
    TxRunBusy = "a run ended because the driver was busy",
    TxRunQuota = "a run used up its quota",
    TxBusy = "a driver did not take a packet",
    TxRequeue = "packets went back to the front",
    TxScheduled = "a discipline was scheduled",
    TxScheduleAlready = "a schedule found the discipline scheduled",
    TxScheduleFlusher = "a schedule was left out for a flusher",
    TxScheduleDeactivated = "a schedule found the discipline taken away",
    TxSoftirqRunning = "the transmit softirq found a runner",
    TxWatchdog = "the timer of a discipline fired",
    TxStopDriver = "a driver stopped its queue",
    TxStopTakenBack = "a driver took its stop back",
    TxStopStack = "the byte limit stopped a queue",
    TxLimitTakenBack = "a stop by the byte limit was taken back",
    TxFrozen = "a queue was frozen",
    TxWake = "a queue was woken",
    TxWakeNothing = "a wake found nothing stopped",
    TxNolockBypass = "a packet passed by without root lock",
    TxNolockRecheck = "a sender became runner and found packets",
    TxNolockMissed = "a sender set MISSED",
    TxNolockGaveUp = "a sender left its packet to the runner",
    TxNolockLookAgain = "a runner without root lock looked again",
    TxNolockDraining = "a runner left DRAINING before a stopped queue",
    TxNolockWoken = "a runner found a stopped queue woken",
    TxNoqueueSent = "a packet was sent without discipline",
    TxNoqueueDrop = "a packet was dropped without discipline",
    TxActivated = "a discipline was given to its device",
    TxDeactivated = "a discipline was taken away",
    TxDeactivateWaits = "taking a discipline away had to wait",
    GroupAttached = "a group took an instance",
    GroupAttachWaits = "a group waited for the owner of an instance",
    GroupAttachDown = "a group took an instance of a device that is down",
    GroupTurn = "a CPU of a group polled a member",
    GroupGaveUp = "a group gave a member up for a disable",
    GroupGiven = "an event gave an armed member to its group",
    GroupParked = "a CPU of a group parked",
    GroupParkUndone = "a park of a CPU of a group was undone",
    GroupArmEvent = "the second look of a park found packets",
    GroupMoved = "a member moved to another CPU",
    GroupTookOver = "a sleeping CPU of a group took over from one that had stopped",
    GroupDetached = "a member left its group",
    GroupDetachedArmed = "an armed member left its group",
    GroupStepAside = "a CPU of a group let other threads run",
    GroupCpuLeft = "a CPU left its group",
}

const KINDS: usize = 37;

/// How often each event and decision occurred.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coverage {
    events: [u64; KINDS],
    decisions: [u64; Decision::ALL.len()],
}

impl Default for Coverage {
    fn default() -> Self {
        Self { events: [0; KINDS], decisions: [0; Decision::ALL.len()] }
    }
}

impl Coverage {
    #[inline]
    pub(crate) fn event(&mut self, event: &Event) {
        self.events[event.kind() as usize] += 1;
    }

    #[inline]
    pub(crate) fn decision(&mut self, decision: Decision) {
        self.decisions[decision as usize] += 1;
    }

    /// Occurrences of an event.
    #[must_use]
    pub fn of_event(&self, kind: Kind) -> u64 {
        self.events[kind as usize]
    }

    /// Occurrences of a decision.
    #[must_use]
    pub fn of_decision(&self, decision: Decision) -> u64 {
        self.decisions[decision as usize]
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &Self) {
        let pairs = self.events.iter_mut().zip(&other.events).chain(self.decisions.iter_mut().zip(&other.decisions));
        for (sum, count) in pairs {
            *sum += count;
        }
    }
}

//! Words of the file format for the enums of scenarios.

use super::{DropReason, Kind, Policy, Quirk, SocketKind, StopBy};

macro_rules! names {
    ($($name:ident: $($variant:ident = $word:literal),* $(,)?;)*) => {$(
        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The word for it in files and logs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// The one with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    )*};
}

names! {
    Kind:
        Poll = "poll", TimerStart = "timer-start", TimerFire = "timer-fire", TimerCancel = "timer-cancel",
        Mask = "mask", Unmask = "unmask", Complete = "complete", Schedule = "schedule", List = "list",
        Deliver = "deliver", Drop = "drop", Return = "return", Sleep = "sleep", Raise = "raise",
        Squeeze = "squeeze", RunEnd = "run-end", Ksoftirqd = "ksoftirqd", KthreadStart = "kthread-start",
        KthreadStop = "kthread-stop", CheckFailed = "check-failed", Xmit = "xmit", Push = "push", Flush = "flush",
        TxRun = "tx-run", TxRunEnd = "tx-run-end", Transmit = "transmit", Requeue = "requeue",
        TxSchedule = "tx-schedule", TxDrop = "tx-drop", TxStop = "tx-stop", TxWake = "tx-wake",
        TxComplete = "tx-complete", WatchdogStart = "watchdog-start", WatchdogFire = "watchdog-fire",
        GroupPark = "group-park", GroupWake = "group-wake", GroupMove = "group-move";
    DropReason:
        RingFull = "ring-full", DeviceDown = "device-down", NoQueue = "no-queue", SocketFull = "socket-full",
        NoSocket = "no-socket", Disabled = "disabled";
    Policy: Fair = "fair", Fifo = "fifo";
    Quirk: None = "none", NeverCompletes = "never-completes", AlwaysFull = "always-full";
    StopBy: Driver = "driver", Stack = "stack", Frozen = "frozen";
    SocketKind: Udp = "udp", Tcp = "tcp", TcpListener = "tcp-listener";
}

impl Kind {
    /// Those that are compared unless a file says otherwise.
    pub const WATCHED_BY_DEFAULT: &[Self] = &[
        Self::Poll,
        Self::TimerStart,
        Self::TimerFire,
        Self::TimerCancel,
        Self::Mask,
        Self::Unmask,
        Self::Deliver,
        Self::Return,
    ];

    /// The kinds that a word in `watch` stands for: `timer` is all three timer events. A failed check cannot be
    /// watched or not: it is a failure always.
    #[must_use]
    pub fn watch_word(word: &str) -> Option<Vec<Self>> {
        match word {
            "timer" => Some(vec![Self::TimerStart, Self::TimerFire, Self::TimerCancel]),
            _ => Self::from_name(word).filter(|kind| *kind != Self::CheckFailed).map(|kind| vec![kind]),
        }
    }
}

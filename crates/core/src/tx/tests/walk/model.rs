//! The world of the walk: what is shared, and who takes which steps.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use napier_testkit::explore::{self, Step};

use super::runner::Ran;
use crate::time::Instant;
use crate::tx::flush::flush;
use crate::tx::push::{Push, PushStep, Pushed};
use crate::tx::qdisc::{Fifo, Qdisc};
use crate::tx::queue::QueueBits;
use crate::tx::root::Root;
use crate::tx::run::{TxRun, TxStep};
use crate::tx::softirq::OutputQueue;
use crate::tx::state::{DeactivateStep, Deactivation, QdiscState};
use crate::tx::tests::Outcome;
use crate::tx::tests::packet::Packet;
use crate::tx::{DropReason, XmitCode};

pub(super) const NOW: Instant = Instant::ZERO;

/// A deliberate mistake.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    Nothing,
    /// Scheduling is suppressed while the defer count is not 0, rather than the list not empty.
    SuppressedByCount,
    /// Scheduling is suppressed while somebody runs the discipline.
    SuppressedByRunner,
    /// The wake looks at the defer list before it clears the stop bit.
    LookBeforeWake,
    SilentWake,
    UnscheduleAfterRun,
    RequeueAtTail,
    NotReversed,
    SingleReset,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Control {
    None,
    Down,
    DownAndUp,
}

pub(super) struct Config {
    /// Per sender.
    pub(super) packets: &'static [u32],
    pub(super) max_burst: i32,
    pub(super) limit: usize,
    /// Packets that the device holds before it stops.
    pub(super) room: u8,
    pub(super) bulk_bytes: i32,
    pub(super) quota: u32,
    /// How often the driver may be busy without having stopped.
    pub(super) busys: u8,
    pub(super) control: Control,
    pub(super) wrong: Wrong,
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
enum Fate {
    Unsent,
    OnItsWay,
    Sent,
    Dropped(DropReason),
}

/// A request to schedule: first a look at the defer list, then the swap of the word.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Sched {
    Look,
    Swap { defer_empty: bool },
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Running {
    pub(super) run: TxRun<Packet>,
    /// Of the end.
    pub(super) sched: Sched,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Sender {
    Idle,
    /// With the head that it saw.
    Pushing(Push, Packet, Option<Packet>),
    /// On the list as the first, waiting for the root lock.
    Flushing,
    /// Holds the root lock and the batch; the count is still to be set to 0.
    Taken(Vec<Packet>),
    Running(Running),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Softirq {
    Idle,
    Locking,
    Running(Running),
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Device {
    Idle,
    /// Its ring has room again.
    Waking {
        looked: Option<bool>,
    },
    Scheduling(Sched),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Controller {
    Up,
    Deactivating(Deactivation),
    Down,
    Scheduling(Sched),
    Over,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct World {
    pub(super) senders: Vec<Sender>,
    pub(super) softirq: Softirq,
    pub(super) device: Device,
    pub(super) controller: Controller,
    /// The last is the head.
    pub(super) defer: Vec<Packet>,
    pub(super) count: u64,
    pub(super) state: QdiscState,
    pub(super) root: Root<Packet>,
    /// Somebody holds the root lock.
    pub(super) locked: bool,
    pub(super) output: OutputQueue<()>,
    pub(super) bits: QueueBits,
    pub(super) in_ring: u8,
    pub(super) busys: u8,
    /// Per sender, per packet.
    fates: Vec<Vec<Fate>>,
}

impl World {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            senders: vec![Sender::Idle; config.packets.len()],
            softirq: Softirq::Idle,
            device: Device::Idle,
            controller: if config.control == Control::None { Controller::Over } else { Controller::Up },
            defer: Vec::new(),
            count: 0,
            state: QdiscState::EMPTY,
            root: Root::new(Qdisc::Fifo(Fifo::new(config.limit)), true),
            locked: false,
            output: OutputQueue::new(),
            bits: QueueBits::EMPTY,
            in_ring: 0,
            busys: config.busys,
            fates: config.packets.iter().map(|pkts| vec![Fate::Unsent; *pkts as usize]).collect(),
        }
    }

    fn may_be_busy(&self, sender: &Sender) -> bool {
        matches!(sender, Sender::Running(running) if matches!(running.run.next(), TxStep::Offer { .. }))
            && self.busys > 0
    }

    /// False if the sender has to wait, or is done.
    fn step_sender(&mut self, config: &Config, at: usize, busy: bool) -> Outcome<bool> {
        let sender = core::mem::replace(&mut self.senders[at], Sender::Idle);
        self.senders[at] = match sender {
            Sender::Idle => {
                let Some(number) = self.fates[at].iter().position(|fate| *fate == Fate::Unsent) else {
                    return Ok(false);
                };
                let packet = Packet::new(at as u32, number as u32);
                self.fates[at][number] = Fate::OnItsWay;
                // While it is deactivated, senders find the discipline that drops everything.
                match self.controller {
                    Controller::Deactivating(ref deactivation) if deactivation.next() != DeactivateStep::Mark => {
                        self.dropped(&packet, DropReason::Deactivated)?;
                        Sender::Idle
                    }
                    Controller::Down => {
                        self.dropped(&packet, DropReason::Deactivated)?;
                        Sender::Idle
                    }
                    _ if config.control == Control::Down && self.controller == Controller::Over => {
                        self.dropped(&packet, DropReason::Deactivated)?;
                        Sender::Idle
                    }
                    _ => Sender::Pushing(Push::new(self.defer.is_empty()), packet, self.defer.last().copied()),
                }
            }
            Sender::Pushing(push, packet, seen) => self.step_push(config, push, packet, seen)?,
            Sender::Flushing if self.locked => return Ok(false),
            Sender::Flushing => {
                self.locked = true;
                let mut batch = core::mem::take(&mut self.defer);
                if config.wrong == Wrong::NotReversed {
                    batch.reverse();
                }
                Sender::Taken(batch)
            }
            Sender::Taken(batch) => self.step_flush(config, batch)?,
            Sender::Running(running) => match self.step_run(config, running, busy)? {
                Ran::Waits => return Ok(false),
                Ran::On(running) => Sender::Running(running),
                Ran::Over => Sender::Idle,
            },
        };
        Ok(true)
    }

    fn step_push(
        &mut self,
        config: &Config,
        mut push: Push,
        packet: Packet,
        mut seen: Option<Packet>,
    ) -> Outcome<Sender> {
        match push.next() {
            PushStep::Count => {
                self.count += 1;
                push.on_counted(self.count, config.max_burst);
            }
            PushStep::Link => {
                let head = self.defer.last().copied();
                if head == seen {
                    self.defer.push(packet);
                    push.on_linked();
                } else {
                    seen = head;
                    push.on_moved(head.is_none());
                }
            }
            PushStep::Done(Pushed::Flush | Pushed::Handed) => return Err("a push goes on after its end"),
            PushStep::Done(Pushed::BurstDrop) => {
                self.dropped(&packet, DropReason::Burst)?;
                return Ok(Sender::Idle);
            }
        }
        // The end of a push is no step of its own: what the others see is the list.
        match push.next() {
            PushStep::Done(Pushed::Flush) => Ok(Sender::Flushing),
            PushStep::Done(Pushed::Handed) => Ok(Sender::Idle),
            PushStep::Done(Pushed::BurstDrop) | PushStep::Count | PushStep::Link => {
                Ok(Sender::Pushing(push, packet, seen))
            }
        }
    }

    fn step_flush(&mut self, config: &Config, batch: Vec<Packet>) -> Outcome<Sender> {
        self.count = 0;
        let own = batch[0];
        let mut drops = Vec::new();
        let flushed = flush(&mut self.root, self.state, batch, NOW, config.quota, &mut |drop| drops.push(drop));
        for drop in drops {
            self.dropped(&drop.packet, drop.reason)?;
        }
        let fate = self.fates[own.flow as usize][own.number as usize];
        if (flushed.own == XmitCode::Success) != (fate == Fate::OnItsWay) {
            return Err("the flusher is told something else than what came of its packet");
        }
        Ok(match flushed.run {
            Some(run) => Sender::Running(Running { run, sched: Sched::Look }),
            None => {
                self.locked = false;
                Sender::Idle
            }
        })
    }

    pub(super) fn sent(&mut self, packet: &Packet) -> Outcome<()> {
        let fates = &mut self.fates[packet.flow as usize];
        let number = packet.number as usize;
        if fates[number + 1..].contains(&Fate::Sent) {
            return Err("out of order");
        }
        match core::mem::replace(&mut fates[number], Fate::Sent) {
            Fate::OnItsWay => Ok(()),
            Fate::Unsent | Fate::Sent | Fate::Dropped(_) => Err("sent twice, or after it was dropped"),
        }
    }

    pub(super) fn dropped(&mut self, packet: &Packet, reason: DropReason) -> Outcome<()> {
        let fate = &mut self.fates[packet.flow as usize][packet.number as usize];
        match core::mem::replace(fate, Fate::Dropped(reason)) {
            Fate::OnItsWay => Ok(()),
            Fate::Unsent | Fate::Sent | Fate::Dropped(_) => Err("dropped twice, or after it was sent"),
        }
    }
}

impl explore::World for World {
    type Config = Config;
    type Rule = &'static str;

    fn steps(&self, config: &Config, steps: &mut Vec<Step<Self>>) {
        for at in 0..self.senders.len() {
            self.step(steps, format!("sender {at}"), |world| world.step_sender(config, at, false));
            if self.may_be_busy(&self.senders[at]) {
                self.step(steps, format!("sender {at}, busy"), |world| world.step_sender(config, at, true));
            }
        }
        self.step(steps, "softirq", |world| world.step_softirq(config, false));
        if let Softirq::Running(running) = &self.softirq
            && matches!(running.run.next(), TxStep::Offer { .. })
            && self.busys > 0
        {
            self.step(steps, "softirq, busy", |world| world.step_softirq(config, true));
        }
        self.step(steps, "device", |world| world.step_device(config));
        self.step(steps, "controller", |world| world.step_controller(config));
    }

    fn check(&self, _: &Config) -> Outcome<()> {
        let flushers = self.senders.iter().filter(|sender| matches!(sender, Sender::Flushing)).count();
        if flushers > 1 {
            return Err("two flushers");
        }
        if self.defer.is_empty() != (flushers == 0) {
            return Err("a list without flusher, or the other way round");
        }
        let runners = self.senders.iter().filter(|sender| matches!(sender, Sender::Running(_))).count()
            + usize::from(matches!(self.softirq, Softirq::Running(_)));
        if runners != usize::from(self.root.is_running()) {
            return Err("not exactly one runner");
        }
        let scheduled = self.output.iter().count() + usize::from(matches!(self.softirq, Softirq::Locking));
        if scheduled > 1 {
            return Err("scheduled twice");
        }
        let counted = self.root.stats().drops.total();
        let dropped = self.fates.iter().flatten();
        let dropped = dropped.filter(|fate| matches!(fate, Fate::Dropped(reason) if *reason != DropReason::Burst));
        // Packets that never met the discipline are dropped by its substitute.
        if counted > dropped.count() as u64 { Err("a drop is counted that was none") } else { Ok(()) }
    }

    fn check_end(&self) -> Outcome<()> {
        if self.locked || self.senders.iter().any(|sender| *sender != Sender::Idle) || self.root.is_running() {
            return Err("somebody hangs");
        }
        if self.fates.iter().flatten().any(|fate| !matches!(fate, Fate::Sent | Fate::Dropped(_))) {
            return Err("a packet is stranded");
        }
        if self.root.qlen() != 0 || self.root.backlog_bytes() != 0 {
            return Err("packets are counted that do not wait");
        }
        Ok(())
    }
}

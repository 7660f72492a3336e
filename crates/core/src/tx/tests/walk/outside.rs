//! The world of the walk, seen from outside the transmit path: a device whose ring empties, and a controller.

use alloc::vec::Vec;

use super::model::{Config, Control, Controller, Device, Sched, Sender, World, Wrong};
use crate::tx::queue::QueueBits;
use crate::tx::state::{DeactivateStep, Deactivation, QdiscState};
use crate::tx::tests::Outcome;

impl World {
    pub(super) fn step_device(&mut self, config: &Config) -> Outcome<bool> {
        self.device = match self.device {
            Device::Idle if self.in_ring == 0 => return Ok(false),
            Device::Idle => {
                self.in_ring = 0;
                if self.bits.intersects(QueueBits::DRIVER_OFF) { Device::Waking { looked: None } } else { Device::Idle }
            }
            Device::Waking { looked: None } if config.wrong == Wrong::LookBeforeWake => {
                Device::Waking { looked: Some(self.defer.is_empty()) }
            }
            Device::Waking { looked } => {
                let (bits, schedule) = self.bits.wake_driver();
                self.bits = bits;
                match (schedule && config.wrong != Wrong::SilentWake, looked) {
                    (false, _) => Device::Idle,
                    (true, None) => Device::Scheduling(Sched::Look),
                    (true, Some(defer_empty)) => Device::Scheduling(Sched::Swap { defer_empty }),
                }
            }
            Device::Scheduling(sched) => match self.step_sched(config, sched) {
                Sched::Done => Device::Idle,
                sched @ (Sched::Look | Sched::Swap { .. }) => Device::Scheduling(sched),
            },
        };
        Ok(true)
    }

    pub(super) fn step_controller(&mut self, config: &Config) -> Outcome<bool> {
        self.controller = match self.controller.clone() {
            Controller::Up => Controller::Deactivating(Deactivation::new()),
            Controller::Deactivating(deactivation) => match self.step_deactivate(config, deactivation)? {
                Some(controller) => controller,
                None => return Ok(false),
            },
            Controller::Down if config.control == Control::Down => Controller::Over,
            Controller::Down => {
                self.state = self.state.activate();
                if self.root.qlen() == 0 { Controller::Over } else { Controller::Scheduling(Sched::Look) }
            }
            Controller::Scheduling(sched) => match self.step_sched(config, sched) {
                Sched::Done => Controller::Over,
                sched @ (Sched::Look | Sched::Swap { .. }) => Controller::Scheduling(sched),
            },
            Controller::Over => return Ok(false),
        };
        Ok(true)
    }

    /// `None`: it has to wait.
    fn step_deactivate(&mut self, config: &Config, mut deactivation: Deactivation) -> Outcome<Option<Controller>> {
        match deactivation.next() {
            DeactivateStep::Mark => self.state = self.state.deactivate(),
            DeactivateStep::WaitForSenders if self.senders.iter().any(|sender| *sender != Sender::Idle) => {
                return Ok(None);
            }
            DeactivateStep::WaitForSenders => {}
            DeactivateStep::Reset if self.locked => return Ok(None),
            DeactivateStep::Reset => {
                let mut drops = Vec::new();
                self.root.reset(&mut |drop| drops.push(drop));
                for drop in drops {
                    self.dropped(&drop.packet, drop.reason)?;
                }
            }
            DeactivateStep::WaitForRunner
                if self.root.is_running() || self.state.intersects(QdiscState::SCHED) || self.locked =>
            {
                return Ok(None);
            }
            DeactivateStep::WaitForRunner if config.wrong == Wrong::SingleReset => {
                return Ok(Some(Controller::Down));
            }
            DeactivateStep::WaitForRunner => {}
            DeactivateStep::Done => return Ok(Some(Controller::Down)),
        }
        deactivation.on_done();
        Ok(Some(Controller::Deactivating(deactivation)))
    }
}

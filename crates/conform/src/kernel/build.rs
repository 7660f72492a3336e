//! From a scenario to interfaces, sockets and event contexts that are at rest, as its machine is at time zero.

use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use napier_core::control::{DevAttribute, ThreadedSetting};
use napier_core::sockopt::BusyOption;
use napier_linux::{EndConfig, Netns, Veth, VethConfig};
use napier_scenario::{Device, DeviceIx, Scenario, Socket};
use rustix::event::epoll;

use super::addresses::{addr, device_ix, mac};
use super::knobs::Knobs;
use super::napi;
use super::rig::KernelRig;
use super::sysfs::Sysfs;
use super::wire::VethWire;
use crate::Refused;
use crate::real::{failed, refused};

impl<'s> KernelRig<'s> {
    /// Builds it; at its return everything is quiet and set as the scenario says. `names` are those of the interfaces.
    pub(super) fn build(
        scenario: &'s Scenario,
        cpus: Vec<usize>,
        names: &[String],
    ) -> Result<(Self, VethWire), Refused> {
        let machine = &scenario.machine;
        let home = Netns::current().map_err(|error| failed("naming a namespace", error))?;
        let mut rig = KernelRig {
            scenario,
            cpus,
            pairs: Vec::new(),
            sysfs: Vec::new(),
            ids: (0..machine.napis()).map(|_| AtomicU64::new(0)).collect(),
            sockets: machine.sockets.iter().map(|_| Mutex::new(None)).collect(),
            epolls: machine.epolls.iter().map(|_| Mutex::new(None)).collect(),
            knobs: Knobs::begin(scenario, home)?,
        };
        for (position, device) in machine.devices.iter().enumerate() {
            rig.add_device(position, device, &names[position])?;
        }
        for device in (0..machine.devices.len()).map(device_ix) {
            rig.learn_ids(device)?;
        }
        let wire = VethWire::build(&rig)?;
        for (position, socket) in machine.sockets.iter().enumerate() {
            if socket.open {
                rig.open_socket(position)?;
                if socket.primed {
                    wire.prime(&rig, position)?;
                }
                if socket.connected {
                    rig.connect(position, &wire)?;
                }
                rig.set_options(position, socket)?;
            }
        }
        for (position, device) in machine.devices.iter().enumerate() {
            rig.set_device(device_ix(position), device)?;
        }
        rig.make_contexts()?;
        Ok((rig, wire))
    }

    fn add_device(&mut self, position: usize, device: &Device, name: &str) -> Result<(), Refused> {
        let end = |name: &str, end| EndConfig::new(name, mac(position, end)).address(addr(position, end).into(), 24);
        let config = VethConfig {
            queues: device.queues,
            gro: true,
            tso: false,
            ..VethConfig::new(end(&format!("{name}p"), 2), end(name, 1))
        };
        let pair = Veth::new(&config).map_err(|error| failed("making a pair of interfaces", error))?;
        let known = pair
            .left()
            .add_neighbour(addr(position, 1).into(), mac(position, 1))
            .and_then(|()| pair.right().add_neighbour(addr(position, 2).into(), mac(position, 2)));
        known.map_err(|error| failed("adding a neighbour", error))?;
        let sysfs =
            pair.right().netns().run(|| Sysfs::of(name)).map_err(|error| failed("entering a namespace", error))?;
        self.sysfs.push(sysfs.map_err(|error| failed("showing the files of an interface", error))?);
        self.pairs.push(pair);
        Ok(())
    }

    fn connect(&self, position: usize, wire: &VethWire) -> Result<(), Refused> {
        let socket = self.socket(position).expect("it was opened a moment ago");
        let connected = wire.source_of(position).and_then(|source| socket.connect(source));
        connected.map_err(|error| failed("connecting a socket", error))
    }

    fn set_options(&self, position: usize, described: &Socket) -> Result<(), Refused> {
        let Some(socket) = self.socket(position) else { return Ok(()) };
        let options = [
            (BusyOption::BusyPoll, i32::try_from(described.busy.busy_poll_usecs).unwrap_or(i32::MAX)),
            (BusyOption::PreferBusyPoll, described.busy.prefer.into()),
            (BusyOption::BusyPollBudget, described.busy.budget.into()),
        ];
        for (option, value) in options {
            let set = napier_linux::socket::set(socket.as_fd(), option, value);
            set.map_err(|error| failed("setting an option", error))?;
        }
        Ok(())
    }

    fn set_device(&self, position: DeviceIx, device: &Device) -> Result<(), Refused> {
        let tunables = device.tunables;
        let write = |file: DevAttribute, value: u64| {
            let written = if value == 0 { Ok(()) } else { self.sysfs(position).write(file, &value.to_string()) };
            written.map_err(|error| failed(&format!("setting {}", file.file_name()), error))
        };
        write(DevAttribute::NapiDeferHardIrqs, tunables.defer_hard_irqs.into())?;
        write(DevAttribute::GroFlushTimeout, tunables.gro_flush_timeout.ns)?;
        let threaded = matches!(device.threaded, ThreadedSetting::Enabled | ThreadedSetting::BusyPoll);
        write(DevAttribute::Threaded, threaded.into())?;
        let set = |id, name: &str, value| {
            let set = self.end(position).netns().run(|| napi::set_napi(id, name, value));
            let set = set.map_err(|error| failed("entering a namespace", error))?;
            set.map_err(|error| failed(&format!("setting {name} of an instance"), error))
        };
        for queue in 0..device.queues {
            let id = self.id(self.scenario.machine.napi(position, queue));
            if !tunables.irq_suspend_timeout.is_zero() {
                set(id, "irq-suspend-timeout", tunables.irq_suspend_timeout.ns)?;
            }
            if device.threaded == ThreadedSetting::BusyPoll {
                set(id, "threaded", 2)?;
            }
            self.place_thread(position, device, queue, device.threaded == ThreadedSetting::BusyPoll);
        }
        Ok(())
    }

    fn make_contexts(&self) -> Result<(), Refused> {
        for (position, described) in self.scenario.machine.epolls.iter().enumerate() {
            let made = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| failed("making an epoll", error))?;
            napier_linux::epoll::set_params(&made, described.params)
                .map_err(|error| failed("setting the parameters of an epoll", error))?;
            for member in &described.members {
                let socket = self.socket(member.at()).ok_or_else(|| refused("an event context has a closed member"))?;
                let data = epoll::EventData::new_u64(member.0.into());
                epoll::add(&made, &*socket, data, epoll::EventFlags::IN)
                    .map_err(|error| failed("adding to an epoll", error))?;
            }
            *self.epolls[position].lock().expect("no panic while held") = Some(Arc::new(made));
        }
        Ok(())
    }
}

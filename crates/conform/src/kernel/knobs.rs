//! Knobs of the whole machine that a scenario turns: noted in the journal of this machine before, put back after.

use std::io;
use std::sync::Mutex;

use napier_linux::Netns;
use napier_linux::change::{Entry, Journal, Keep, Key, Scope, undo};
use napier_scenario::{Action, Call, Scenario};

use crate::Refused;
use crate::real::refused;

/// Those that a scenario may turn: they change what programs that poll for packets do, and no others.
pub(super) const TURNED: [&str; 2] = ["busy_read", "busy_poll"];

/// What was turned. It is put back when this is dropped, and by the next run if this one is killed.
pub(super) struct Knobs {
    /// These are shown in the first namespace of the machine only.
    home: Netns,
    open: Mutex<Option<Journal>>,
    entries: Mutex<Vec<Entry>>,
}

impl Knobs {
    /// Begins the journal if the scenario turns any.
    ///
    /// # Errors
    /// Another run has changed the machine, or no journal can be kept.
    pub(super) fn begin(scenario: &Scenario, home: Netns) -> Result<Self, Refused> {
        let calls = scenario.timeline.iter().filter(|step| {
            matches!(&step.action, Action::Call { call: Call::Sysctl { name, .. }, .. } if TURNED.contains(&name.as_str()))
        });
        let sysctl = scenario.machine.sysctl;
        let lines = calls.count() + usize::from(sysctl.busy_read != 0) + usize::from(sysctl.busy_poll != 0);
        let journal = match lines {
            0 => None,
            _ => Some(
                Journal::begin(&Scope::Host, Keep::Run, lines, &mut |_| ())
                    .map_err(|error| refused(error.to_string()))?,
            ),
        };
        let knobs = Self { home, open: Mutex::new(journal), entries: Mutex::default() };
        for (name, value) in [("busy_read", sysctl.busy_read), ("busy_poll", sysctl.busy_poll)] {
            if value != 0 {
                let set = knobs.set(name, value.into())?;
                set.map_err(|error| refused(format!("setting net.core.{name} failed: {error}")))?;
            }
        }
        Ok(knobs)
    }

    /// Turns one; the inner error is the kernel's.
    ///
    /// # Errors
    /// It cannot be noted, or read.
    pub(super) fn set(&self, name: &str, value: i64) -> Result<io::Result<()>, Refused> {
        let mut open = self.open.lock().expect("no panic while held");
        let journal = open.as_mut().ok_or_else(|| refused(format!("net.core.{name} is not turned by a scenario")))?;
        let (key, value) = (Key::sysctl(format!("net.core.{name}")), value.to_string());
        let done = self.home.run(|| {
            let before = key.read().map_err(|error| refused(format!("reading net.core.{name}: {error}")))?;
            let entry = Entry { key: key.clone(), before, after: value.clone(), or: None };
            journal.note(&entry).map_err(|error| refused(error.to_string()))?;
            self.entries.lock().expect("no panic while held").push(entry);
            // Not by the key: its words for a refusal are not the kernel's number.
            Ok(std::fs::write(format!("/proc/sys/net/core/{name}"), format!("{value}\n")))
        });
        done.map_err(|error| refused(error.to_string()))?
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        let entries = std::mem::take(&mut *self.entries.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        let Some(journal) = self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() else { return };
        match self.home.run(|| undo(&entries)) {
            Ok(undone) if !undone.is_refused => journal.close(),
            // The next run tries again.
            _ => journal.keep(),
        }
    }
}

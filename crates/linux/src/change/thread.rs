//! Where a thread may run, and how it is scheduled, as values of the list. For the threads of NAPI instances.

use std::fmt;
use std::io;

use rustix::process::Pid;
use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};

use crate::procfs::{Stat, cpus_allowed};
use crate::setting::{KeyError, Setting, text};
use crate::sys::sched::{self, Class};

/// What of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadSetting {
    /// The CPUs that it may run on, as a list: `0-2,5`.
    Affinity,
    /// Class and priority: `other`, `fifo 50`.
    Scheduling,
}

/// A setting of one thread. A thread that has its number later is another one, and not touched.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct ThreadKey {
    /// Its number.
    pub tid: u32,
    /// When it was started, in ticks since the start of the kernel (`/proc/PID/stat`).
    pub started: u64,
    /// Its name when it was found.
    pub name: String,
    /// What of it.
    pub setting: ThreadSetting,
}

/// CPUs of a thread.
pub(crate) fn cpus(tid: u32) -> io::Result<Vec<u32>> {
    Ok(cpus_allowed(tid)?.as_deref().and_then(text::cpu_list).unwrap_or_default())
}

impl ThreadKey {
    /// A setting of the thread that has this number now.
    ///
    /// # Errors
    /// There is none.
    pub fn of(tid: u32, setting: ThreadSetting) -> io::Result<Self> {
        let Stat { name, started, .. } = Stat::of(tid)?;
        Ok(Self { tid, started, name, setting })
    }

    fn thread(&self) -> Result<Stat, KeyError> {
        Stat::of(self.tid).ok().filter(|found| found.started == self.started).ok_or_else(|| self.gone())
    }

    fn gone(&self) -> KeyError {
        KeyError::Gone(format!("thread {} ({}) has ended", self.tid, self.name))
    }
}

impl Setting for ThreadKey {
    fn read(&self) -> Result<Option<String>, KeyError> {
        let found = self.thread()?;
        Ok(Some(match self.setting {
            ThreadSetting::Affinity => text::cpu_list_text(&cpus(self.tid).map_err(|_| self.gone())?),
            ThreadSetting::Scheduling => Class::from_number(found.policy).with(found.priority),
        }))
    }

    fn write(&self, value: &str) -> Result<(), KeyError> {
        self.thread()?;
        let pid = i32::try_from(self.tid).ok().and_then(Pid::from_raw).ok_or_else(|| self.gone())?;
        let wrong = |what| KeyError::Value { value: value.to_owned(), what };
        let done = match self.setting {
            ThreadSetting::Affinity => {
                let list = text::cpu_list(value).filter(|list| !list.is_empty());
                let list = list.ok_or_else(|| wrong("an affinity, which is a list of CPUs"))?;
                let mut set = CpuSet::new();
                for cpu in list {
                    let cpu = cpu as usize;
                    // More than a mask of the C library has.
                    if cpu >= CpuSet::MAX_CPU {
                        return Err(wrong("an affinity of at most 1024 CPUs"));
                    }
                    set.set(cpu);
                }
                rustix::thread::sched_setaffinity(Some(pid), &set).map_err(io::Error::from)
            }
            ThreadSetting::Scheduling => {
                let (class, priority) =
                    Class::parse(value).ok_or_else(|| wrong("a class: other, batch, idle, fifo N or rr N"))?;
                sched::set(pid, class, priority)
            }
        };
        done.map_err(|error| match error.raw_os_error() {
            Some(libc::ESRCH) => self.gone(),
            Some(libc::EPERM) => KeyError::Denied("CAP_SYS_NICE"),
            Some(libc::EINVAL) => KeyError::Refused(format!("thread {} does not take `{value}`: {error}", self.tid)),
            _ => KeyError::Io(error),
        })
    }

    fn command(&self, value: &str) -> Option<String> {
        Some(match self.setting {
            ThreadSetting::Affinity => format!("taskset -pc {value} {}", self.tid),
            ThreadSetting::Scheduling => {
                let (class, priority) = value.split_once(' ').unwrap_or((value, "0"));
                format!("chrt --{class} -p {priority} {}", self.tid)
            }
        })
    }

    fn same(&self, one: &str, other: &str) -> bool {
        text::same_cpu_list(one, other)
    }

    fn may_cut_off(&self) -> bool {
        true
    }
}

impl fmt::Display for ThreadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.setting {
            ThreadSetting::Affinity => "affinity",
            ThreadSetting::Scheduling => "scheduling",
        };
        write!(f, "{what} of thread {} ({})", self.tid, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_thread_reads_as_it_is_and_another_one_is_gone() {
        let tid = std::process::id();
        let key = ThreadKey::of(tid, ThreadSetting::Affinity).expect("it is there");
        let before = key.read().expect("read").expect("told");
        assert!(key.write(&before).is_ok());
        assert!(key.write("").is_err() && key.write("4096").is_err());
        let other = ThreadKey { started: key.started + 1, ..key };
        assert!(matches!(other.read(), Err(KeyError::Gone(_))));
    }
}

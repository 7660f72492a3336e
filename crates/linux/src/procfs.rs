//! What `/proc` says of a process or a thread, read in one way. Source: `proc_pid_stat(5)`, `proc_pid_status(5)`.

use std::{fs, io};

/// `/proc/PID/stat`, as far as it is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stat {
    pub(crate) name: String,
    pub(crate) parent: u32,
    /// Ticks on a CPU outside of the kernel, with those of threads that have ended.
    pub(crate) user: u64,
    /// The same within it.
    pub(crate) system: u64,
    pub(crate) nice: i32,
    /// In ticks since the start of the kernel.
    pub(crate) started: u64,
    pub(crate) last_cpu: u32,
    /// Within a real-time class.
    pub(crate) priority: u32,
    /// Class, `include/uapi/linux/sched.h SCHED_*`.
    pub(crate) policy: u32,
}

impl Stat {
    /// Of the process or thread that has this number now.
    ///
    /// # Errors
    /// There is none; [`io::ErrorKind::InvalidData`] for a line that cannot be read.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let path = format!("/proc/{pid}/stat");
        // A name may be any bytes.
        let line = fs::read(&path)?;
        Self::parse(&String::from_utf8_lossy(&line)).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, path))
    }

    /// A line; `None` for what is none.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        // A name may have blanks and parentheses in it.
        let (open, close) = (line.find('(')?, line.rfind(')')?);
        let name = line.get(open + 1..close)?.to_owned();
        // The first behind the name is field 3.
        let fields: Vec<&str> = line.get(close + 1..)?.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let small = |number| field(number)?.parse().ok();
        Some(Self {
            name,
            parent: small(4)?,
            user: field(14)?.parse().ok()?,
            system: field(15)?.parse().ok()?,
            nice: field(19)?.parse().ok()?,
            started: field(22)?.parse().ok()?,
            last_cpu: small(39)?,
            priority: small(40)?,
            policy: small(41)?,
        })
    }
}

/// CPUs that a thread may run on, as the kernel writes the list; `None` where it does not.
///
/// # Errors
/// There is no such thread.
pub(crate) fn cpus_allowed(tid: u32) -> io::Result<Option<String>> {
    let status = fs::read(format!("/proc/{tid}/status"))?;
    let status = String::from_utf8_lossy(&status);
    Ok(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned()))
}

/// A line of `schedstat`: ns on a CPU, ns of waiting for one, times on one. Source: `Documentation/scheduler/sched-stats.rst`.
pub(crate) fn schedstat(line: &str) -> Option<[u64; 3]> {
    let mut words = line.split_whitespace().map(|word| word.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_anything_in_it() {
        let tail = "S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0 18446744073709551615 0 0 0 0 0 0 0 \
                    2147483647 0 0 0 0 17 1 50 1 0 0 0";
        let found = Stat::parse(&format!("12 (a) b (c)) {tail}")).expect("a line");
        let Stat { name, started, last_cpu, priority, policy, .. } = found;
        assert_eq!((name.as_str(), started, last_cpu, priority, policy), ("a) b (c)", 77, 1, 50, 1));
        assert_eq!(Stat::parse("12 (short) S 2"), None);
    }

    #[test]
    fn a_line_of_each_field_is_read() {
        let numbers: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let line = format!("77 (napi/eth(0)-8 x) S {}", numbers.join(" "));
        let stat = Stat::parse(&line).expect("a line");
        assert_eq!((stat.name.as_str(), stat.parent, stat.nice, stat.started), ("napi/eth(0)-8 x", 4, 19, 22));
        assert_eq!((stat.last_cpu, stat.priority, stat.policy), (39, 40, 41));
        assert_eq!((stat.user, stat.system), (14, 15));
        assert!(["", "77 (x) S 1", "no line"].iter().all(|line| Stat::parse(line).is_none()));
        let own = Stat::of(std::process::id()).expect("it runs");
        assert!(own.parent > 0 && own.started > 0, "{own:?}");
        assert!(cpus_allowed(std::process::id()).expect("it runs").is_some());
    }
}

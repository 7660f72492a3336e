//! What the tests of all crates share: the notice of a test that cannot run here, waiting, processes, dice, and the walk
//! through all worlds that can come about. For tests only.

pub mod explore;

use std::fmt::{Arguments, Display};
use std::io::{self, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// Longest time that anything may take. Only a stall takes that long, on however busy a machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A number that a variable of the environment may change.
///
/// # Panics
/// If it holds none.
#[must_use]
pub fn from_env(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a whole number, not {text:?}")),
        Err(_) => default,
    }
}

/// Waits until `holds`.
///
/// # Panics
/// If it does not within [`PATIENCE`].
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    let mut looked = begun;
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "stalled: {what}");
        // A look may be a process that begins: half of the time is for what is waited for.
        std::thread::sleep(looked.elapsed().clamp(Duration::from_millis(1), Duration::from_millis(50)));
        looked = Instant::now();
    }
}

/// What `measure` finds in a time that is long enough to find something: `first`, or twice that, and so on. For what is measured
/// for a length of time, in which a busy machine may do nothing of it at all.
///
/// # Panics
/// If it finds nothing within [`PATIENCE`] and more.
pub fn in_time_enough<T>(what: &str, first: Duration, mut measure: impl FnMut(Duration) -> Option<T>) -> T {
    let (begun, mut length) = (Instant::now(), first);
    loop {
        if let Some(found) = measure(length) {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "in {length:?} there was nothing yet: {what}");
        length *= 2;
    }
}

/// The Python interpreter itself. What the search path names may be a launcher that takes longer than the script of a test.
#[must_use]
pub fn python() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let told = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().ok();
        let path = told.and_then(|output| String::from_utf8(output.stdout).ok()).map(|path| path.trim().to_owned());
        path.filter(|path| !path.is_empty()).unwrap_or_else(|| "python3".to_owned())
    })
}

/// A process that was started has all descriptors of this one until it executes its program.
static STARTING: RwLock<()> = RwLock::new(());

/// Starts a process that executes its program by the time that this returns, beside tests that hold [`closing_frees`].
///
/// # Errors
/// As [`Command::spawn`].
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let _alone = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// While a test holds this a name, a queue or a program on an interface is free as soon as this process has closed it. Without, a process
/// that another test starts may have it a little longer. Taken once by a test, which starts no process; the others of its program start theirs
/// by [`spawn`].
pub fn closing_frees() -> RwLockReadGuard<'static, ()> {
    STARTING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Numbers that look random and are the same in every run; made from a seed.
pub struct Dice(pub u64);

impl Dice {
    /// 0 to `faces` - 1. splitmix64, without care for the bias of a remainder.
    pub fn roll(&mut self, faces: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % faces
    }
}

/// A folder of a test's own for temporary files: empty at first, and gone with the value.
pub struct Folder(PathBuf);

impl Folder {
    /// Each value has another one, whatever the name; the name says whose it is.
    ///
    /// # Panics
    /// Temporary files cannot be written.
    #[must_use]
    pub fn new(test: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("napier-{test}-{}-{nth}", std::process::id()));
        // Of a process that had this number before.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the folder for temporary files can be written");
        Self(path)
    }

    /// A path in it, as an argument of a command.
    ///
    /// # Panics
    /// The folder for temporary files has a name that is no text.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.join(name).to_str().expect("a plain path").to_owned()
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of it says more than another failure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Says on standard error that a test cannot run on this machine, and why: `skip!(test, "needs {cpus} CPUs")`. The
/// first argument is the name of the test, as its function has it. The test then returns.
///
/// The line is seen although the test passes: the test harness keeps what the print macros write, and shows it only if
/// the test fails. `.ci/run` counts these lines.
#[macro_export]
macro_rules! skip {
    ($test:expr, $($why:tt)+) => {
        $crate::say_skipped(&$test, format_args!($($why)+))
    };
}

/// What [`skip!`] does.
#[doc(hidden)]
pub fn say_skipped(test: &dyn Display, why: Arguments<'_>) {
    // A test without standard error has none to tell.
    let _ = std::io::stderr().write_all(notice(test, why).as_bytes());
}

/// The notice begins its own line, whatever the harness has begun, and is one line whatever the reason.
fn notice(test: &dyn Display, why: Arguments<'_>) -> String {
    let why = why.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    format!("\nSKIPPED: {test}: {why}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_doubled_until_there_is_something() {
        let mut asked = Vec::new();
        let found = in_time_enough("four", Duration::from_millis(1), |length| {
            asked.push(length.as_millis());
            (length.as_millis() >= 4).then_some("found")
        });
        assert_eq!((found, asked), ("found", vec![1, 2, 4]));
    }

    #[test]
    fn a_notice_is_one_line_of_its_own() {
        let why = "no\n  privilege";
        assert_eq!(notice(&"a_test", format_args!("{why} here")), "\nSKIPPED: a_test: no privilege here\n");
    }
}

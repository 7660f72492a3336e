//! The terminal while it is ours, and that it is given back however this ends: by return, by panic, by a signal, or because the
//! terminal itself is gone.
//!
//! Signals are taken by a thread of their own, for the one that draws may hang: in a terminal that is gone, or in one that takes
//! nothing more. The thread that draws or gives back has the lock. One that hangs has standard output's lock as well, so a thread that ends the
//! process writes past it, and waits for nothing for long.

use std::io::{self, IsTerminal as _, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use ratatui::crossterm::{cursor, execute, queue};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::source::Traced;

/// How long one who ends the process waits for one that draws, and then for a terminal that takes nothing.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often it looks meanwhile.
const TRY_EVERY: Duration = Duration::from_millis(5);
/// How often is looked whether the terminal is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Whether the terminal is ours.
static OURS: AtomicBool = AtomicBool::new(false);
/// Of the thread that draws, or gives the terminal back.
static DRAWS: Mutex<()> = Mutex::new(());

fn lock() -> MutexGuard<'static, ()> {
    DRAWS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lock, or after a while nothing: one that draws hangs, or is the caller.
fn lock_in_time() -> Option<MutexGuard<'static, ()>> {
    let until = Instant::now() + PATIENCE;
    loop {
        match DRAWS.try_lock() {
            Ok(draws) => return Some(draws),
            Err(TryLockError::Poisoned(draws)) => return Some(draws.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() > until => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(TRY_EVERY),
        }
    }
}

/// Waits for the terminal: a signal still ends the process.
fn give_back() {
    if OURS.swap(false, Ordering::Relaxed) {
        // A terminal that is gone takes nothing back.
        let _ = disable_raw_mode();
        let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    }
}

/// Waits for nothing.
fn give_back_in_time() {
    let _draws = lock_in_time();
    if OURS.swap(false, Ordering::Relaxed) {
        let _ = disable_raw_mode();
        let _ = leave_in_time();
    }
}

/// Opens the terminal anew, for what is set of standard output is set of the shell's as well.
fn leave_in_time() -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = |path| rustix::fs::open(path, flags, Mode::empty());
    // The first is refused if it was opened as another user, such as before su(1).
    let terminal = open("/proc/self/fd/1").or_else(|_| open("/dev/tty"))?;
    let mut bytes = Vec::new();
    queue!(bytes, LeaveAlternateScreen, cursor::Show)?;
    let until = Instant::now() + PATIENCE;
    let mut left = &bytes[..];
    while !left.is_empty() {
        match rustix::io::write(&terminal, left) {
            Ok(written) => left = &left[written..],
            Err(Errno::AGAIN) if Instant::now() < until => std::thread::sleep(TRY_EVERY),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// The terminal. It is given back at the end of this.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes it. What is traced is undone if the process is ended from here.
    ///
    /// # Errors
    /// It is none that can be drawn on, or no thread could be started.
    pub(super) fn take(traced: &Traced) -> anyhow::Result<Self> {
        let signals = Signals::new([SIGHUP, SIGINT, SIGTERM, SIGQUIT]).context("taking signals")?;
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let undone = traced.clone();
        thread("top-signals").spawn(move || end_by_signal(signals, &undone))?;
        let undone = traced.clone();
        thread("top-terminal").spawn(move || end_without_terminal(&undone))?;
        give_back_in_panics();
        let _draws = lock();
        OURS.store(true, Ordering::Relaxed);
        let taken = enable_raw_mode().and_then(|()| execute!(io::stdout(), EnterAlternateScreen, cursor::Hide));
        let terminal = taken.and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        if terminal.is_err() {
            give_back();
        }
        Ok(Self { terminal: terminal.context("drawing on this terminal")? })
    }

    /// Draws, unless the terminal is being given back.
    ///
    /// # Errors
    /// The terminal takes nothing more.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        let _draws = lock();
        if OURS.load(Ordering::Relaxed) {
            self.terminal.draw(draw)?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _draws = lock();
        give_back();
    }
}

/// Once for the process: a panic is said on a terminal that shows it.
fn give_back_in_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back_in_time();
            before(panic);
        }));
    });
}

/// Gives the terminal back, undoes what is traced and ends the process.
fn end(status: i32, traced: &Traced) -> ! {
    give_back_in_time();
    traced.undo();
    std::process::exit(status)
}

fn end_by_signal(mut signals: Signals, traced: &Traced) {
    if let Some(signal) = signals.forever().next() {
        end(i32::from(crate::exit_status(signal)), traced);
    }
}

/// A terminal may go without a signal, if another program leads its session.
fn end_without_terminal(traced: &Traced) {
    while io::stdout().is_terminal() {
        std::thread::sleep(LOOK_EVERY);
    }
    end(1, traced);
}

/// Letters of a line of the terminal; `None` if standard output is none.
pub(super) fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;

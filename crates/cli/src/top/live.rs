//! The view on a terminal: one thread looks, one draws and takes keys.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use anyhow::Context as _;
use ratatui::crossterm::event::{Event, poll, read};

use super::app::{App, Next};
use super::screen::Screen;
use super::snapshot::Snapshot;
use super::source::{FigureSource, Traced};
use super::{Clock, view};

/// How long a snapshot or a change of the window may wait for being drawn.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Undoes what is traced however the view ends, but for a signal, which `screen` takes.
struct Undone(Traced);

impl Drop for Undone {
    fn drop(&mut self) {
        self.0.undo();
    }
}

pub(super) fn run(mut source: Box<dyn FigureSource>, clock: Clock, interval: Duration) -> anyhow::Result<()> {
    let mut app = App::new(source.title(), interval);
    // Before anything is drawn: what cannot be looked at is said as of any command.
    app.take(source.look(&clock)?);
    let traced = source.traced();
    let _undone = Undone(traced.clone());
    // On a terminal that takes nothing for long, snapshots must not pile up.
    let (found, snapshots) = sync_channel(1);
    let (pace, paces) = channel();
    let looks = move || look(&mut *source, &clock, interval, &found, &paces);
    std::thread::Builder::new().name("top-looks".to_owned()).spawn(looks).context("starting a thread")?;
    let mut screen = Screen::take(&traced)?;
    let ended = shows(&mut app, &mut screen, &snapshots, &pace);
    drop(screen);
    ended
}

/// Looks once in each interval, until the reader is gone.
fn look(
    source: &mut dyn FigureSource,
    clock: &Clock,
    mut interval: Duration,
    found: &SyncSender<anyhow::Result<Snapshot>>,
    paces: &Receiver<Duration>,
) {
    loop {
        match paces.recv_timeout(interval) {
            Ok(other) => {
                interval = other;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let snapshot = source.look(clock);
        let failed = snapshot.is_err();
        if found.send(snapshot).is_err() || failed {
            return;
        }
    }
}

fn shows(
    app: &mut App,
    screen: &mut Screen,
    snapshots: &Receiver<anyhow::Result<Snapshot>>,
    pace: &Sender<Duration>,
) -> anyhow::Result<()> {
    let mut changed = true;
    loop {
        if std::mem::take(&mut changed) {
            screen.draw(|frame| view::draw(frame, app)).context("drawing on the terminal")?;
        }
        if poll(LOOK_EVERY).context("reading keys")? {
            match read().context("reading keys")? {
                Event::Key(key) => {
                    let before = app.interval;
                    if app.key(key) == Next::Quit {
                        return Ok(());
                    }
                    if app.interval != before {
                        // If it looks no more, that is said below.
                        let _ = pace.send(app.interval);
                    }
                    changed = true;
                }
                Event::Resize(..) => changed = true,
                _ => {}
            }
        }
        match snapshots.try_recv() {
            Ok(snapshot) => {
                app.take(snapshot?);
                changed = true;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => anyhow::bail!("the thread that looks has ended"),
        }
    }
}

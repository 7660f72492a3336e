//! The part of a mode that is the program's, applied from outside while a run lasts, as `napier run` does it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use napier_core::control::plan::Plan;
use napier_linux::change::Ledger;
use napier_linux::process::{ProgramSettings, Roots, Watcher};

/// Until the next look after one that found something: a program that gets connections gets more of them.
const SOON: Duration = Duration::from_millis(5);
/// After the first that found nothing, then twice as long each time, to the last of these: a look takes CPU time too (0.3 to 1 ms
/// with 70 descriptors, not optimised), and the run is being measured.
const LATER: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// A mode's settings on a program's descriptors, those that it makes later too. They are as they were made when this goes.
#[derive(Debug)]
pub(crate) struct AppliedToProgram {
    over: Arc<AtomicBool>,
    said: Arc<Mutex<Vec<String>>>,
    watcher: Option<JoinHandle<()>>,
}

impl AppliedToProgram {
    /// Sets what is there, and goes on looking. `None` if the mode has nothing for programs.
    pub(super) fn on_program(root: u32, plan: &Plan) -> anyhow::Result<Option<Self>> {
        let settings = ProgramSettings::of(plan);
        if settings.is_empty() {
            return Ok(None);
        }
        let mut watcher = Watcher::new(settings.clone(), Roots::Process(root), Instant::now());
        // The program ends with this process, however that ends, so nothing has to be on disk.
        let mut ledger = Ledger::in_memory();
        let scan = watcher.scan(&mut ledger, Instant::now());
        let has_none = settings.epoll.is_some() && watcher.epolls() == 0 && watcher.rings_set() == 0;
        if !scan.said.is_empty() || has_none {
            drop(ledger.put_back());
            ensure!(scan.said.is_empty(), "{}", scan.said.join("; "));
            bail!(
                "the program has no epoll descriptor and no ring of io_uring that this mode reaches, so it has nothing to busy poll from"
            );
        }
        let (over, said) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<String>>>::default());
        let thread = std::thread::Builder::new().name("watcher".to_owned());
        let keeper = {
            let (over, said) = (over.clone(), said.clone());
            thread.spawn(move || watch(&mut watcher, ledger, &over, &said))?
        };
        Ok(Some(Self { over, said, watcher: Some(keeper) }))
    }

    /// Fails if the mode was not in force on all of the program.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let said = self.said.lock().expect("no thread panics with it");
        ensure!(said.is_empty(), "{}", said.join("; "));
        Ok(())
    }
}

impl Drop for AppliedToProgram {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            // If it has panicked, nobody is left to be told.
            let _ = watcher.join();
        }
    }
}

fn watch(watcher: &mut Watcher, mut ledger: Ledger, over: &AtomicBool, said: &Mutex<Vec<String>>) {
    let mut pause = SOON;
    while !over.load(Ordering::Relaxed) {
        std::thread::park_timeout(pause);
        let scan = watcher.scan(&mut ledger, Instant::now());
        let found = scan.set > 0 || scan.processes > 0;
        pause = if found { SOON } else { (pause * 2).clamp(LATER[0], LATER[1]) };
        said.lock().expect("no thread panics with it").extend(scan.said);
    }
    // What the program has changed itself is its own; the next run says so where it matters.
    drop(ledger.put_back());
}

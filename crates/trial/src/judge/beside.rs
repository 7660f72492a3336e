//! What a judge does in a thread of its own, so that nothing that it waits for keeps a trial from going on.
//!
//! ```text
//! Beside (the trial's thread)          Looker (its own thread)
//!   begin: a new block  ------------->   begin
//!   look: takes the news <-----------    look, pause, look, pause ...
//! ```

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

use super::{GUARDED, Judge, JudgeError, JudgedFigure, Look, Reading};

/// Looks that fail one after the other before the judge gives up: a program may be started anew, a server be busy.
const FAILURES_MAX: u32 = 3;
/// A thread that waits for another program ends within this; one that waits for longer is left to itself.
const END_MAX: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(5);
/// Between two looks at most, whatever they take.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// What looks may take of a CPU where a limit is held against what they find: one that looks seldom lets harm go on.
const GUARDED_SHARE: f64 = 0.05;

/// What is looked at.
pub(super) trait Looker: Send + 'static {
    /// A new block begins.
    fn begin(&mut self, going: &Going) -> Result<(), String>;

    /// What has come since; `None`: nothing new.
    fn look(&mut self, going: &Going) -> Result<Option<Reading>, String>;

    /// From the end of a look to the next one, if looks take no more of a CPU than [`share`](Self::share).
    fn pause(&self) -> Duration;

    /// What looks may take of a CPU.
    fn share(&self) -> f64 {
        0.001
    }

    /// How long nothing new is no silence.
    fn patience(&self) -> Duration;
}

/// A judge that looks in a thread of its own, which ends with it.
#[derive(Debug)]
pub(super) struct Beside {
    name: String,
    figures: Vec<JudgedFigure>,
    going: Going,
    thread: Option<JoinHandle<()>>,
}

/// Whether a source is to go on.
#[derive(Clone, Debug)]
pub(super) struct Going(Arc<(Mutex<Between>, Condvar)>);

/// What the two threads tell each other.
#[derive(Debug)]
struct Between {
    is_over: bool,
    /// Blocks that were begun.
    blocks: u64,
    /// What came in the block that was last begun, and was not taken yet.
    news: Option<Reading>,
    failed: Option<String>,
    patience: Duration,
    /// A limit is held against a figure.
    is_guarded: bool,
}

impl Going {
    fn new(patience: Duration) -> Self {
        let between = Between { is_over: false, blocks: 0, news: None, failed: None, patience, is_guarded: false };
        Self(Arc::new((Mutex::new(between), Condvar::new())))
    }

    /// For a look that is made before there is a thread.
    pub(super) fn once() -> Self {
        Self::new(Duration::ZERO)
    }

    fn lock(&self) -> MutexGuard<'_, Between> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The judge is not needed any more.
    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Waits, but not beyond the end or the begin of another block than `block`.
    fn wait(&self, block: u64, span: Duration) {
        let between = self.lock();
        let is_same = |between: &mut Between| !between.is_over && between.blocks == block;
        drop(self.0.1.wait_timeout_while(between, span, is_same).unwrap_or_else(PoisonError::into_inner));
    }

    fn tell(&self, act: impl FnOnce(&mut Between)) {
        act(&mut self.lock());
        self.0.1.notify_all();
    }
}

impl Beside {
    /// Starts to look.
    pub(super) fn start(name: &str, figures: Vec<JudgedFigure>, source: impl Looker) -> Result<Self, JudgeError> {
        let going = Going::new(source.patience());
        let theirs = going.clone();
        let started = std::thread::Builder::new().name("judge".to_owned()).spawn(move || watch(source, &theirs));
        let thread = started.map_err(|error| JudgeError {
            judge: name.to_owned(),
            why: format!("no thread can be started: {error}"),
        })?;
        Ok(Self { name: name.to_owned(), figures, going, thread: Some(thread) })
    }
}

/// Looks until the judge is gone.
fn watch(mut source: impl Looker, going: &Going) {
    let (mut begun, mut failures) = (0, 0);
    loop {
        let (is_over, is_guarded, block) = {
            let between = going.lock();
            (between.is_over, between.is_guarded, between.blocks)
        };
        if is_over {
            return;
        }
        let before = clock_gettime(ClockId::ThreadCPUTime);
        let looked = if block == begun {
            source.look(going)
        } else {
            let begin = source.begin(going);
            begun = block;
            begin.map(|()| None)
        };
        failures = if looked.is_err() { failures + 1 } else { 0 };
        let took = clock_gettime(ClockId::ThreadCPUTime) - before;
        let pause = rest(&source, is_guarded, took);
        let patience = source.patience().max(pause * 3);
        going.tell(|between| {
            between.patience = patience;
            match looked {
                // What came in the block before does not count.
                Ok(_) if between.blocks != block => {}
                Ok(news) => between.news = news.or(between.news.take()),
                Err(why) if failures >= FAILURES_MAX => between.failed = Some(why),
                Err(_) => {}
            }
        });
        going.wait(block, pause);
    }
}

/// How long to wait after a look.
fn rest(source: &impl Looker, is_guarded: bool, took: Timespec) -> Duration {
    match is_guarded {
        true => source.pause().min(GUARDED).max(dear(took, GUARDED_SHARE)),
        false => source.pause().max(dear(took, source.share())),
    }
}

/// The same of one that took so much CPU time, which is to be a share of all time.
fn dear(took: Timespec, share: f64) -> Duration {
    let took = Duration::new(took.tv_sec.cast_unsigned(), u32::try_from(took.tv_nsec).unwrap_or(0));
    took.div_f64(share).min(PAUSE_MAX)
}

impl Judge for Beside {
    fn figures(&self) -> &[JudgedFigure] {
        &self.figures
    }

    fn begin(&mut self) -> Result<(), JudgeError> {
        self.going.tell(|between| (between.blocks, between.news) = (between.blocks + 1, None));
        Ok(())
    }

    fn look(&mut self) -> Result<Look, JudgeError> {
        let wrong = |why| Err(JudgeError { judge: self.name.clone(), why });
        let mut between = self.going.lock();
        match (between.failed.clone(), between.news.take()) {
            (Some(why), _) => wrong(why),
            (None, Some(reading)) => Ok(Look::Seen(reading)),
            (None, None) if self.thread.as_ref().is_none_or(JoinHandle::is_finished) => {
                wrong("its thread has ended: this is a mistake of this program".to_owned())
            }
            (None, None) => Ok(Look::Nothing),
        }
    }

    fn guard(&mut self) {
        self.going.tell(|between| between.is_guarded = true);
    }

    fn patience(&self) -> Duration {
        self.going.lock().patience
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.going.tell(|between| between.is_over = true);
        let Some(thread) = self.thread.take() else { return };
        let begun = Instant::now();
        while !thread.is_finished() && begun.elapsed() < END_MAX {
            std::thread::sleep(STEP);
        }
        if thread.is_finished() {
            // It can have panicked, which its output has said.
            let _ = thread.join();
        }
    }
}

/// The mean of numbers, one after the other, as a reading of one figure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    /// With one more.
    pub(super) fn add(&mut self, newest: f64) -> Reading {
        self.sum += newest;
        self.count += 1;
        Reading { values: vec![Some(self.sum / f64::from(self.count))], newest: vec![Some(newest)] }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Better, Unit};
    use super::*;

    /// Tells what it is asked, and fails where it is told to.
    struct Script(Vec<Result<Option<f64>, String>>, Mean);

    impl Looker for Script {
        fn begin(&mut self, _: &Going) -> Result<(), String> {
            self.1 = Mean::default();
            Ok(())
        }

        fn look(&mut self, going: &Going) -> Result<Option<Reading>, String> {
            if self.0.is_empty() {
                let block = going.lock().blocks;
                going.wait(block, Duration::from_secs(60));
                return Ok(None);
            }
            Ok(self.0.remove(0)?.map(|value| self.1.add(value)))
        }

        fn pause(&self) -> Duration {
            Duration::from_millis(1)
        }

        fn patience(&self) -> Duration {
            Duration::from_secs(7)
        }
    }

    fn judge(script: Vec<Result<Option<f64>, String>>) -> Beside {
        let figures = vec![JudgedFigure { name: "it".to_owned(), unit: Unit::Plain, better: Better::Less }];
        Beside::start("script", figures, Script(script, Mean::default())).expect("a thread")
    }

    fn eventually_seen(judge: &mut Beside) -> Result<Reading, JudgeError> {
        let mut found = None;
        napier_testkit::eventually("there is news", || {
            found = match judge.look() {
                Ok(Look::Seen(reading)) => Some(Ok(reading)),
                Ok(Look::Nothing) => None,
                Err(error) => Some(Err(error)),
            };
            found.is_some()
        });
        found.expect("it was found")
    }

    #[test]
    fn news_come_and_are_told_once() {
        let mut judge = judge(vec![Ok(None), Ok(Some(3.0))]);
        let reading = Reading { values: vec![Some(3.0)], newest: vec![Some(3.0)] };
        assert_eq!(eventually_seen(&mut judge), Ok(reading));
        // Where the host takes the processor away in a look, that is booked as its time, and it looks less often.
        assert_eq!((judge.look(), judge.patience() >= Duration::from_secs(7)), (Ok(Look::Nothing), true));
    }

    #[test]
    fn a_failure_is_passed_over_and_three_in_a_row_are_not() {
        let fails = || Err("no answer".to_owned());
        let mut judge = judge(vec![fails(), fails(), Ok(Some(1.0)), fails(), fails(), fails()]);
        let error = loop {
            match eventually_seen(&mut judge) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.to_string(), "script: no answer");
        assert!(judge.look().is_err(), "it stays so");
    }

    #[test]
    fn what_a_block_before_had_is_not_told_in_the_next() {
        let mut judge = judge(vec![Ok(Some(1.0))]);
        napier_testkit::eventually("it has come", || judge.going.lock().news.is_some());
        judge.begin().expect("it begins");
        assert_eq!(judge.look(), Ok(Look::Nothing));
    }

    #[test]
    fn looks_take_a_small_share_of_a_cpu() {
        let pause = |ms: i64| dear(Timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 }, 0.002).as_millis();
        assert_eq!((pause(0), pause(3), pause(900)), (0, 1500, 10_000));
    }

    #[test]
    fn what_a_limit_is_held_against_is_looked_at_five_times_a_second() {
        struct Seldom;
        impl Looker for Seldom {
            fn begin(&mut self, _: &Going) -> Result<(), String> {
                Ok(())
            }
            fn look(&mut self, _: &Going) -> Result<Option<Reading>, String> {
                Ok(None)
            }
            fn pause(&self) -> Duration {
                Duration::from_secs(1)
            }
            fn patience(&self) -> Duration {
                Duration::from_secs(9)
            }
        }
        let rest = |is_guarded, ms: i64| {
            rest(&Seldom, is_guarded, Timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 }).as_millis()
        };
        assert_eq!((rest(false, 0), rest(false, 3), rest(false, 900)), (1000, 3000, 10_000));
        // A look of 10 ms is a twentieth of a CPU then, and more is none.
        assert_eq!((rest(true, 0), rest(true, 10), rest(true, 40)), (200, 200, 800));
    }

    #[test]
    fn numbers_have_a_mean() {
        let mut mean = Mean::default();
        mean.add(1.0);
        assert_eq!(mean.add(4.0), Reading { values: vec![Some(2.5)], newest: vec![Some(4.0)] });
    }
}

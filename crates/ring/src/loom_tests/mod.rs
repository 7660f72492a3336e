//! Models of every protocol in this crate, run by loom over all interleavings and all values that relaxed loads may
//! see: `RUSTFLAGS="--cfg loom" cargo test -p napier-ring --release`.
//!
//! Each model has negative twins: the same model with one fence or ordering taken away, which must fail. A model
//! whose twin passes would prove nothing.

mod external;
mod frames;
mod group;
mod hold;
mod irq;
mod kick;
mod line;
mod outbox;
mod owned;
mod queues;
mod ready;
mod remainder;
mod rings;
mod sleepers;
mod stand_in;
mod switch;
mod tables;
mod timers;
mod words;
mod xsk;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::{Point, weaken};

/// Fewest runs that a model may end with. loom prunes runs that it believes equal, and believes wrongly where a
/// thread looks at a word just before it changes it: it forgets the looks of others before that. A model that falls
/// into this hole passes after a run or two.
const RUNS_MIN: usize = 5;

/// Runs a model exhaustively.
fn model(body: impl Fn() + Send + Sync + 'static) {
    check(None, body);
}

/// Runs a model of three threads, or of long ones, with at most this many preemptions per run.
fn model_preempted(preemptions_max: usize, body: impl Fn() + Send + Sync + 'static) {
    check(Some(preemptions_max), body);
}

fn check(preemptions_max: Option<usize>, body: impl Fn() + Send + Sync + 'static) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions_max;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        body();
    });
    let runs = runs.load(Ordering::Relaxed);
    eprintln!("{runs} runs");
    assert!(runs >= RUNS_MIN, "only {runs} runs: loom pruned the interesting ones");
}

/// Runs models with `point` weakened; they should panic, and this with them.
fn without(point: Point, models: impl FnOnce()) {
    weaken(Some(point));
    let result = catch_unwind(AssertUnwindSafe(models));
    weaken(None);
    if let Err(panic) = result {
        resume_unwind(panic);
    }
}

//! Models of every protocol in this crate, run by loom over all interleavings and all values that relaxed loads may
//! see: `RUSTFLAGS="--cfg loom" cargo test -p napier-ring --release`.
//!
//! Each model has negative twins: the same model with one fence or ordering taken away, which must fail. A model
//! whose twin passes would prove nothing.

mod frames;
mod queues;
mod rings;
mod words;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::sync::{Point, weaken};

/// Runs a model exhaustively.
fn model(body: impl Fn() + Send + Sync + 'static) {
    loom::model(body);
}

/// Runs a model of three threads, with at most this many preemptions per run.
fn model_preempted(preemptions_max: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.check(body);
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

//! What `outbox` is written with, here and in `ring`: there a model can weaken each point.

use core::sync::atomic::fence;

pub(crate) use core::sync::atomic::Ordering;

pub(crate) use OrderPoint as Point;

/// Of `Point` in `ring/src/sync.rs`, those that are used here.
#[derive(Clone, Copy)]
#[allow(clippy::enum_variant_names, reason = "the names are those there")]
pub(crate) enum OrderPoint {
    OutboxHead,
    OutboxLook,
    OutboxTail,
    OutboxTailStore,
    OutboxTell,
    OutboxSleep,
}

/// A full fence.
#[allow(clippy::disallowed_methods, reason = "of `outbox`, whose model is in `ring`")]
pub(crate) fn full_fence(_point: Point) {
    fence(Ordering::SeqCst);
}

pub(crate) const fn order(_point: Point, ordering: Ordering) -> Ordering {
    ordering
}

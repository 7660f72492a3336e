//! What the tests of several modules share, and the walks through all of them.

mod nolock_walk;
pub(crate) mod packet;
mod walk;

/// Or the rule that is broken.
type Outcome<T> = Result<T, &'static str>;

//! Panics that are looked for, and so are none: what a thread does quietly writes no panic to standard error.

use std::cell::Cell;
use std::panic;
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Makes the thread speak again, however it comes out of what it did.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        QUIET.set(self.0);
    }
}

/// Does something in which assertions may fail and are caught, without a word of them. Other threads are not concerned.
pub(super) fn quietly<R>(action: impl FnOnce() -> R) -> R {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    let _restore = Restore(QUIET.replace(true));
    action()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_quiet_for_as_long_as_it_lasts() {
        let caught = quietly(|| panic::catch_unwind(|| panic!("looked for")).is_err());
        assert!(caught && !QUIET.get());
        let out = panic::catch_unwind(|| quietly(|| panic!("out of it")));
        assert!(out.is_err() && !QUIET.get(), "also if it ends so");
        assert!(quietly(|| QUIET.get() && quietly(|| QUIET.get()) && QUIET.get()));
    }
}

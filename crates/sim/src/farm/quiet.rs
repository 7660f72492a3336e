//! Panics that are looked for, and so are none: what is done on a thread of a certain name writes no panic to standard error.

use std::panic;
use std::sync::Once;
use std::thread;

/// The name of such a thread.
const NAME: &str = "napier-expects-panics";

static HOOK: Once = Once::new();

/// Does something in which assertions may fail and are caught, without a word of them. Other threads are not concerned.
pub(super) fn quietly<R: Send>(action: impl FnOnce() -> R + Send) -> R {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if thread::current().name() != Some(NAME) {
                before(info);
            }
        }));
    });
    let done = thread::scope(|scope| {
        let quiet = thread::Builder::new().name(NAME.to_owned()).spawn_scoped(scope, action);
        quiet.expect("a thread can be made").join()
    });
    done.unwrap_or_else(|panic| panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_quiet_where_it_is_done_and_nowhere_else() {
        let is_quiet = || thread::current().name() == Some(NAME);
        assert!(quietly(|| panic::catch_unwind(|| panic!("looked for")).is_err()));
        assert!(quietly(|| is_quiet() && quietly(is_quiet) && is_quiet()) && !is_quiet());
        let out = panic::catch_unwind(|| quietly(|| panic!("out of it")));
        let why = out.expect_err("a panic comes out of it");
        assert_eq!(why.downcast_ref::<&str>(), Some(&"out of it"));
    }
}

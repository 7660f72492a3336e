//! What is done in the network namespace of an interface.

use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::config::XskConfig;
use crate::error::XskError;

/// Runs `f` in the interface's namespace.
pub(crate) fn in_namespace<R: Send>(
    config: &XskConfig,
    f: impl FnOnce() -> Result<R, XskError> + Send,
) -> Result<R, XskError> {
    let Some(netns) = &config.netns else { return f() };
    let inside = || {
        move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| XskError::refused("entering the network namespace", "CAP_SYS_ADMIN")(error.into()))?;
        f()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("napier-netns".to_owned()).spawn_scoped(scope, inside);
        let thread = thread.map_err(XskError::refused("starting a thread", "nothing"))?;
        match thread.join() {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

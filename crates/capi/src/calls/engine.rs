//! Engines, name spaces, modes, handles, errors.

use std::ffi::{c_char, c_int};
use std::panic::catch_unwind;

use napier_runtime::control::mode::Mode;

use crate::engine::{EngineObject, NapierEngineOptions, set_context_mode};
use crate::error::{Failure, enter, last_text};
use crate::memory;
use crate::table::{HANDLES, Object, on};

/// The version of the library, such as "0.2.0".
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn napier_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Why the last call of the calling thread that failed did so, and what can be done about it, as a sentence. It stays as it is until the
/// thread's next call that fails. Never NULL.
///
/// Threads: any; each has its own.
#[unsafe(no_mangle)]
pub extern "C" fn napier_last_error() -> *const c_char {
    catch_unwind(last_text).unwrap_or(c"".as_ptr())
}

/// Starts an engine: threads that deliver packets, and a first name space. options: NULL for all defaults.
///
/// Threads: any. Not to be called between fork(2) and exec(3), nor is an engine there in a child of fork(2).
///
/// Gives its handle; -1 and EINVAL (a processor that cannot be), EMFILE, EAGAIN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_engine_start(options: *const NapierEngineOptions) -> c_int {
    enter(|| {
        // SAFETY: the caller has set the size.
        let options = unsafe { memory::options(options) }?;
        // SAFETY: the caller's array is as long as said.
        let engine = unsafe { EngineObject::start(&options) }?;
        HANDLES.add(Object::Engine(engine))
    })
}

/// Stops an engine, whose handle is none any more. Its connections end without a word to their peers: close them first if these should
/// know. Calls that wait end with ESHUTDOWN, and so does every later one that would have to; handles of its sockets, contexts, ports and
/// devices stay until they are closed. It returns when the engine's threads have ended, or when the last call that is on the engine does.
///
/// Threads: any, but for the function that napier_tx_build calls.
///
/// Gives 0; -1 and EBADF, EINVAL (the handle of something else).
#[unsafe(no_mangle)]
pub extern "C" fn napier_engine_stop(engine: c_int) -> c_int {
    enter(|| HANDLES.remove_engine(engine).map(|()| 0))
}

/// Closes a handle of any kind, poisoned or not. A socket is closed, and leaves the contexts that it is in; a raw port hands its queue
/// back, with the frames that are held of it; a stream with SO_LINGER and a time waits for its peer as close(2) does; a device stays in its engine until it is removed (napier_remove_device) or that is stopped; an engine is stopped.
/// Calls that are in progress on the handle end as if it were open, and what it stands for goes with the last of them.
///
/// Threads: any. The number is given to something else late, so that a call on it finds EBADF.
///
/// Gives 0; -1 and EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn napier_close(handle: c_int) -> c_int {
    enter(|| HANDLES.remove(handle).map(|()| 0))
}

/// Makes one more name space in an engine: devices, addresses and sockets that do not see those of others.
///
/// Threads: any.
///
/// Gives its handle; -1 and EBADF, EINVAL, EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn napier_netns(engine: c_int) -> c_int {
    on(engine, |object| HANDLES.add(Object::Netns(object.engine()?.namespace())))
}

/// Sets how packets are delivered, by the name of a mode: base, deferX, napibusy, fullbusy, suspend0, suspendX (X in us, such as
/// suspend20), threaded, workqueue, threaded-busy-poll, busy-read. Of an engine: all its devices and contexts, and those that are made
/// later; of a device, and of a context, that one. busy-read acts on sockets that are made after it.
/// In fullbusy give each wait a timeout of 1 ms, and wait again: one of 0 never polls, and a longer one sleeps after 1 ms without a packet, so
/// that the next packet waits for a timer of 5 ms.
///
/// Threads: any, also while packets come.
///
/// Gives 0; -1 and EBADF, EINVAL (no such mode, or the handle of something else), ESHUTDOWN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_set_mode(handle: c_int, mode: *const c_char) -> c_int {
    on(handle, |object| {
        // SAFETY: the caller's text ends with a NUL.
        let mode = unsafe { memory::needed_text(mode, "the mode") }?;
        let mode = Mode::parse(mode).map_err(|error| Failure::invalid(error.to_string()))?;
        match object {
            Object::Engine(engine) => engine.set_mode(mode),
            Object::Device(device) => device.set_mode(mode),
            Object::Context(context) => set_context_mode(context, mode),
            Object::Netns(_) | Object::Socket(_) | Object::Event(_) | Object::Port(_) => {
                Err(Failure::invalid("a mode is that of an engine, a device or a context"))
            }
        }?;
        Ok(0)
    })
}

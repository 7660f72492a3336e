//! Raw ports: the frames of one queue, in place and in bursts.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use napier_runtime::raw::RawBusyPoll;

use crate::error::Failure;
use crate::memory;
use crate::port::{NapierFrame, Port};
use crate::table::{HANDLES, Object, on};

/// C: typedef size_t (*napier_build)(void *context, void *frame, size_t room);
///
/// Writes a frame of at most room bytes to frame, which holds what was there before, and gives its length; 0 ends the burst. It must not call
/// this library, nor leave by longjmp(3).
pub type NapierBuild = Option<unsafe extern "C" fn(context: *mut c_void, frame: *mut c_void, room: usize) -> usize>;

/// Opens a raw port on a queue of a device: it takes all frames of the queue, and the sockets of the device's name space see none of them while
/// it is open.
///
/// Threads: any. A port is for one thread at a time: a call on a port that another thread is in finds EBUSY.
///
/// Gives its handle; -1 and EBADF, EINVAL (no such queue), EBUSY (another port has it), EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn napier_raw_open(device: c_int, queue: u32) -> c_int {
    on(device, |object| HANDLES.add(Object::Port(Port::bind(object.device()?, queue)?)))
}

/// Sets how napier_rx_burst and napier_raw_wait poll by themselves, as the socket options of an AF_XDP socket do. usecs: SO_BUSY_POLL, 0 for
/// never; budget: SO_BUSY_POLL_BUDGET, 0 for 8; prefer: SO_PREFER_BUSY_POLL.
///
/// Threads: one at a time for each port.
///
/// Gives 0; -1 and EBADF, EINVAL, EBUSY.
#[unsafe(no_mangle)]
pub extern "C" fn napier_raw_busy_poll(port: c_int, usecs: u32, budget: u16, prefer: c_int) -> c_int {
    on(port, |object| {
        object.port()?.set_busy_poll(RawBusyPoll { usecs, prefer: prefer != 0, budget })?;
        Ok(0)
    })
}

/// The NAPI id of a port's queue.
///
/// Threads: one at a time for each port.
///
/// Gives it; -1 and EBADF, EINVAL, EBUSY.
#[unsafe(no_mangle)]
pub extern "C" fn napier_raw_napi_id(port: c_int) -> c_int {
    on(port, |object| c_int::try_from(object.port()?.napi_id()?).map_err(|_| Failure::of(libc::ERANGE)))
}

/// Waits until there are frames, timeout_ms at most; negative: for ever. It polls first, as napier_raw_busy_poll has it.
///
/// Threads: one at a time for each port. napier_close of another thread does not end it, napier_engine_stop does.
///
/// Gives 1 if there are, 0 if there are none; -1 and EBADF, EINVAL, EBUSY, ENODEV (the device or its interface was removed), ESHUTDOWN.
#[unsafe(no_mangle)]
pub extern "C" fn napier_raw_wait(port: c_int, timeout_ms: c_int) -> c_int {
    on(port, |object| {
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        Ok(object.port()?.wait(timeout)?.into())
    })
}

/// Takes at most count received frames, which stay in place until they are sent on or given back: 1024 of a port at most. It never waits.
///
/// Threads: one at a time for each port.
///
/// Gives how many; -1 and EBADF, EINVAL, EFAULT, EBUSY, ENOBUFS (1024 are held).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_rx_burst(port: c_int, frames: *mut NapierFrame, count: u32) -> c_int {
    on(port, |object| {
        // SAFETY: the caller has room for as many.
        let frames = unsafe { memory::array_mut(frames, count as usize, "frames") }?;
        Ok(object.port()?.receive(frames)? as c_int) // at most 1024
    })
}

/// Gives received frames back without sending them: their bytes are not to be touched any more.
///
/// Threads: one at a time for each port.
///
/// Gives how many, those before the first that is not held of this port; -1 and EBADF, EINVAL (the first is not), EFAULT, EBUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_rx_free(port: c_int, frames: *const NapierFrame, count: u32) -> c_int {
    on(port, |object| {
        // SAFETY: the caller has as many.
        let frames = unsafe { memory::array(frames, count as usize, "frames") }?;
        Ok(object.port()?.give_back(frames)? as c_int) // at most 1024
    })
}

/// Sends frames by a port's device, and shows them to the peer. One that was received by this port goes as it is, without a copy where the
/// rings share its memory, and is held no longer; it may have been changed in place, and shortened. One with token 0 is copied from data.
/// It stops where the ring is full.
///
/// Threads: one at a time for each port.
///
/// Gives how many were sent, the first ones; -1 and EBADF, EINVAL (the first is none of this port's, or too long), EFAULT, EBUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_tx_burst(port: c_int, frames: *const NapierFrame, count: u32) -> c_int {
    on(port, |object| {
        // SAFETY: the caller has as many.
        let frames = unsafe { memory::array(frames, count as usize, "frames") }?;
        // SAFETY: the caller's frames are as long as they say.
        let sent = unsafe { object.port()?.send(frames) }?;
        Ok(c_int::try_from(sent).unwrap_or(c_int::MAX))
    })
}

/// Builds at most count frames of at most len bytes each where they are sent from, and shows them to the peer: the cheapest way to send. build
/// is called for each, with context, until there is no room or it gives 0.
///
/// Threads: one at a time for each port. build is called by the calling thread.
///
/// Gives how many were sent; -1 and EBADF, EINVAL, EFAULT (build is NULL), EMSGSIZE (no frame can have len bytes), EBUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_tx_build(
    port: c_int,
    count: u32,
    len: usize,
    build: NapierBuild,
    context: *mut c_void,
) -> c_int {
    on(port, |object| {
        let build = build.ok_or_else(|| Failure::new(libc::EFAULT, "build is NULL"))?;
        let count = (count as usize).min(c_int::MAX as usize);
        let built = object.port()?.build(count, len, |room| {
            // SAFETY: the caller's function writes at most as many bytes as it is told.
            let bytes = unsafe { build(context, room.as_mut_ptr().cast(), room.len()) };
            bytes.min(room.len())
        })?;
        Ok(built as c_int) // at most `count`
    })
}

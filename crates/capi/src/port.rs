//! A raw port with the frames that C holds of it.
//!
//! A received frame stays where the device has put it until C sends it on or gives it back. C names it by a token: port, place and generation,
//! so that one that is gone, or another port's, is refused and never used.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use napier_runtime::device::DeviceHandle;
use napier_runtime::engine::WeakEngine;
use napier_runtime::raw::{BindRawError, RawBusyPoll, RawFrame, RawPort};

use crate::engine::DeviceObject;
use crate::error::Failure;

/// A frame of a raw port: received, or to be sent.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct NapierFrame {
    /// The bytes, from the Ethernet header on.
    pub data: *mut c_void,
    /// How many. Of a received frame that is sent on, at most as many as it had.
    pub len: u32,
    /// Zero.
    pub reserved: u32,
    /// Of a received frame, which; 0 for bytes of the program's own, which are copied when they are sent.
    pub token: u64,
}

/// Frames that a program can hold of one port.
pub const NAPIER_FRAMES_HELD_MAX: u32 = 1024;

/// Bits of a place, and of a port; the rest of a token is the generation.
const PLACE_BITS: u32 = NAPIER_FRAMES_HELD_MAX.ilog2();
const PORT_BITS: u32 = 32 - PLACE_BITS;

/// Numbers of ports, for tokens.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port, for one thread at a time.
pub(crate) struct Port {
    inner: Mutex<Inner>,
    device: DeviceHandle,
    engine: WeakEngine,
}

struct Inner {
    held: Vec<HeldFrame>,
    free: Vec<u32>,
    /// Which port this is, in the bits of a token.
    number: u32,
    port: Bound,
    /// Bytes of the longest frame that can be sent.
    frame_bytes: usize,
}

/// A place for a frame that C holds.
struct HeldFrame {
    generation: u32,
    frame: Option<RawFrame<'static>>,
}

/// A port of the engine, at one address for as long as this lives. Frames refer to it: they go first.
struct Bound(NonNull<RawPort>);

impl Bound {
    fn new(port: RawPort) -> Self {
        Self(NonNull::from(Box::leak(Box::new(port))))
    }

    /// What frames may refer to.
    fn port(&self) -> &'static RawPort {
        // SAFETY: it is there until this is dropped, and `Inner` drops all that refers to it before.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // SAFETY: made by `Box::leak`, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

const fn is_send<T: Send>() {}

// SAFETY: the frames refer to the port beside them alone, and the port is of a type that may go to another thread: all of it
// goes together, behind a lock.
unsafe impl Send for Inner {}
const _: () = is_send::<RawPort>();

impl Drop for Inner {
    fn drop(&mut self) {
        // They refer to the port.
        self.held.clear();
    }
}

impl From<BindRawError> for Failure {
    fn from(error: BindRawError) -> Self {
        let errno = match error {
            BindRawError::NoSuchQueue { .. } => libc::EINVAL,
            BindRawError::QueueBusy { .. } => libc::EBUSY,
        };
        Self::new(errno, error.to_string())
    }
}

impl Port {
    pub(crate) fn bind(device: &DeviceObject, queue: u32) -> Result<Self, Failure> {
        let queue = u16::try_from(queue).map_err(|_| Failure::invalid("there is no such queue"))?;
        let port = Bound::new(RawPort::bind(&device.handle, queue)?);
        let held = (0..NAPIER_FRAMES_HELD_MAX).map(|_| HeldFrame { generation: 1, frame: None }).collect();
        let free = (0..NAPIER_FRAMES_HELD_MAX).rev().collect();
        // Relaxed: a number alone.
        let number = (NEXT.fetch_add(1, Ordering::Relaxed) & ((1 << PORT_BITS) - 1)) << PLACE_BITS;
        let frame_bytes = port.port().frame_bytes();
        let inner = Mutex::new(Inner { held, free, number, port, frame_bytes });
        Ok(Self { inner, device: device.handle.clone(), engine: device.engine.clone() })
    }

    /// What the calling thread uses alone.
    fn own(&self) -> Result<MutexGuard<'_, Inner>, Failure> {
        self.inner.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::new(libc::EBUSY, "another thread is in a call on this port"),
            TryLockError::Poisoned(_) => Failure::of(libc::ENOTRECOVERABLE),
        })
    }

    pub(crate) fn set_busy_poll(&self, busy: RawBusyPoll) -> Result<(), Failure> {
        self.own()?.port.port().set_busy_poll(busy);
        Ok(())
    }

    pub(crate) fn napi_id(&self) -> Result<u32, Failure> {
        Ok(self.own()?.port.port().napi_id())
    }

    /// Waits for frames; false at the end of the time.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<bool, Failure> {
        let there = self.own()?.port.port().wait(timeout);
        if !there && self.engine.upgrade().is_none() {
            return Err(Failure::of(libc::ESHUTDOWN));
        }
        if !there && self.device.link_state().gone {
            return Err(Failure::of(libc::ENODEV));
        }
        Ok(there)
    }

    /// Takes received frames.
    pub(crate) fn receive(&self, frames: &mut [NapierFrame]) -> Result<usize, Failure> {
        let inner = &mut *self.own()?;
        let port = inner.port.port();
        if !port.recv() {
            return Ok(0);
        }
        let mut taken = 0;
        for frame in frames.iter_mut() {
            let Some(place) = inner.free.pop() else { break };
            let Some(mut received) = port.next() else {
                inner.free.push(place);
                break;
            };
            let bytes = received.data_mut();
            let (data, len) = (bytes.as_mut_ptr().cast(), bytes.len() as u32); // a frame has at most 64 KiB
            let held = &mut inner.held[place as usize];
            held.frame = Some(received);
            *frame = NapierFrame { data, len, reserved: 0, token: token(inner.number | place, held.generation) };
            taken += 1;
        }
        if taken == 0 && !frames.is_empty() && inner.free.is_empty() {
            return Err(Failure::of(libc::ENOBUFS));
        }
        Ok(taken)
    }

    /// Gives received frames back, until one is none of this port's.
    pub(crate) fn give_back(&self, frames: &[NapierFrame]) -> Result<usize, Failure> {
        let inner = &mut *self.own()?;
        let given = frames.iter().take_while(|frame| inner.take(frame.token).is_some()).count();
        handled(given, frames.len(), given < frames.len())
    }

    /// Sends frames, until there is no room.
    ///
    /// # Safety
    /// Each frame without token has as many bytes as it says.
    pub(crate) unsafe fn send(&self, frames: &[NapierFrame]) -> Result<usize, Failure> {
        let inner = &mut *self.own()?;
        let (mut sent, mut wrong) = (0, false);
        for frame in frames {
            // SAFETY: as the caller says.
            match unsafe { inner.send(frame) } {
                FrameSent::Yes => sent += 1,
                FrameSent::Full => break,
                FrameSent::Wrong => {
                    wrong = true;
                    break;
                }
            }
        }
        inner.port.port().flush();
        handled(sent, frames.len(), wrong)
    }

    /// Builds frames in the ring.
    pub(crate) fn build(
        &self,
        max: usize,
        len: usize,
        build: impl FnMut(&mut [u8]) -> usize,
    ) -> Result<usize, Failure> {
        let inner = &mut *self.own()?;
        if len == 0 || len > inner.frame_bytes {
            return Err(Failure::new(libc::EMSGSIZE, format!("frames have 1 to {} bytes", inner.frame_bytes)));
        }
        let port = inner.port.port();
        let built = port.build_batch(max, len, build);
        port.flush();
        Ok(built)
    }
}

/// What a burst came to: how many, or an error if the first one was wrong.
fn handled(done: usize, of: usize, wrong: bool) -> Result<usize, Failure> {
    if wrong && done == 0 && of > 0 {
        return Err(Failure::new(
            libc::EINVAL,
            "the frame is not held of this port, or has a length that it cannot have: a copy of another port's goes with token 0",
        ));
    }
    Ok(done)
}

enum FrameSent {
    Yes,
    Full,
    Wrong,
}

fn token(of_port: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(of_port)
}

impl Inner {
    /// The place of a frame that is held.
    fn place(&self, token: u64) -> Option<usize> {
        let (of_port, generation) = (token as u32, token >> 32); // the two halves
        let place = (of_port & (NAPIER_FRAMES_HELD_MAX - 1)) as usize;
        let held = self.held.get(place)?;
        let is_it = of_port == self.number | place as u32 && u64::from(held.generation) == generation; // of 1024
        (is_it && held.frame.is_some()).then_some(place)
    }

    /// A frame that is held no longer.
    fn take(&mut self, token: u64) -> Option<RawFrame<'static>> {
        let place = self.place(token)?;
        let held = &mut self.held[place];
        // Never 0, which is no token's.
        held.generation = held.generation.checked_add(1).unwrap_or(1);
        self.free.push(place as u32); // of 1024
        held.frame.take()
    }

    /// # Safety
    /// A frame without token has as many bytes as it says.
    unsafe fn send(&mut self, frame: &NapierFrame) -> FrameSent {
        let port = self.port.port();
        let len = frame.len as usize;
        if len == 0 || len > self.frame_bytes || frame.reserved != 0 {
            return FrameSent::Wrong;
        }
        if frame.token == 0 {
            if frame.data.is_null() {
                return FrameSent::Wrong;
            }
            // SAFETY: as the caller says.
            let bytes = unsafe { std::slice::from_raw_parts(frame.data.cast::<u8>(), len) };
            return copied(port, bytes);
        }
        let Some(place) = self.place(frame.token) else { return FrameSent::Wrong };
        let Some(held) = &self.held[place].frame else { return FrameSent::Wrong };
        match held.data().get(..len) {
            None => FrameSent::Wrong,
            Some(bytes) if len < held.data().len() => {
                let sent = copied(port, bytes);
                if matches!(sent, FrameSent::Yes) {
                    drop(self.take(frame.token));
                }
                sent
            }
            Some(_) => {
                let Some(whole) = self.held[place].frame.take() else { return FrameSent::Wrong };
                match port.forward(whole) {
                    Ok(()) => {
                        let held = &mut self.held[place];
                        held.generation = held.generation.checked_add(1).unwrap_or(1);
                        self.free.push(place as u32); // of 1024
                        FrameSent::Yes
                    }
                    Err(back) => {
                        self.held[place].frame = Some(back);
                        FrameSent::Full
                    }
                }
            }
        }
    }
}

fn copied(port: &RawPort, bytes: &[u8]) -> FrameSent {
    let built = port.build(bytes.len(), |room| {
        room.copy_from_slice(bytes);
        bytes.len()
    });
    if built.is_ok() { FrameSent::Yes } else { FrameSent::Full }
}

//! Devices: links, memif, AF_XDP.

use std::ffi::{c_char, c_int};
use std::net::IpAddr;
use std::time::Duration;

use napier_runtime::device::DeviceHandle;
use napier_runtime::socket::NetNs;

use crate::device::{Described, NapierDeviceOptions, NapierMemifOptions, NapierXdpOptions};
use crate::engine::EngineObject;
use crate::error::Failure;
use crate::memory;
use crate::table::{HANDLES, Object, on};

/// The description of a device of an engine.
///
/// # Safety
/// As [`memory::options`], and the texts end with a NUL.
unsafe fn described(engine: &EngineObject, options: *const NapierDeviceOptions) -> Result<Described, Failure> {
    // SAFETY: as the caller says.
    let options = unsafe { memory::options(options) }?;
    let netns: NetNs = match options.netns {
        0 => engine.netns.clone(),
        number => HANDLES.with(number, |object| Ok(object.place()?.0))?,
    };
    // SAFETY: as the caller says.
    unsafe { Described::read(&options, &netns) }
}

/// Adds a device under a number that was set aside before, so that what fails leaves none: what an engine has made for a device is used up.
fn kept(engine: &EngineObject, add: impl FnOnce() -> Result<DeviceHandle, Failure>) -> Result<c_int, Failure> {
    let place = HANDLES.reserve()?;
    Ok(place.fill(Object::Device(engine.keep(add()?)?)))
}

/// Adds a link: two devices in this process that are each other's peer, over shared memory. It has the queues, rings and frames of a.
/// Both are up. For tests, and for programs whose parts talk by packets; give them name spaces of their own.
///
/// Threads: any.
///
/// Gives 0 and two handles in devices; -1 and EBADF, EINVAL, EEXIST (the name is taken), ENOMEM, EMFILE.
/// After -1 there is no device, also if it is the mode of the engine that it refuses (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_add_link(
    engine: c_int,
    a: *const NapierDeviceOptions,
    b: *const NapierDeviceOptions,
    devices: *mut c_int,
) -> c_int {
    on(engine, |object| {
        let engine = object.engine()?;
        // SAFETY: the caller has set the size, and its texts end.
        let a = unsafe { described(engine, a) }?.with_mac();
        // SAFETY: the same.
        let b = unsafe { described(engine, b) }?.with_mac();
        // SAFETY: the caller has room for two.
        let devices = unsafe { memory::array_mut(devices, 2, "devices") }?;
        let config = a.link();
        let places = [HANDLES.reserve()?, HANDLES.reserve()?];
        let (one, other) = engine.engine.add_link(&config, a.end, b.end)?;
        // One that is refused takes the other along.
        let kept = [engine.keep(one)?, engine.keep(other)?];
        for ((number, place), device) in devices.iter_mut().zip(places).zip(kept) {
            *number = place.fill(Object::Device(device));
        }
        Ok(0)
    })
}

/// Adds a memif device, whose peer is another process: Napier, DPDK, VPP. It has no carrier until the peer is there (napier_wait_link).
///
/// Threads: any.
///
/// Gives its handle; -1 and EBADF, EINVAL, EEXIST, EADDRINUSE (a program listens there), ENOMEM, EMFILE, and those of bind(2).
/// After -1 there is no device, also if it is the mode of the engine that it refuses (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_add_memif(
    engine: c_int,
    memif: *const NapierMemifOptions,
    device: *const NapierDeviceOptions,
) -> c_int {
    on(engine, |object| {
        let engine = object.engine()?;
        // SAFETY: the caller has set the size, and its texts end.
        let device = unsafe { described(engine, device) }?.with_mac();
        // SAFETY: the caller has set the size.
        let memif = unsafe { memory::options(memif) }?;
        // SAFETY: the caller's texts end.
        let config = unsafe { device.memif(&memif) }?;
        kept(engine, || Ok(engine.engine.add_memif(config, device.end)?))
    })
}

/// Adds a device on a network interface of the kernel, by AF_XDP. Packets that are not for its addresses go on to the kernel, which must not
/// have them itself. It is up if the interface is.
///
/// Threads: any; the interface is one of the calling thread's network namespace.
///
/// Gives its handle; -1 and EBADF, EINVAL, EEXIST, ENODEV, EPERM, EBUSY (a queue or the interface has such a program already), EOPNOTSUPP
/// (the driver cannot), ENOMEM.
/// After -1 there is no device, also if it is the mode of the engine that it refuses (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_add_xdp(
    engine: c_int,
    xdp: *const NapierXdpOptions,
    device: *const NapierDeviceOptions,
) -> c_int {
    on(engine, |object| {
        let engine = object.engine()?;
        // SAFETY: the caller has set the size, and its texts end.
        let device = unsafe { described(engine, device) }?;
        // SAFETY: the caller has set the size.
        let xdp = unsafe { memory::options(xdp) }?;
        // SAFETY: the caller's texts end.
        let config = unsafe { device.xdp(&xdp) }?;
        kept(engine, || Ok(engine.engine.add_xdp(&config, device.end)?))
    })
}

/// Removes a device from its engine, of a link both ends: connections over it end with ENETRESET, a memif peer is told, and an interface
/// is free for other programs. Its name can be given again; its memory is given back with the engine. The handle shows its last figures until
/// it is closed.
///
/// Threads: any.
///
/// Gives 0; -1 and EBADF, EINVAL, ENODEV (it was removed before), ESHUTDOWN.
#[unsafe(no_mangle)]
pub extern "C" fn napier_remove_device(device: c_int) -> c_int {
    on(device, |object| {
        object.device()?.remove()?;
        Ok(0)
    })
}

/// Waits until a device has a peer, timeout_ms at most; negative: for ever.
///
/// Threads: any.
///
/// Gives 1 if it has one, 0 if it has none in time or never will, because it or its interface was removed; -1 and EBADF, EINVAL, ESHUTDOWN.
#[unsafe(no_mangle)]
pub extern "C" fn napier_wait_link(device: c_int, timeout_ms: c_int) -> c_int {
    on(device, |object| {
        let device = object.device()?;
        let mut left = u64::try_from(timeout_ms).map_or(Duration::MAX, Duration::from_millis);
        loop {
            // An engine that stops ends the wait.
            drop(device.engine()?);
            let now = left.min(Duration::from_millis(100));
            if device.handle.wait_link(now) {
                return Ok(1);
            }
            if device.handle.link_state().gone {
                return Ok(0);
            }
            left = if left == Duration::MAX { left } else { left - now };
            if left == Duration::ZERO {
                return Ok(0);
            }
        }
    })
}

/// Takes a device down (on is 0), or brings it up again.
///
/// Threads: any.
///
/// Gives 0; -1 and EBADF, EINVAL, ENODEV (it was removed), ESHUTDOWN.
#[unsafe(no_mangle)]
pub extern "C" fn napier_set_up(device: c_int, on: c_int) -> c_int {
    crate::table::on(device, |object| {
        let device = &object.device()?.handle;
        if on == 0 {
            device.set_down();
        } else {
            device.set_up()?;
        }
        Ok(0)
    })
}

/// Queues of a device.
///
/// Threads: any.
///
/// Gives how many; -1 and EBADF, EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn napier_queues(device: c_int) -> c_int {
    on(device, |object| Ok(object.device()?.handle.queues().into()))
}

/// The NAPI id of a queue, as SO_INCOMING_NAPI_ID names it.
///
/// Threads: any.
///
/// Gives it; -1 and EBADF, EINVAL (no such queue, or no device).
#[unsafe(no_mangle)]
pub extern "C" fn napier_napi_id(device: c_int, queue: u32) -> c_int {
    on(device, |object| {
        let queue = u16::try_from(queue).map_err(|_| Failure::of(libc::EINVAL))?;
        let id = object.device()?.handle.napi_id(queue);
        c_int::try_from(id).ok().filter(|id| *id != 0).ok_or_else(|| Failure::invalid("there is no such queue"))
    })
}

/// Sends what lies in no device's prefix to a gateway by this device; one for IPv4 and one for IPv6. gateway: an address as text.
///
/// Threads: any.
///
/// Gives 0; -1 and EBADF, EINVAL (the address is not on the device's link).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_set_gateway(device: c_int, gateway: *const c_char) -> c_int {
    on(device, |object| {
        // SAFETY: the caller's text ends with a NUL.
        let gateway = unsafe { memory::needed_text(gateway, "the gateway") }?;
        let gateway: IpAddr = gateway.parse().map_err(|_| Failure::invalid("the gateway is no address"))?;
        let device = &object.device()?.handle;
        device.netns().gateway_set(device.ifindex(), gateway).map_err(|error| Failure::invalid(error.to_string()))?;
        Ok(0)
    })
}

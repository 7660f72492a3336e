//! Figures by name.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};

use napier_runtime::device::DeviceStats;
use napier_runtime::engine::Engine;
use napier_runtime::event::EventStats;
use napier_runtime::metric::{Kind, Metric};

use crate::error::Failure;
use crate::memory;
use crate::table::{Object, on};

/// Bytes of a figure's name, the NUL included.
pub const NAPIER_STAT_NAME_BYTES: usize = 56;

/// A figure.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct NapierStat {
    /// Its name, which ends with a NUL.
    pub name: [c_char; NAPIER_STAT_NAME_BYTES],
    /// How many since the object was made.
    pub value: u64,
}

/// Figures of a device or a context, with the names of `napier_runtime`; or of a whole engine, by the names of docs/metrics.md, each summed
/// over all that have it. Whatever is lost is counted.
///
/// Threads: any; those that poll and send do not wait for it.
///
/// Gives how many figures there are, and the first count of them in stats; -1 and EBADF, EINVAL, EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_stats(handle: c_int, stats: *mut NapierStat, count: u32) -> c_int {
    on(handle, |object| {
        let figures = match object {
            Object::Engine(engine) => of_engine(&engine.engine),
            Object::Device(device) => of_device(&device.handle.stats()),
            Object::Context(context) => of_context(&context.stats()),
            Object::Netns(_) | Object::Socket(_) | Object::Event(_) | Object::Port(_) => {
                return Err(Failure::invalid("figures are those of an engine, a device or a context"));
            }
        };
        // SAFETY: the caller has room for as many.
        let stats = unsafe { memory::array_mut(stats, count as usize, "stats") }?;
        for (stat, (name, value)) in stats.iter_mut().zip(&figures) {
            *stat = NapierStat { name: name_of(name), value: *value };
        }
        c_int::try_from(figures.len()).map_err(|_| Failure::of(libc::EOVERFLOW))
    })
}

type Figures = Vec<(&'static str, u64)>;

/// Every field of a struct of counters: one that is new does not compile before it is here.
macro_rules! figures {
    ($name:ident($type:ident): $($field:ident)*) => {
        fn $name(stats: &$type) -> Figures {
            let $type { $($field),* } = *stats;
            vec![$((stringify!($field), $field)),*]
        }
    };
}

figures! { of_device(DeviceStats):
    rx_packets rx_bytes rx_no_frame rx_bad_descriptors rx_index_errors rx_too_long rx_wrong_checksums
    tx_packets tx_bytes tx_ring_full tx_no_frame tx_too_long tx_down tx_qdisc_drops tx_qdisc_drops_told
    tx_bad_descriptors tx_index_errors tx_kicks interrupts interrupts_suppressed
}

figures! { of_context(EventStats): waits events busy_loops sleeps wakes }

fn of_engine(engine: &Engine) -> Figures {
    let mut sums = BTreeMap::<&'static str, u64>::new();
    engine.metrics(&mut |metric: &'static Metric, _: &[&str], value: u64| {
        if metric.kind == Kind::Counter {
            let sum = sums.entry(metric.name).or_default();
            *sum = sum.saturating_add(value);
        }
    });
    sums.into_iter().collect()
}

/// As much of a name as there is room for, and a NUL.
fn name_of(name: &str) -> [c_char; NAPIER_STAT_NAME_BYTES] {
    let mut shown = [0; NAPIER_STAT_NAME_BYTES];
    for (place, byte) in shown.iter_mut().zip(name.bytes()).take(NAPIER_STAT_NAME_BYTES - 1) {
        *place = byte.cast_signed();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_an_engine_fits() {
        for metric in napier_runtime::metric::metrics() {
            assert!(metric.name.len() < NAPIER_STAT_NAME_BYTES, "{}", metric.name);
        }
    }
}

//! The options of UDP sockets, by the rules of [`crate::options`].

use std::sync::atomic::Ordering;

use napier_core::sockopt::SocketBusy;

use super::queue::UdpInner;
use super::sndbuf::SNDBUF_MIN;
use super::wishes::Needs;
use crate::host::Host;
use crate::options::{OptionError, PRIORITY_FREE_MAX, SocketOption, pacing_rate, set_busy, unpack};
use crate::tables::reuse::ReusePort;

/// Largest SO_RCVBUF that can be asked for, in bytes before doubling. Source: `net/core/sock.c sysctl_rmem_max`.
const RMEM_MAX: u32 = 4 << 20;
/// Largest SO_SNDBUF that can be asked for, in bytes before doubling. Source: `net/core/sock.c sysctl_wmem_max`.
const WMEM_MAX: u32 = 4 << 20;
/// Smallest receive buffer in bytes. Source: `include/net/sock.h SOCK_MIN_RCVBUF` (2048 and the size of an sk_buff).
const RCVBUF_MIN: usize = 2304;

impl UdpInner {
    pub(crate) fn set_option(&self, host: &dyn Host, option: SocketOption, value: i32) -> Result<(), OptionError> {
        let Some(busy_option) = option.busy() else {
            return self.set_other_option(host, option, value);
        };
        Ok(set_busy(&self.busy, busy_option, value, host.cap_net_admin())?)
    }

    fn set_other_option(&self, host: &dyn Host, option: SocketOption, value: i32) -> Result<(), OptionError> {
        match option {
            SocketOption::ReusePort => return Err(OptionError::AlreadyBound),
            SocketOption::Priority if !(0..=PRIORITY_FREE_MAX).contains(&value) && !host.cap_net_admin() => {
                return Err(OptionError::Priority);
            }
            SocketOption::Priority => self.egress.priority.store(value.cast_unsigned(), Ordering::Relaxed),
            SocketOption::MaxPacingRate => {
                self.egress.pacing_rate.store(pacing_rate(value), Ordering::Relaxed);
            }
            SocketOption::SndBuf => {
                let asked = value.cast_unsigned().min(WMEM_MAX) as usize;
                self.send_buffer.set_limit((asked * 2).max(SNDBUF_MIN));
                self.tell_writable();
            }
            SocketOption::UdpSegment => {
                self.wishes.set_segment(u16::try_from(value).map_err(|_| OptionError::Segment)?);
                // Release: pairs with the Acquire load in `send` — who sees this number sees the wishes.
                self.ends_epoch.fetch_add(1, Ordering::Release);
            }
            SocketOption::UdpGro => self.set_needs(Needs::MERGED, value != 0),
            _ => self.ask_rcvbuf(value),
        }
        Ok(())
    }

    /// A negative value counts as a huge one, as in `net/core/sock.c __sock_set_rcvbuf`.
    pub(crate) fn ask_rcvbuf(&self, bytes: i32) {
        let asked = bytes.cast_unsigned().min(RMEM_MAX) as usize;
        self.set_rcvbuf((asked * 2).max(RCVBUF_MIN));
    }

    pub(crate) fn option(&self, host: &dyn Host, option: SocketOption) -> Result<i32, OptionError> {
        match option.busy() {
            Some(busy_option) => Ok(self.busy().get(busy_option, host.first_napi_id())?),
            None if option == SocketOption::Priority => Ok(self.egress.priority.load(Ordering::Relaxed).cast_signed()),
            None if option == SocketOption::MaxPacingRate => {
                let rate = self.egress.pacing_rate.load(Ordering::Relaxed);
                Ok(u32::try_from(rate).map_or(-1, u32::cast_signed))
            }
            None if option == SocketOption::UdpSegment => Ok(self.wishes.segment().into()),
            None if option == SocketOption::UdpGro => Ok(i32::from(self.needs(Needs::MERGED))),
            None if option == SocketOption::ReusePort => Ok(i32::from(self.reuse != ReusePort::No)),
            None if option == SocketOption::SndBuf => {
                Ok(i32::try_from(self.send_buffer.limit()).expect("at most 8 MiB"))
            }
            None => Ok(i32::try_from(self.rcvbuf()).expect("at most 8 MiB")),
        }
    }

    /// The busy-poll settings with the id that is recorded now.
    pub(crate) fn busy(&self) -> SocketBusy {
        // Relaxed: the settings order nothing, nor does the id.
        let napi_id = self.napi_id.load(Ordering::Relaxed);
        SocketBusy { napi_id, ..unpack(self.busy.load(Ordering::Relaxed)) }
    }
}

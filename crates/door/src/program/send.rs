//! `sendto` with an address on a connection: TCP ignores the address, a Unix socket does not, so the bytes are sent for the program.

use std::os::fd::OwnedFd;

use napier_linux::process::{HeldSocketCall, Notifier};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::socket::{Inode, inode};
use crate::relay::CHUNK_BYTES;

/// Calls that may wait for room in one connection, or for its handshake.
const WAITS_MAX: usize = 16;

/// Calls that wait for room, the oldest first.
#[derive(Default)]
pub(super) struct Sends(pub(super) Vec<HeldSocketCall>);

impl Sends {
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= WAITS_MAX
    }
}

/// Flags that are refused; those that are not named here mean nothing on a Unix socket, or are what they are on TCP.
pub(super) fn refused(flags: i32) -> Option<&'static str> {
    let table =
        [(libc::MSG_FASTOPEN, "MSG_FASTOPEN"), (libc::MSG_OOB, "MSG_OOB"), (libc::MSG_ZEROCOPY, "MSG_ZEROCOPY")];
    table.into_iter().find(|(flag, _)| flags & flag != 0).map(|(_, name)| name)
}

/// Sends what a call names by the program's end of the pair, as much as there is room for; how many bytes, or an error of `errno(3)`: `EAGAIN` if
/// there is no room at all, `EINTR` if the call does not wait any more and nothing was sent.
pub(super) fn send_for(
    notifier: &Notifier,
    held: &HeldSocketCall,
    theirs: &OwnedFd,
    scratch: &mut [u8; CHUNK_BYTES],
) -> Result<i32, i32> {
    // No call sends more (`include/linux/fs.h MAX_RW_COUNT`).
    let wanted = held.argument(2).min(i32::MAX as u64 & !0xfff) as usize;
    let mut sent = 0;
    // No other thread takes bytes out of the pair meanwhile: its room is the bound.
    let ended = loop {
        let count = (wanted - sent).min(CHUNK_BYTES);
        let part = &mut scratch[..count];
        if notifier.read(held, held.argument(1).wrapping_add(sent as u64), part).is_err() {
            break Err(libc::EFAULT);
        }
        // What was read is of the thread that waits.
        if !notifier.is_waiting(held) {
            break Err(libc::EINTR);
        }
        match send(theirs, part, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(taken) => sent += taken,
            Err(Errno::INTR) => {}
            Err(error) => break Err(error.raw_os_error()),
        }
        if sent == wanted {
            break Ok(());
        }
    };
    match ended {
        Err(error) if sent == 0 => Err(error),
        _ => i32::try_from(sent).map_err(|_| libc::EINVAL),
    }
}

/// A copy of a thread's descriptor, if it is still that of the socket.
pub(super) fn copy_of(notifier: &Notifier, held: &HeldSocketCall, of: Inode) -> Option<OwnedFd> {
    let copy = notifier.copy_of(held.tid(), held.int(0)).ok()?;
    inode(&copy).is_ok_and(|found| found == of).then_some(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_would_do_another_thing_are_refused_by_name() {
        assert_eq!(refused(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_MORE), None);
        assert_eq!(refused(libc::MSG_NOSIGNAL | libc::MSG_FASTOPEN), Some("MSG_FASTOPEN"));
        assert_eq!(refused(libc::MSG_OOB), Some("MSG_OOB"));
    }
}

//! One file descriptor in place of another, under the same number.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Makes `target` the same open file as `source`: what `target` was before is closed, and its number stays.
///
/// # Errors
///
/// As `dup3(2)`.
pub fn replace(target: BorrowedFd<'_>, source: impl AsFd) -> io::Result<()> {
    let (source, target) = (source.as_fd().as_raw_fd(), target.as_raw_fd());
    // SAFETY: both numbers are open: they come from borrowed descriptors. `target` stays open, so its owner does
    // not notice.
    let done = unsafe { libc::dup3(source, target, libc::O_CLOEXEC) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_number_stays_and_the_file_is_another() {
        let (old, _old_peer) = UnixStream::pair().expect("sockets");
        let (new, mut peer) = UnixStream::pair().expect("sockets");
        let number = old.as_raw_fd();
        replace(old.as_fd(), &new).expect("both are open");
        assert_eq!(old.as_raw_fd(), number);
        peer.write_all(b"x").expect("open");
        let mut byte = [0];
        (&old).read_exact(&mut byte).expect("the new file");
        assert_eq!(byte, *b"x");
    }
}

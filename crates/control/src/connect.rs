//! Connecting to a socket in the file system, of any process: one that is stopped takes no connection, and the system would
//! wait for it for ever.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Waits for at most so long for room among those that wait to be taken in; with 0 not at all.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`]: it is there, and takes no connection. Others as of `connect(2)`.
pub(crate) fn to(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // No time at all would be for ever.
    let patience = patience.max(Duration::from_micros(1));
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

/// Whether something listens there, whether or not it takes anyone in.
pub(crate) fn is_there(path: &Path) -> bool {
    to(path, Duration::ZERO).map_or_else(|error| error.kind() == io::ErrorKind::WouldBlock, |_| true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    use super::*;

    #[test]
    fn one_that_takes_nobody_in_is_there() {
        let path = std::env::temp_dir().join(format!("napier-connect-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("bound");
        // One may wait, as `net/unix/af_unix.c unix_recvq_full` counts.
        rustix::net::listen(&listener, 0).expect("fewer");
        let first = to(&path, Duration::ZERO).expect("there is room");
        let begun = Instant::now();
        let error = to(&path, Duration::from_millis(50)).expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(begun.elapsed().as_millis() >= 40, "{:?}", begun.elapsed());
        assert!(is_there(&path));
        drop((first, listener));
        assert!(!is_there(&path));
        assert_eq!(to(&path, Duration::ZERO).expect_err("left").kind(), io::ErrorKind::ConnectionRefused);
        std::fs::remove_file(&path).expect("it was there");
    }
}

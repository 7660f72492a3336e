//! The other end of a program's connections: the kernel's stack in the right namespace of a pair, of which an engine has 10.79.0.9 on the left.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use napier_testnet::Veth;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn connect(pair: &Veth, port: u16) -> std::io::Result<TcpStream> {
    let to: SocketAddr = ([10, 79, 0, 9], port).into();
    let stream = pair.right().netns().run(|| TcpStream::connect_timeout(&to, PATIENCE)).expect("entered")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// A listener of the kernel, and its port.
pub(crate) fn listen(pair: &Veth) -> (TcpListener, String) {
    let listener = pair.right().netns().run(|| TcpListener::bind("10.79.0.2:0")).expect("entered").expect("bound");
    let port = listener.local_addr().expect("bound").port().to_string();
    (listener, port)
}

/// Sends bytes, ends that half, and expects them back.
pub(crate) fn echoes(mut stream: TcpStream, bytes: usize) {
    let sent: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    let mut writer = stream.try_clone().expect("a copy");
    let expected = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&sent).expect("sent");
        writer.shutdown(Shutdown::Write).expect("shut down");
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).expect("answered");
    writing.join().expect("sent");
    assert!(got == expected, "{} of {bytes} bytes came back", got.len());
}

/// The end of a connection, as its peer sees it.
pub(crate) fn sees_the_end(mut stream: TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
}

//! An echo server that knows nothing of Napier: a thread for each connection, blocking calls of the standard library.
//!
//! ```text
//! napier run --engine --door fast -- target/release/examples/plain_echo 192.0.2.10:7
//! ```

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// Bytes that are read at once.
const BYTES: usize = 16 << 10;

fn echo(mut stream: TcpStream) {
    let mut bytes = vec![0; BYTES];
    let _ = stream.set_nodelay(true);
    // Until the peer ends it.
    while let Ok(count) = stream.read(&mut bytes) {
        if count == 0 || stream.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

fn main() {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7007".to_owned());
    let listener = TcpListener::bind(&address).unwrap_or_else(|error| panic!("{address}: {error}"));
    println!("ready {address}");
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || echo(stream));
    }
}

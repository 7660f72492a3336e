//! Sockets of the Napier engine for tokio: [`TcpStream`], [`TcpListener`] and [`UdpSocket`] with tokio's traits, beside whatever else the
//! runtime does.
//!
//! A [`Reactor`] is the engine's part of a tokio runtime. It has an event context whose descriptor stands in the runtime's own
//! epoll, and a task that hands events on. While there is traffic the task polls the context and makes no system call; when there is none it
//! sleeps as all tasks do.
//!
//! ```
//! use napier_tokio::{Reactor, TcpListener, TcpStream};
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // An engine with a link in memory; `Engine::add_xdp` takes an interface.
//!     let (engine, device, peer) = napier_runtime::doc_link()?;
//!     let reactor = Reactor::start(&engine)?;
//!     let listener = TcpListener::bind(&reactor, device.netns(), "10.77.0.1:7")?;
//!     let answers = tokio::spawn(async move {
//!         let (mut stream, _) = listener.accept().await?;
//!         let mut buffer = [0; 64];
//!         let bytes = stream.read(&mut buffer).await?;
//!         stream.write_all(&buffer[..bytes]).await
//!     });
//!     let mut stream = TcpStream::connect(&reactor, peer.netns(), "10.77.0.1:7").await?;
//!     stream.write_all(b"hello").await?;
//!     let mut answer = [0; 5];
//!     stream.read_exact(&mut answer).await?;
//!     assert_eq!(&answer, b"hello");
//!     answers.await??;
//!     Ok(())
//! }
//! ```
//!
//! # Modes
//! [`Reactor::set_params`] has the busy-polling parameters of the context, as `EPIOCSPARAMS` has them for an epoll instance: with
//! `prefer_busy_poll` and devices whose interrupts are suspended it is `suspendX`, with a busy-poll time `napibusy`. The thread that runs the reactor's task
//! polls in it: other tasks of that thread wait for as long, so a busy-poll time is at most
//! [`BUSY_POLL_USECS_MAX`]. A task that was told of its socket runs before that. The task of `block_on`, which is `main` under `#[tokio::main]`,
//! has its turn only when the runtime looks at its own descriptors: that is a system call for each of its waits. Serve in a task that was spawned.
//!
//! Echo of 64 bytes over a link in memory, `fullbusy` on both sides, on a virtual machine with two CPUs: a spawned task takes 0.3 us
//! \[0.2 to 1.2\] more at the median than an event context (3 to 6 us), 20 pairs of `examples/echo_cost.rs`, and makes 0.01 system calls a request.
//!
//! # Features
//! | feature | what it adds |
//! |---|---|
//! | `axum` | [`TcpListener`] is an `axum::serve::Listener` |
//! | `tonic` | `TcpListenerStream` for `serve_with_incoming`; a [`TcpStream`] tells its ends to a service |
//! | `quinn` | `UdpSocket::into_quinn`, for `quinn::Endpoint::new_with_abstract_socket` |
//!
//! None is on unless it is asked for. A client of hyper takes a [`TcpStream`] in `hyper_util::rt::TokioIo`, as any stream of tokio.

#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "quinn")]
mod quinn;
mod reactor;
mod socket;
mod tcp;
#[cfg(feature = "tonic")]
mod tonic;
mod udp;

pub use reactor::{BUSY_POLL_USECS_MAX, Reactor};
pub use tcp::{TcpListener, TcpStream};
#[cfg(feature = "tonic")]
pub use tonic::TcpListenerStream;
pub use udp::UdpSocket;

//! The control vocabulary as JSON, and a socket at which a running engine answers to it.
//!
//! | module | holds |
//! |---|---|
//! | [`words`] | requests: names, accepted attributes, enum words, as `ynl --family netdev` takes them |
//! | [`record`] | answers, with the same keys and words |
//! | [`groups`] | groups of CPUs, for which the kernel has no words |
//! | [`metrics`] | the figures of an engine |
//! | [`place`] | where sockets are, and whose |
//! | [`server`] | [`ControlSocket`], the engine's end |
//! | [`client`] | the other end |
//!
//! A request is a line, and so is its answer:
//!
//! ```text
//! {"op": "napi-get", "how": "dump", "attributes": {"ifindex": 1}}
//! {"reply": [{"defer-hard-irqs": 0, "gro-flush-timeout": 0, "id": 513, "ifindex": 1, ...}]}
//! {"op": "napi-get", "how": "do", "attributes": {"id": 7}}
//! {"error": {"errno": "ENOENT", "message": "ENOENT: no enabled NAPI instance has id 7: ..."}}
//! ```
//!
//! `"dev": NAME` beside `attributes` is the engine's device of that name, as its `ifindex`. Answers come in the order of the
//! requests. What a client may take is bounded ([`server`]); who may ask is the user of the engine, and root.
//!
//! ```no_run
//! let engine = napier_runtime::engine::Engine::builder().start()?;
//! // As long as this lives the engine answers; it does not keep the engine running.
//! let socket = napier_control::ControlSocket::open(&engine)?;
//! println!("napier napi-get --engine {}", socket.name());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod changes;
pub mod client;
mod connect;
pub mod groups;
pub mod metrics;
pub mod place;
pub mod record;
mod refused;
pub mod server;
mod session;
pub mod words;

pub use client::{AskError, Client};
pub use server::ControlSocket;

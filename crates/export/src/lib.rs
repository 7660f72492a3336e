//! Figures for scrapers such as Prometheus: what a walk over [`napier_core::metric`] gives, as text and over HTTP.
//!
//! [`Exporter`] is the server: one thread, which is kept off the CPUs that poll, and `/metrics`. [`Exposition`] is the text alone.
//!
//! | module | holds |
//! |---|---|
//! | `exposition` | families out of a walk, and the OpenMetrics text of them, which `prometheus-client` writes |
//! | `page` | metrics as a table for people |
//! | `plain` | the same text in the older format, for who does not ask for OpenMetrics |
//! | `request` | what a client asked for, and what it is told: pure |
//! | `connection` | one client, bounded in bytes and in time |
//! | `server` | the thread |
//!
//! ```
//! use napier_core::metric::{Kind, Metric, Sink, Unit};
//! use napier_export::{Exposition, Format};
//! static POLLS: Metric = Metric {
//!     name: "napier_example_polls", kind: Kind::Counter, unit: Unit::Count, help: "Polls", labels: &["device"],
//! };
//! let page = Exposition::new(|sink: &mut dyn Sink| sink.sample(&POLLS, &["eth0"], 7));
//! assert!(page.text(Format::OpenMetrics).contains("napier_example_polls_total{device=\"eth0\"} 7\n"));
//! ```

mod connection;
mod exposition;
mod page;
mod plain;
mod request;
mod server;

pub use exposition::{Exposition, full_name};
pub use page::table;
pub use request::Format;
pub use server::{CONNECTIONS_MAX, Exporter, ListenError, Place, Polling};

//! A request to the kernel of this machine.

use napier_control::record;
use napier_control::words::Call;
use napier_core::control::Errno;
use napier_linux::netdev::{KernelQueue, Netdev, Told};
use napier_linux::{KernelError, Refusal};
use serde_json::{Map, Value, json};

use crate::Usage;

/// Carries out a request in the namespace of the calling thread.
pub(super) fn ask(call: Call) -> anyhow::Result<Value> {
    let mut netdev = Netdev::open::<napier_core::control::QueryError>().map_err(plain)?;
    Ok(match call {
        Call::NapiGet(request) => record::napi(&netdev.napi_get(request).map_err(plain)?).into(),
        Call::NapiDump { ifindex } => record::all(&netdev.napi_dump(ifindex).map_err(plain)?, record::napi),
        Call::NapiSet(request) => {
            netdev.napi_set(&request).map_err(plain)?;
            Value::Null
        }
        Call::QueueGet(request) => queue(&netdev.queue_get(request).map_err(plain)?).into(),
        Call::QueueDump { ifindex } => record::all(&netdev.queue_dump(ifindex).map_err(plain)?, queue),
        Call::DevGet { ifindex } => record::device(&netdev.dev_get(ifindex).map_err(plain)?).into(),
        Call::DevDump => record::all(&netdev.dev_dump().map_err(plain)?, record::device),
        Call::QstatsDump { ifindex, by_queue } => {
            record::all(&netdev.qstats_dump(ifindex, by_queue).map_err(plain)?, record::qstats)
        }
    })
}

pub(super) fn no_interface(name: &str) -> anyhow::Error {
    let text =
        format!("ENODEV: no interface is called {name} in this network namespace: ip link shows them (see --netns)");
    Usage(anyhow::anyhow!(text)).into()
}

/// What is told, as an error of this command: an interface that is not there is named wrongly, as a file would be.
pub(super) fn plain<R: Refusal>(told: Told<R>) -> anyhow::Error {
    let not_found = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let is_named_wrongly = told.error.errno() == Some(Errno::ENODEV)
        || matches!(&told.error, KernelError::Other(error) if not_found(error));
    let error = anyhow::anyhow!("{told}");
    if is_named_wrongly { Usage(error).into() } else { error }
}

/// As [`record::queue`], with what only a kernel's queue has.
fn queue(queue: &KernelQueue) -> Map<String, Value> {
    let mut shown = record::queue(&queue.info);
    shown.extend(queue.dmabuf.map(|id| ("dmabuf".to_owned(), id.into())));
    if let Some(memory) = queue.io_uring {
        let size = memory.rx_buf_len.map(|bytes| ("rx-buf-len".to_owned(), bytes.into()));
        shown.insert("io-uring".to_owned(), size.into_iter().collect::<Map<_, _>>().into());
    }
    shown.extend(queue.xsk.then(|| ("xsk".to_owned(), json!({}))));
    if let Some(lease) = queue.lease {
        let mut leased = Map::new();
        leased.extend(lease.ifindex.map(|ifindex| ("ifindex".to_owned(), ifindex.into())));
        leased.extend(lease.queue.map(|(id, kind)| ("queue".to_owned(), json!({"id": id, "type": kind.name()}))));
        leased.extend(lease.netns_id.map(|id| ("netns-id".to_owned(), id.into())));
        shown.insert("lease".to_owned(), leased.into());
    }
    shown
}

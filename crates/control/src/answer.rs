//! What an engine answers to a line.

use napier_core::control::NapiInfo;
use napier_runtime::engine::Engine;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::groups;
use crate::metrics;
use crate::record;
use crate::refused::{Refused, ifindex, invalid};
use crate::words::{Call, How, Operation, call};

/// A request as it comes over the socket.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestLine {
    op: String,
    how: String,
    #[serde(default)]
    attributes: Map<String, Value>,
    #[serde(default)]
    dev: Option<String>,
}

/// The answer to a line, as a line without its end. `None` stands for an engine that has stopped.
pub(crate) fn answer(engine: Option<&Engine>, line: &[u8]) -> String {
    let answer = engine.ok_or_else(|| Refused::plain("the engine has stopped")).and_then(|engine| {
        let line = read(line)?;
        if line.op == metrics::OPERATION && line.dev.is_none() {
            return metrics::answer(engine, &line.attributes);
        }
        Ok(json!({"reply": reply(engine, line)?}).to_string())
    });
    answer.unwrap_or_else(|refused| refused.line())
}

/// Whether a line changes groups, which may take its time: such a change waits for threads that poll.
pub(crate) fn is_change(line: &[u8]) -> bool {
    let changes = |op: &str| groups::OPERATIONS.contains(&op) && op != groups::GET;
    read(line).is_ok_and(|line| line.dev.is_none() && changes(&line.op))
}

fn read(line: &[u8]) -> Result<RequestLine, Refused> {
    serde_json::from_slice(line).map_err(|error| {
        invalid(format!(
            "a request is a line such as {{\"op\": \"napi-get\", \"how\": \"dump\", \"attributes\": {{}}}}: {error}"
        ))
    })
}

fn reply(engine: &Engine, line: RequestLine) -> Result<Value, Refused> {
    let RequestLine { op, how, mut attributes, dev } = line;
    if groups::OPERATIONS.contains(&op.as_str()) && dev.is_none() {
        return groups::carry_out(engine, &op, &attributes);
    }
    let names = || {
        let all = Operation::ALL.map(Operation::name).into_iter().chain(groups::OPERATIONS);
        all.chain([metrics::OPERATION]).collect::<Vec<_>>().join(", ")
    };
    let operation =
        Operation::from_name(&op).ok_or_else(|| invalid(format!("no such operation; there are {}", names())))?;
    let how = [How::Do, How::Dump].into_iter().find(|known| known.name() == how);
    let how = how.ok_or_else(|| invalid("how must be do or dump"))?;
    if let Some(name) = dev {
        if attributes.contains_key("ifindex") {
            return Err(invalid("ifindex and dev are both given: give one"));
        }
        attributes.insert("ifindex".to_owned(), ifindex(engine, &name)?.into());
    }
    carry_out(engine, &call(operation, how, &attributes)?)
}

/// An instance, and the group that polls it: an attribute that the kernel does not have.
fn instance(engine: &Engine, info: &NapiInfo) -> Value {
    let mut record = record::napi(info);
    record.extend(engine.group_of(info.id).map(|group| ("group".to_owned(), group.name.into())));
    record.into()
}

fn carry_out(engine: &Engine, call: &Call) -> Result<Value, Refused> {
    Ok(match *call {
        Call::NapiGet(request) => instance(engine, &engine.napi_get(request)?),
        Call::NapiDump { ifindex } => engine.napi_dump(ifindex)?.iter().map(|info| instance(engine, info)).collect(),
        Call::NapiSet(request) => {
            engine.napi_set(request)?;
            Value::Null
        }
        Call::QueueGet(request) => record::queue(&engine.queue_get(request)?).into(),
        Call::QueueDump { ifindex } => record::all(&engine.queue_dump(ifindex)?, record::queue),
        Call::DevGet { ifindex } => record::device(&engine.dev_get(ifindex)?).into(),
        Call::DevDump => record::all(&engine.dev_dump(), record::device),
        Call::QstatsDump { ifindex, by_queue } => record::all(&engine.qstats_dump(ifindex, by_queue)?, record::qstats),
    })
}

//! The two forms of an answer.

use std::io::{self, Write};

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

use super::python;

/// How an answer is printed.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// As `ynl` prints it.
    Python,
    /// As `ynl --output-json` prints it.
    Json,
}

pub(super) fn print(reply: &Value, form: Form) -> anyhow::Result<()> {
    let text = match form {
        Form::Python => python::pretty(reply),
        Form::Json => json(reply)?,
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// JSON in one line, with blanks where Python's `json.dumps` has them.
pub(super) fn json(value: &Value) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Blanks))?;
    Ok(String::from_utf8(bytes)?)
}

struct Blanks;

impl Blanks {
    fn comma<W: ?Sized + Write>(writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
}

impl Formatter for Blanks {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        Self::comma(writer, first)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        Self::comma(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

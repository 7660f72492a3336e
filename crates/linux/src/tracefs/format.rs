//! Where the fields of a tracepoint lie, as its `format` says. Pure.

use std::collections::BTreeMap;

/// The layout of a tracepoint's events on this kernel.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct EventFormat {
    /// Its number, which each of its events begins with.
    pub id: u16,
    fields: BTreeMap<String, Field>,
}

/// A field of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    offset: usize,
    size: usize,
    is_signed: bool,
}

impl EventFormat {
    /// Reads the file `format`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut format = Self::default();
        for line in text.lines().map(str::trim) {
            if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().unwrap_or(0);
            } else if let Some(field) = line.strip_prefix("field:") {
                format.fields.extend(Field::parse(field));
            }
        }
        format
    }

    /// Where a field lies; `None` if its events have no such field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.get(name).copied()
    }
}

impl Field {
    /// `unsigned int vec; offset:8; size:4; signed:0;`, and its name; `char comm[16]` has a length behind it.
    fn parse(text: &str) -> Option<(String, Self)> {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next()?.rsplit(' ').next()?.split('[').next()?.to_owned();
        let mut number = |label: &str| parts.next()?.strip_prefix(label)?.parse::<usize>().ok();
        let (offset, size) = (number("offset:")?, number("size:")?);
        Some((name, Self { offset, size, is_signed: number("signed:") == Some(1) }))
    }

    /// Its number in an event; `None` if the event is too short.
    #[must_use]
    pub fn number(self, event: &[u8]) -> Option<i64> {
        let bytes = event.get(self.offset..self.offset + self.size)?;
        Some(match (bytes.len(), self.is_signed) {
            (1, _) => i64::from(bytes[0]),
            (2, _) => i64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            (4, true) => i64::from(i32::from_ne_bytes(bytes.try_into().ok()?)),
            (4, false) => i64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            (8, _) => i64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// Its text in an event, up to the first zero.
    #[must_use]
    pub fn text(self, event: &[u8]) -> Option<String> {
        let bytes = event.get(self.offset..self.offset + self.size)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:const void * skaddr;\toffset:24;\tsize:8;\tsigned:0;\n\nprint fmt: \"field:\"\n";

    #[test]
    fn fields_are_found_where_the_kernel_says() {
        let format = EventFormat::parse(SWITCH);
        assert_eq!(format.id, 372);
        let mut event = vec![0; 32];
        event[4..8].copy_from_slice(&(-3_i32).to_ne_bytes());
        event[8..13].copy_from_slice(b"kv/0 ");
        event[24..32].copy_from_slice(&0xffff_8880_0000_1234_u64.to_ne_bytes());
        let field = |name: &str| format.field(name).expect("it has it");
        assert_eq!(field("common_pid").number(&event), Some(-3));
        assert_eq!(field("skaddr").number(&event), Some(0xffff_8880_0000_1234_u64.cast_signed()));
        assert_eq!(field("prev_comm").text(&event).as_deref(), Some("kv/0 "));
        assert_eq!((format.field("next_pid"), field("common_pid").number(&event[..6])), (None, None));
    }
}

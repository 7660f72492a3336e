//! A reader of pcapng files, of its own, for what the engine has written.

/// A frame of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Packet {
    pub(crate) at_ns: u64,
    pub(crate) length: u32,
    pub(crate) bytes: Vec<u8>,
    /// 1: received, 2: transmitted.
    pub(crate) direction: u32,
    pub(crate) queue: u32,
    pub(crate) lost: u64,
}

/// One section.
#[derive(Default, Debug)]
pub(crate) struct Section {
    pub(crate) if_name: String,
    pub(crate) snaplen: u32,
    pub(crate) packets: Vec<Packet>,
    /// Frames seen and dropped, if the section has an end.
    pub(crate) statistics: Option<(u64, u64)>,
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Upper half first.
fn time(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) << 32 | u64::from(le32(bytes, at + 4))
}

/// Code and value of each option up to the end.
fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut options = Vec::new();
    loop {
        let (code, length) = (le32(bytes, 0) as u16, (le32(bytes, 0) >> 16) as usize);
        let end = 4 + length.next_multiple_of(4);
        if code == 0 {
            assert_eq!((length, bytes.len()), (0, 4), "the end of the options is the end of the block");
            return options;
        }
        assert!(bytes[4 + length..end].iter().all(|byte| *byte == 0), "padding is zero");
        options.push((code, bytes[4..4 + length].to_vec()));
        bytes = &bytes[end..];
    }
}

fn number(options: &[(u16, Vec<u8>)], code: u16) -> Option<u64> {
    let value = &options.iter().find(|(have, _)| *have == code)?.1;
    Some(value.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Reads a whole file; anything out of order is a panic.
pub(crate) fn read(mut file: &[u8]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    while !file.is_empty() {
        let (kind, length) = (le32(file, 0), le32(file, 4) as usize);
        assert!(length.is_multiple_of(4) && length <= file.len(), "a block of {length} in {} bytes", file.len());
        assert_eq!(le32(file, length - 4) as usize, length);
        let body = &file[8..length - 4];
        file = &file[length..];
        if kind == 0x0a0d_0d0a {
            assert_eq!(le32(body, 0), 0x1a2b_3c4d);
            assert_eq!(le32(body, 4), 1, "version 1.0");
            assert!(!options(&body[16..]).is_empty());
            sections.push(Section::default());
            continue;
        }
        let section = sections.last_mut().expect("a section comes first");
        assert!(section.statistics.is_none(), "statistics come last");
        match kind {
            1 => {
                let options = options(&body[8..]);
                assert_eq!((le32(body, 0), number(&options, 9)), (1, Some(9)), "Ethernet, in ns");
                let name = options.iter().find(|(code, _)| *code == 2).unwrap().1.clone();
                (section.if_name, section.snaplen) = (String::from_utf8(name).unwrap(), le32(body, 4));
            }
            6 => {
                assert!(!section.if_name.is_empty() && le32(body, 0) == 0);
                let captured = le32(body, 12) as usize;
                let options = options(&body[20 + captured.next_multiple_of(4)..]);
                section.packets.push(Packet {
                    at_ns: time(body, 4),
                    length: le32(body, 16),
                    bytes: body[20..20 + captured].to_vec(),
                    direction: number(&options, 2).unwrap() as u32,
                    queue: number(&options, 6).unwrap() as u32,
                    lost: number(&options, 4).unwrap_or(0),
                });
            }
            5 => {
                let options = options(&body[12..]);
                section.statistics = Some((number(&options, 4).unwrap(), number(&options, 5).unwrap()));
            }
            _ => panic!("a block of type {kind}"),
        }
    }
    sections
}

//! Scripts in made time: what a peer sends, what a program does, and each segment that must leave, at its time.
//!
//! They stand in `tests/tcp/*.txt` of this crate. A line is one of these; `#` begins a comment; times are milliseconds since the line
//! before, exact to one.
//!
//! | line | |
//! |---|---|
//! | `segment N`, `control NAME`, `receive N` | before the beginning: the path's segment, `none`, `reno` or `cubic`, bytes of room |
//! | `connect`, `listen` | the connection begins; a listener waits for the first SYN |
//! | `T < FLAGS WORDS` | this comes |
//! | `T > FLAGS WORDS` | this leaves, and nothing before it |
//! | `T none` | nothing leaves for so long |
//! | `write N`, `read N`, `close`, `abort`, `nodelay`, `path N`, `keep IDLE EACH` | the program, or the path |
//! | `state NAME` | the state is this |
//!
//! FLAGS are letters of `SAFRP`, or `.`. Words: `seq=`, `ack=` count from the first number of their end; `len=`, `win=`, `mss=`, `ws=`,
//! `sackok`, `sack=1-5,9-10`; `ts=` the peer's clock, with which comes what ours said in the last segment, or in the one `echo=N`
//! segments before it. Of a segment that leaves only the words that stand there are compared; `sack=no`: it has none.

use std::path::Path;

use napier_core::tcp::congestion::Control;
use napier_core::tcp::options::{Options, Stamps};
use napier_core::tcp::ranges::SackBlock;
use napier_core::tcp::seq::Seq;
use napier_core::time::{Instant, Span};

use crate::tcp::machine::{Beginning, Inbound, Room, TcpMachine, TcpNumbers};
use crate::wire::flag;

const OURS: Seq = Seq(u32::MAX - 1200);
const THEIRS: Seq = Seq(u32::MAX - 700);
const LETTERS: [(char, u8); 5] =
    [('S', flag::SYN), ('A', flag::ACK), ('F', flag::FIN), ('R', flag::RST), ('P', flag::PSH)];
static BYTES: [u8; 1 << 16] = [3; 1 << 16];

struct Player<'s> {
    begin: Beginning,
    machine: Option<TcpMachine>,
    now: Instant,
    /// What our clock said, segment by segment.
    stamps: Vec<u32>,
    line: &'s str,
}

/// `key=value` among the words.
fn word<'w>(words: &[&'w str], key: &str) -> Option<&'w str> {
    words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

fn number(words: &[&str], key: &str) -> Option<u32> {
    word(words, key).map(|value| value.parse().unwrap_or_else(|_| panic!("{key} of {words:?}")))
}

fn flags(letters: &str) -> u8 {
    let bit = |letter| LETTERS.iter().find(|(of, _)| *of == letter).map_or(0, |(_, bit)| *bit);
    letters.chars().map(bit).sum()
}

fn blocks(text: &str, base: Seq) -> Vec<SackBlock> {
    let block = |part: &str| {
        let (start, end) = part.split_once('-').expect("a block");
        let at = |text: &str| base + text.parse::<u32>().expect("a number");
        SackBlock { start: at(start), end: at(end) }
    };
    text.split(',').filter(|part| *part != "no").map(block).collect()
}

impl Player<'_> {
    fn machine(&mut self) -> &mut TcpMachine {
        self.machine.as_mut().unwrap_or_else(|| panic!("{}: there is no connection yet", self.line))
    }

    /// Lets time go by; nothing may leave meanwhile.
    fn pass(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            if let Some(packet) = self.departs() {
                panic!("{}: at {:?} this left: {}", self.line, self.now, self.show(&packet));
            }
            let Some(machine) = &mut self.machine else { break };
            let Some(at) = machine.next_at(self.now).instant().filter(|at| *at <= until) else { break };
            self.now = at.max(self.now);
            machine.on_timer(self.now);
        }
        self.now = until;
    }

    fn departs(&mut self) -> Option<Vec<u8>> {
        let now = self.now;
        let machine = self.machine.as_mut()?;
        let departure = machine.departs(now, false)?;
        let mut packet = vec![0; departure.bytes()];
        departure.write((1, 2), machine.sender.bytes(departure.at, departure.len), &mut packet);
        Some(packet)
    }

    fn show(&self, packet: &[u8]) -> String {
        let seg = Inbound::of_segment(packet).expect("a header");
        let letters: String = LETTERS.iter().filter(|(_, bit)| seg.has(*bit)).map(|(letter, _)| *letter).collect();
        let blocks: Vec<_> = seg.options.blocks().iter().map(|b| (b.start - THEIRS, b.end - THEIRS)).collect();
        format!(
            "{letters} seq={} ack={} len={} win={} mss={:?} ws={:?} ts={:?} sack={blocks:?}",
            seg.seq - OURS,
            seg.ack - THEIRS,
            seg.payload.len(),
            seg.window,
            seg.options.syn.segment_bytes,
            seg.options.syn.scale,
            seg.options.stamps,
        )
    }

    /// The next segment, which must leave within a millisecond of `span` from now.
    fn expect(&mut self, span: Span, letters: &str, words: &[&str]) {
        let grain = Span::from_ms(1);
        let began = self.now;
        if span > grain {
            self.pass(Span { ns: span.ns - grain.ns });
        }
        let latest = began + span + grain;
        let packet = loop {
            if let Some(packet) = self.departs() {
                break packet;
            }
            let line = self.line;
            let now = self.now;
            let machine = self.machine();
            let next = machine.next_at(now).instant().filter(|at| *at <= latest);
            let Some(at) = next else {
                panic!(
                    "{line}: nothing left, {:?} {:?} {:?}",
                    machine.state(),
                    machine.sender.recovery,
                    machine.sender.sent
                )
            };
            machine.on_timer(at.max(now));
            self.now = at.max(now);
        };
        let shown = self.show(&packet);
        let seg = Inbound::of_segment(&packet).expect("a header");
        let line = self.line;
        assert_eq!(seg.flags, flags(letters), "{line}: {shown}");
        let same = |key: &str, is: u32| {
            if let Some(wanted) = number(words, key) {
                assert_eq!(is, wanted, "{line}: {key} of {shown}");
            }
        };
        same("seq", seg.seq - OURS);
        same("ack", seg.ack - THEIRS);
        same("len", seg.payload.len() as u32);
        same("win", seg.window.into());
        same("mss", seg.options.syn.segment_bytes.map_or(0, u32::from));
        same("ws", seg.options.syn.scale.map_or(0, u32::from));
        same("echo", seg.options.stamps.map_or(0, |stamps| stamps.echo));
        if let Some(wanted) = word(words, "sack") {
            assert_eq!(seg.options.blocks(), blocks(wanted, THEIRS), "{line}: {shown}");
        }
        if words.contains(&"sackok") {
            assert!(seg.options.syn.selective, "{line}: {shown}");
        }
        self.stamps.push(seg.options.stamps.map_or(0, |stamps| stamps.value));
    }

    fn comes(&mut self, letters: &str, words: &[&str]) {
        let mut options = Options::default();
        options.syn.segment_bytes = number(words, "mss").map(|mss| mss as u16);
        options.syn.scale = number(words, "ws").map(|scale| scale as u8);
        options.syn.selective = words.contains(&"sackok");
        if let Some(value) = number(words, "ts") {
            let back = number(words, "echo").unwrap_or(0) as usize;
            let echo = self.stamps.iter().rev().nth(back).copied().unwrap_or(0);
            options.stamps = Some(Stamps { value, echo });
        }
        if let Some(text) = word(words, "sack") {
            let all = blocks(text, OURS);
            options.count = all.len() as u8;
            options.blocks[..all.len()].copy_from_slice(&all);
        }
        let flags = flags(letters);
        let ack = number(words, "ack").map_or(Seq(0), |ack| OURS + ack);
        let seg = Inbound {
            seq: THEIRS + number(words, "seq").unwrap_or(0),
            ack,
            flags,
            window: number(words, "win").unwrap_or(65_535) as u16,
            options,
            payload: &BYTES[..number(words, "len").unwrap_or(0) as usize],
        };
        match &mut self.machine {
            Some(machine) => _ = machine.input(self.now, &seg),
            None => self.machine = Some(TcpMachine::accept(self.now, &self.begin, &seg)),
        }
    }

    fn command(&mut self, words: &[&str]) {
        let argument = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
        let first = || argument(1).unwrap_or_else(|| panic!("{words:?} needs a number"));
        let now = self.now;
        match words[0] {
            "segment" => self.begin.segment = first(),
            "receive" => self.begin.receive = Room::fixed(first()),
            "control" => {
                self.begin.control = match words[1] {
                    "none" => Control::None,
                    "reno" => Control::Reno,
                    "cubic" => Control::Cubic,
                    other => panic!("{other} is no congestion control"),
                }
            }
            "listen" => {}
            "connect" => self.machine = Some(TcpMachine::connect(now, &self.begin)),
            "write" => assert_eq!(self.machine().write(&BYTES[..first() as usize]), first() as usize),
            "read" => {
                let mut buffer = vec![0; first() as usize];
                let line = self.line;
                assert_eq!(self.machine().read(&mut buffer).0, buffer.len(), "{line}");
            }
            "close" => self.machine().close(),
            "abort" => self.machine().abort(),
            "nodelay" => self.machine().set_nodelay(true),
            "path" => _ = self.machine().set_path(now, first()),
            "keep" => {
                let span = |at| Span::from_ms(argument(at).expect("a time").into());
                self.machine().set_keep(now, Some((span(1), span(2))));
            }
            "state" => {
                let line = self.line;
                assert_eq!(format!("{:?}", self.machine().state()), words[1], "{line}");
            }
            other => panic!("{other}: there is no such line"),
        }
    }

    fn play(&mut self, words: &[&str]) {
        let Ok(ms) = words[0].parse() else { return self.command(words) };
        let span = Span::from_ms(ms);
        match words[1] {
            "none" => self.pass(span),
            "<" => {
                self.pass(span);
                self.comes(words[2], &words[3..]);
            }
            ">" => self.expect(span, words[2], &words[3..]),
            other => panic!("{other}: there is no such line"),
        }
    }
}

fn play(name: &str, text: &str) {
    let begin = Beginning {
        numbers: TcpNumbers { first: OURS, clock: u32::MAX - 100 },
        segment: 1460,
        receive: Room::RECEIVE,
        send: Room::SEND,
        control: Control::Cubic,
    };
    let mut player =
        Player { begin, machine: None, now: Instant::ZERO + Span::from_secs(7), stamps: Vec::new(), line: "" };
    for (at, line) in text.lines().enumerate() {
        let shown = format!("{name}:{}: {line}", at + 1);
        let line = line.split('#').next().unwrap_or("");
        let words: Vec<&str> = line.split_whitespace().collect();
        if !words.is_empty() {
            player.line = shown.leak();
            player.play(&words);
        }
    }
}

#[test]
fn every_script() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tcp");
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).expect("the folder").map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(names.len() >= 12, "{names:?}");
    for path in names {
        let text = std::fs::read_to_string(&path).expect("a script");
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(text.lines().next().is_some_and(|line| line.contains("RFC")), "{name} begins with its source");
        play(&name, &text);
    }
}

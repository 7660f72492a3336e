//! A path between two machines, and programs at its ends.

use std::collections::BTreeMap;

use napier_core::tcp::congestion::Control;
use napier_core::tcp::seq::Seq;
use napier_core::time::{Instant, Span};
use napier_rng::{Xoshiro256PlusPlus, below, open_unit, stream};

use crate::tcp::machine::{Beginning, Departure, Inbound, Room, TcpMachine, TcpNumbers, TcpState};
use crate::tcp::memory::Lender;
use crate::wire::flag;

/// Header bytes of a packet beside TCP's: Ethernet and IP.
const BELOW: u64 = 34;

/// What a path does, each way.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct PathConfig {
    /// One way.
    pub(super) delay: Span,
    /// Up to so much more, for each packet.
    pub(super) jitter: Span,
    /// In thousandths.
    pub(super) loss: u32,
    pub(super) repeat: u32,
    /// In thousandths: packets that are late by a half round trip.
    pub(super) reorder: u32,
    /// Bytes per second; 0: no limit.
    pub(super) rate: u64,
    /// Most bytes that wait for their turn.
    pub(super) queue: u64,
}

/// What a program writes, and how it reads.
#[derive(Copy, Clone, Debug)]
pub(super) struct ProgramConfig {
    pub(super) bytes: u64,
    /// Most that it reads at a time, each so often.
    pub(super) read: usize,
    pub(super) pause: Span,
}

#[derive(Clone, Debug)]
pub(super) struct WorldConfig {
    pub(super) seed: u64,
    pub(super) path: PathConfig,
    pub(super) programs: [ProgramConfig; 2],
    pub(super) control: Control,
    pub(super) segment: u32,
    pub(super) receive: Room,
    /// Timestamps and selective acknowledgements are taken out of the SYN.
    pub(super) plain: bool,
}

impl Default for WorldConfig {
    fn default() -> Self {
        let idle = ProgramConfig { bytes: 0, read: usize::MAX, pause: Span::ZERO };
        Self {
            seed: 1,
            path: PathConfig { delay: Span::from_ms(10), ..PathConfig::default() },
            programs: [ProgramConfig { bytes: 100_000, ..idle }, idle],
            control: Control::Cubic,
            segment: 1460,
            receive: Room::RECEIVE,
            plain: false,
        }
    }
}

/// The byte at a place of what an end writes.
fn byte(end: usize, place: u64) -> u8 {
    (place ^ place >> 8 ^ place >> 16) as u8 ^ (end as u8 * 0x55)
}

struct Side {
    machine: Option<TcpMachine>,
    written: u64,
    read: u64,
    ended: bool,
    closed: bool,
    /// When the way out is free.
    free_at: Instant,
    read_at: Instant,
}

pub(super) struct World {
    config: WorldConfig,
    rng: Xoshiro256PlusPlus,
    pub(super) now: Instant,
    sides: [Side; 2],
    /// By arrival; the second number tells those that come at one time apart.
    flying: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    count: u64,
    pub(super) sent: u64,
    pub(super) again: u64,
    pub(super) lost: u64,
    ports: (u16, u16),
    /// Of the buffers of both ends.
    lender: Lender,
}

impl World {
    pub(super) fn new(config: WorldConfig) -> Self {
        Self::with_lender(config, Lender::default())
    }

    pub(super) fn with_lender(config: WorldConfig, lender: Lender) -> Self {
        let side = || Side {
            machine: None,
            written: 0,
            read: 0,
            ended: false,
            closed: false,
            free_at: Instant::ZERO,
            read_at: Instant::ZERO,
        };
        let now = Instant::ZERO + Span::from_secs(5);
        let mut world = Self {
            rng: stream(config.seed, "path"),
            now,
            sides: [side(), side()],
            flying: BTreeMap::new(),
            count: 0,
            sent: 0,
            again: 0,
            lost: 0,
            ports: (5000, 80),
            config,
            lender,
        };
        let mut machine = TcpMachine::connect(now, &world.beginning(0));
        machine.charge_to(&world.lender);
        world.sides[0].machine = Some(machine);
        world
    }

    fn beginning(&self, end: usize) -> Beginning {
        // TcpNumbers begin anew during each transfer of some length.
        let first = Seq(u32::MAX - 30_000 - 7 * end as u32);
        let WorldConfig { segment, receive, control, .. } = self.config;
        Beginning { numbers: TcpNumbers { first, clock: u32::MAX - 900 }, segment, receive, send: Room::SEND, control }
    }

    fn fly(&mut self, from: usize, mut packet: Vec<u8>) {
        let PathConfig { delay, jitter, loss, repeat, reorder, rate, queue } = self.config.path;
        if self.config.plain {
            strip(&mut packet);
        }
        self.sent += 1;
        let mut at = self.now;
        if rate > 0 {
            let side = &mut self.sides[from];
            let free = side.free_at.max(self.now);
            let waiting = (free - self.now).ns as u128 * u128::from(rate) / 1_000_000_000;
            if waiting as u64 > queue {
                self.lost += 1;
                return;
            }
            let length = packet.len() as u64 + BELOW;
            side.free_at = free + Span::from_ns(length * 1_000_000_000 / rate);
            at = side.free_at;
        }
        let copies = 1 + u32::from(below(&mut self.rng, 1000) < repeat);
        for _ in 0..copies {
            if below(&mut self.rng, 1000) < loss {
                self.lost += 1;
                continue;
            }
            let mut arrives = at + delay + Span::from_ns((jitter.ns as f64 * open_unit(&mut self.rng)) as u64);
            if below(&mut self.rng, 1000) < reorder {
                arrives += delay + Span::from_us(50);
            }
            self.count += 1;
            self.flying.insert((arrives, self.count), (1 - from, packet.clone()));
        }
    }

    /// Lets an end do what it can: its program, and its machine.
    fn serve(&mut self, end: usize) {
        self.program(end);
        loop {
            let (now, ports) = (self.now, self.ports);
            let Some(machine) = &mut self.sides[end].machine else { return };
            let Some(departure) = machine.departs(now, false) else { return };
            let mut packet = vec![0; departure.bytes()];
            departure.write(ports, machine.sender.bytes(departure.at, departure.len), &mut packet);
            self.again += u64::from(departure.again);
            assert!(packet.len() <= 20 + self.config.segment as usize, "a packet fits");
            self.fly(end, packet);
        }
    }

    fn program(&mut self, end: usize) {
        let config = self.config.programs[end];
        let peer = 1 - end;
        let now = self.now;
        let side = &mut self.sides[end];
        let Some(machine) = &mut side.machine else { return };
        if matches!(machine.state(), TcpState::SynSent | TcpState::SynReceived) {
            return;
        }
        if now >= side.read_at {
            let mut buffer = vec![0; config.read.min(1 << 16)];
            loop {
                let (count, _) = machine.read(&mut buffer);
                for byte_read in &buffer[..count] {
                    assert_eq!(*byte_read, byte(peer, side.read), "byte {} of what {peer} wrote", side.read);
                    side.read += 1;
                }
                if count == 0 || !config.pause.is_zero() {
                    break;
                }
            }
            side.read_at = now + config.pause;
        }
        side.ended |= machine.receiver.ended && machine.unread() == 0;
        while side.written < config.bytes {
            let left = (config.bytes - side.written).min(10_000);
            let data: Vec<u8> = (side.written..side.written + left).map(|place| byte(end, place)).collect();
            let count = machine.write(&data);
            side.written += count as u64;
            if count == 0 {
                break;
            }
        }
        if side.written == config.bytes && !side.closed {
            side.closed = true;
            machine.close();
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
        let sides = self.sides.iter().filter_map(|side| {
            let machine = side.machine.as_ref()?;
            let reads = (machine.unread() > 0).then_some(side.read_at.max(self.now + Span::from_ns(1)));
            let timer = machine.next_at(self.now).instant();
            [reads, timer].into_iter().flatten().min()
        });
        arrival.into_iter().chain(sides).min()
    }

    /// Goes on to the next event; false: there is none.
    pub(super) fn step(&mut self) -> bool {
        for end in 0..2 {
            self.serve(end);
        }
        let Some(next) = self.next_event() else { return false };
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, packet) = entry.remove();
            self.arrives(to, &packet);
        }
        for side in &mut self.sides {
            if let Some(machine) = side.machine.as_mut().filter(|machine| machine.next_at(self.now).is_due(self.now)) {
                machine.on_timer(self.now);
            }
        }
        true
    }

    fn arrives(&mut self, to: usize, packet: &[u8]) {
        let seg = Inbound::of_segment(packet).expect("a whole header");
        let begin = self.beginning(to);
        let side = &mut self.sides[to];
        match &mut side.machine {
            // It is gone.
            Some(machine) if machine.state() == TcpState::Closed => {
                if seg.flags & flag::RST == 0 {
                    let refusal = Departure::refusal(&seg);
                    let mut packet = vec![0; refusal.bytes()];
                    refusal.write(self.ports, (&[], &[]), &mut packet);
                    self.fly(to, packet);
                }
                return;
            }
            Some(machine) => _ = machine.input(self.now, &seg),
            None => {
                let mut machine = TcpMachine::accept(self.now, &begin, &seg);
                machine.charge_to(&self.lender);
                side.machine = Some(machine);
            }
        }
        // What answers at once does.
        self.serve(to);
    }

    /// Both programs have read to the end, and all is acknowledged.
    pub(super) fn is_done(&self) -> bool {
        let programs = &self.config.programs;
        self.sides.iter().enumerate().all(|(end, side)| {
            side.ended
                && side.read == programs[1 - end].bytes
                && side.closed
                && side.machine.as_ref().is_some_and(|machine| machine.unacknowledged() == 0)
        })
    }

    /// Goes on until it is done. How long that took.
    pub(super) fn run(&mut self, patience: Span) -> Span {
        let began = self.now;
        let mut steps = 0_u64;
        while !self.is_done() {
            assert!(self.step(), "nothing happens any more: {self:?}");
            steps += 1;
            assert!(self.now - began < patience && steps < 20_000_000, "it does not end: {self:?}");
        }
        self.now - began
    }

    pub(super) fn machine(&self, end: usize) -> &TcpMachine {
        self.sides[end].machine.as_ref().expect("there is one")
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?}\nat {:?}, {} flying, {} sent, {} lost",
            self.config,
            self.now,
            self.flying.len(),
            self.sent,
            self.lost
        )?;
        for side in &self.sides {
            let Some(machine) = &side.machine else { continue };
            let sender = &machine.sender;
            write!(
                f,
                "\n{:?} written {} read {} unread {} una {:?} next {:?} window {} pipe {} lost {} there {} cwnd {} {:?} rto {:?} next at {:?}; expects {:?} window {}",
                machine.state(),
                side.written,
                side.read,
                machine.unread(),
                sender.una,
                sender.next,
                sender.window,
                sender.sent.pipe(),
                sender.sent.lost(),
                sender.sent.there(),
                sender.congestion.window(),
                sender.recovery.phase(),
                sender.trips.timeout(),
                machine.next_at(self.now),
                machine.receiver.next,
                machine.receiver.window(),
            )?;
        }
        Ok(())
    }
}

/// Takes all options but the segment size out of a SYN, by making them no operations.
fn strip(packet: &mut [u8]) {
    let len = usize::from(packet[12] >> 4) * 4;
    if packet[13] & 2 == 0 {
        return;
    }
    let mut at = 20;
    while at < len {
        match packet[at] {
            0 => return,
            1 => at += 1,
            kind => {
                let option = usize::from(packet[at + 1]);
                if kind != 2 {
                    packet[at..at + option].fill(1);
                }
                at += option;
            }
        }
    }
}

//! A peer that sends anything: no panic, no memory beyond what was offered, and no storm of answers.

use napier_core::tcp::congestion::Control;
use napier_core::tcp::options::{Options, Stamps};
use napier_core::tcp::ranges::SackBlock;
use napier_core::tcp::seq::Seq;
use napier_core::time::{Instant, Span};
use napier_rng::{Xoshiro256PlusPlus, below, stream};

use crate::tcp::machine::{Beginning, Inbound, Room, TcpMachine, TcpNumbers};
use crate::wire::flag;

const PAYLOAD: [u8; 3000] = [7; 3000];

fn near(rng: &mut Xoshiro256PlusPlus, of: Seq) -> Seq {
    match below(rng, 8) {
        0..3 => of,
        3..6 => of + below(rng, 5000) - 2500,
        6 => of + below(rng, 200_000) - 100_000,
        _ => Seq(below(rng, u32::MAX)),
    }
}

fn drawn(rng: &mut Xoshiro256PlusPlus, machine: &TcpMachine) -> Inbound<'static> {
    let (una, next) = machine.sender.under_way();
    let flags = [
        flag::ACK,
        flag::ACK,
        flag::ACK | flag::PSH,
        flag::ACK | flag::FIN,
        flag::SYN | flag::ACK,
        flag::SYN,
        flag::RST,
        0x3f,
    ];
    let common = below(rng, 10) < 7;
    let flags = if common { flag::ACK } else { flags[below(rng, 8) as usize] };
    let mut options = Options::default();
    if below(rng, 2) == 0 {
        options.stamps = Some(Stamps { value: below(rng, 100), echo: below(rng, u32::MAX) });
    }
    options.count = below(rng, 5) as u8;
    for block in &mut options.blocks {
        *block = SackBlock { start: near(rng, una), end: near(rng, next) };
    }
    let len = [0, 0, 1, 500, 1460, 3000][below(rng, 6) as usize];
    let of = if below(rng, 2) == 0 { una } else { next };
    Inbound {
        seq: near(rng, machine.receiver.next),
        ack: near(rng, of),
        flags,
        window: [0, 1, 100, 5000, 65_535][below(rng, 5) as usize],
        options,
        payload: &PAYLOAD[..len],
    }
}

#[test]
fn noise_harms_nobody() {
    for seed in 0..400 {
        let mut rng = stream(seed, "hostile");
        let mut now = Instant::ZERO + Span::from_secs(1);
        let receive = if seed % 2 == 0 { Room::fixed(20_000) } else { Room::RECEIVE };
        let control = [Control::None, Control::Reno, Control::Cubic][seed as usize % 3];
        let begin = Beginning {
            numbers: TcpNumbers { first: Seq(u32::MAX - 50_000), clock: 5 },
            segment: 1460,
            receive,
            send: Room::SEND,
            control,
        };
        let mut options = Options::default();
        options.syn.selective = seed % 3 != 0;
        options.syn.scale = (seed % 4 == 0).then_some(7);
        options.syn.segment_bytes = [None, Some(0), Some(1460), Some(u16::MAX)][seed as usize % 4];
        options.stamps = (seed % 5 < 3).then_some(Stamps { value: 1, echo: 0 });
        let seq = Seq(u32::MAX - 40_000);
        let syn = Inbound { seq, ack: Seq(0), flags: flag::SYN, window: 30_000, options, payload: &[] };
        let mut machine = TcpMachine::accept(now, &begin, &syn);
        let (mut sent, mut came) = (0_u64, 0_u64);
        let mut buffer = [0; 4000];
        for step in 0..1500 {
            now += Span::from_us(u64::from(below(&mut rng, 20_000)));
            let mut seg = drawn(&mut rng, &machine);
            if step == 0 {
                seg = Inbound { seq: seq + 1, ack: begin.numbers.first + 1, flags: flag::ACK, payload: &[], ..seg };
                seg.options.stamps = None;
            }
            if seg.has(flag::RST) && step < 1000 {
                continue;
            }
            came += 1;
            machine.input(now, &seg);
            if below(&mut rng, 4) == 0 {
                machine.write(&PAYLOAD[..below(&mut rng, 3000) as usize]);
            }
            if below(&mut rng, 6) == 0 {
                machine.read(&mut buffer);
            }
            if machine.next_at(now).is_due(now) {
                machine.on_timer(now);
            }
            match below(&mut rng, 400) {
                0 => machine.close(),
                1 => _ = machine.set_path(now, 200 + below(&mut rng, 1400)),
                _ => {}
            }
            let mut burst = 0;
            while let Some(departure) = machine.departs(now, below(&mut rng, 50) == 0) {
                let mut packet = vec![0; departure.bytes()];
                departure.write((1, 2), machine.sender.bytes(departure.at, departure.len), &mut packet);
                (sent, burst) = (sent + 1, burst + 1);
                assert!(burst < 20_000, "seed {seed}: it sends for ever");
            }
            assert!(
                machine.receiver.queue.room() <= 2 * (machine.receiver.limit() as usize).max(65_536),
                "seed {seed}"
            );
        }
        assert!(sent > 0 && came > 0);
    }
}

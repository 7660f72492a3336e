//! Hostile frames: the corpus of the fuzzer, and what is made of it.

use crate::fuzz::fuzz_frames;

fn corpus() -> Vec<Vec<u8>> {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/frames");
    let entries = std::fs::read_dir(corpus).expect("fuzz/corpus/frames is in the tree");
    let mut scripts: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    scripts.sort();
    assert!(!scripts.is_empty(), "the corpus is empty");
    scripts.into_iter().map(|path| std::fs::read(path).expect("a script")).collect()
}

/// The fuzzer's corpus, with every set of switches.
#[test]
fn the_corpus_of_hostile_frames() {
    for mut script in corpus() {
        for switches in 0..16 {
            script[0] = switches;
            fuzz_frames(&script);
        }
    }
}

/// A fuzzer for those who have none: scripts of the corpus, cut, joined and changed at random.
#[test]
fn frames_like_those_of_the_corpus() {
    let runs = std::env::var("NAPIER_FUZZ_RUNS").map_or(500, |runs| runs.parse().expect("a number"));
    let scripts = corpus();
    for seed in 0..runs {
        let mut state = seed;
        let mut roll = |faces: usize| {
            // splitmix64
            state = u64::wrapping_add(state, 0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) % faces as u64) as usize
        };
        let mut script = scripts[roll(scripts.len())].clone();
        let other = &scripts[roll(scripts.len())];
        script.extend_from_slice(&other[1..]);
        for _ in 0..1 + roll(8) {
            let at = roll(script.len());
            script[at] = if roll(2) == 0 { [0, 1, 4, 0x7f, 0x80, 0xff][roll(6)] } else { roll(256) as u8 };
        }
        let result = std::panic::catch_unwind(|| fuzz_frames(&script));
        assert!(result.is_ok(), "seed {seed}");
    }
}

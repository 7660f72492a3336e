//! Threads come and go, and what they have used stays.

use super::*;

fn program(name: &str) -> ThreadRole {
    ThreadRole::Program { name: name.to_owned() }
}

/// Uses the processor for a moment, as one that polls in vain.
fn spin(duties: &Duties) {
    let began = Clock.now();
    while Clock.now() - began < Span::from_us(200) {}
    duties.spun(7);
}

fn sum(threads: &Threads) -> Used {
    threads.by_role().into_iter().fold(Used::default(), |mut sum, (_, used)| {
        sum.add(used);
        sum
    })
}

#[test]
fn entries_go_with_their_threads_and_sums_never_fall() {
    let threads = Arc::new(Threads::default());
    let (mut before, many) = (Used::default(), 3 * GONE_MAX);
    for nth in 0..many {
        let of = threads.clone();
        let role = if nth % 2 == 0 { program(&format!("job {nth}")) } else { ThreadRole::Worker };
        // Every third one does not say that it ends.
        let work = move || {
            let mut duties = Duties::new();
            duties.begin(&of, role);
            spin(&duties);
            if nth % 3 > 0 {
                drop(duties.end(&of));
            }
        };
        std::thread::spawn(work).join().expect("it ends well");
        let now = sum(&threads);
        assert!(now.cpu > before.cpu && now.lived.ns > before.lived.ns && now.alive == 0, "{before:?} {now:?}");
        before = now;
    }
    assert_eq!(before.spun_ticks, 7 * many as u64);
    let roles = threads.by_role();
    assert!(roles.len() <= GONE_MAX + 1, "{}", roles.len());
    assert!(roles.iter().any(|(role, used)| *role == program(GONE) && used.spun_ticks > 7));
    let workers = roles.iter().find(|(role, _)| *role == ThreadRole::Worker).expect("all of them");
    assert_eq!(workers.1.spun_ticks, 7 * (many as u64 / 2));
}

#[test]
fn a_thread_can_count_for_several_engines_one_after_the_other() {
    let (one, other) = (Threads::default(), Threads::default());
    let mut duties = Duties::new();
    duties.begin(&one, program("a"));
    duties.begin(&other, program("b"));
    duties.spun(1);
    drop(duties.end(&one));
    duties.spun(2);
    drop(duties.end(&other));
    duties.spun(4);
    assert!(duties.end(&one).is_none());
    assert_eq!((sum(&one).spun_ticks, sum(&other).spun_ticks), (0, 3));
    assert_eq!((sum(&one).alive, sum(&other).alive), (0, 0));
}

//! Polls of a kernel's own text, by who made them.

use super::*;
use crate::tracefs::Recorded;

/// By a program in its own time, and in softirq with the name of what was interrupted.
const TEXT: &str = "\
       memcached-70      [000] ..b1.  10.000001: napi_poll: napi poll on napi struct 00000000aa for device eth0 work 1 budget 8
       memcached-70      [000] ..b1.  10.000002: napi_poll: napi poll on napi struct 00000000aa for device eth0 work 0 budget 8
       memcached-70      [000] ..s1.  10.000003: napi_poll: napi poll on napi struct 00000000aa for device eth0 work 2 budget 64
          <idle>-0       [000] ..s1.  10.000004: napi_poll: napi poll on napi struct 00000000aa for device eth0 work 0 budget 64
     ksoftirqd/1-20      [001] ..s1.  10.000005: napi_poll: napi poll on napi struct 00000000bb for device eth0 work 4 budget 64
     napi/eth0-9-30      [001] ..b1.  10.000006: napi_poll: napi poll on napi struct 00000000bb for device eth0 work 1 budget 64
";

#[test]
fn polls_are_told_by_who_made_them_and_scaled_to_what_the_kernel_counted() {
    let tracer = Tracer::new().and_then(|tracer| Ok((tracer, InstanceIds::new("eth0")?)));
    let (tracer, ids) = match tracer {
        Ok(made) => made,
        Err(error) if error.is_privilege() => {
            return napier_testkit::skip!("polls_are_told_by_who_made_them", "{error}");
        }
        Err(error) => panic!("{error}"),
    };
    let (polls, told, each, filter) = Default::default();
    let mut polling = Polling { tracer, filter, polls, told, each, ids: Some(ids) };
    let counts = |kept, overrun| EventCounts { kept, overrun, taken: 0 };
    let counted = [(0, counts(4, 396)), (1, counts(2, 0))].into();
    polling.add(&counted, &Recorded::of(TEXT).events);
    let found = polling.so_far();
    assert_eq!((found.softirq, found.ksoftirqd, found.work, found.total()), (201, 1, 305, 402));
    assert_eq!(found.interrupted, [("an idle CPU".to_owned(), 100), ("memcached".to_owned(), 100)].into());
    assert_eq!(found.threads, [(30, 1), (70, 200)].into());
    assert_eq!(found.names[&70], "memcached");
    let of = &found.of_instances[&0];
    let kinds: Vec<_> = of.iter().map(|(who, polls)| (who.kind(), who.program(), *polls)).collect();
    assert_eq!(
        kinds,
        [("softirq", "", 200), ("ksoftirqd", "", 1), ("napi-thread", "", 1), ("program", "memcached", 200)]
    );
    // The next look: on CPU 0 four more were counted, one of which came before this look's count was taken, and on CPU 1 none.
    let later = TEXT.lines().filter(|line| line.contains("[000]")).fold(String::new(), |text, line| text + line + "\n");
    let counts = |kept, overrun, taken| EventCounts { kept, overrun, taken };
    polling.add(&[(0, counts(3, 396, 5)), (1, counts(0, 0, 2))].into(), &Recorded::of(&later).events);
    let found = polling.so_far();
    assert_eq!((found.total(), found.work), (402 + 4, 305 + 3), "each is told once");
}

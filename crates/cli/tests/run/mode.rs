//! `napier mode`: the device's half of a mode, kept without a program.

use serde_json::{Value, json};

use super::SUSPENDED;
use super::bench::{Bench, end, stderr};
use crate::common::NAPIER;

#[test]
fn a_mode_is_kept_without_a_program_until_it_is_cleared() {
    let test = "a_mode_is_kept_without_a_program_until_it_is_cleared";
    let Some(bench) = Bench::new(test) else { return };
    let at_first = bench.napis();
    let set = |mode: &str, more: &[&str]| {
        bench.run(NAPIER, &[&["mode", "set", "--dev", "server", "--mode", mode], more].concat())
    };
    let dry = set("suspend20", &["--dry-run"]);
    assert!(dry.contains("irq-suspend-timeout of NAPI instance") && !dry.contains("epoll"), "{dry}");
    assert_eq!((bench.napis(), bench.is_clean()), (at_first.clone(), true));
    assert!(bench.run(NAPIER, &["mode", "show"]).contains("server: base\n"));
    let page = set("suspend20", &[]);
    assert!(page.contains("until napier mode clear --dev server"), "{page}");
    assert!(page.contains("every epoll descriptor of the program: busy_poll_usecs 0"), "{page}");
    let suspended = vec![SUSPENDED; 2];
    assert_eq!(bench.deferrals(), suspended);
    assert_eq!(bench.run(NAPIER, &["mode", "show", "--dev", "server"]), "server: suspend20; kept by napier mode set\n");
    // Commands come and go; a program may have another mode meanwhile, and what is kept is what it gets back.
    bench.run(NAPIER, &["host", "undo", "--stale"]);
    bench.run(NAPIER, &["run", "--dev", "server", "--mode", "threaded", "--", "true"]);
    assert_eq!(bench.deferrals(), suspended);
    // Another one takes its place: what was there before the first is what is put back.
    let document: Value = serde_json::from_str(&set("defer50", &["--json"])).expect("JSON");
    assert_eq!(document["replaced"].as_array().map(Vec::len), Some(6), "{document}");
    assert_eq!(bench.deferrals(), vec![[100, 50_000, 0]; 2]);
    let shown: Value = serde_json::from_str(&bench.run(NAPIER, &["mode", "show", "--json"])).expect("JSON");
    let server = shown["devices"].as_array().expect("a list").iter().find(|one| one["dev"] == "server");
    assert_eq!(server.map(|one| &one["changed_by"][0]["by"]), Some(&json!("mode set")), "{shown}");
    let cleared: Value =
        serde_json::from_str(&bench.run(NAPIER, &["mode", "clear", "--dev", "server", "--json"])).expect("JSON");
    assert_eq!((&cleared["left"], cleared["put_back"].as_array().map(Vec::len)), (&json!([]), Some(4)), "{cleared}");
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
    assert_eq!(bench.run(NAPIER, &["mode", "clear", "--dev", "server"]), "server: nothing is kept by mode set\n");
}

#[test]
fn what_is_refused_leaves_what_was_kept() {
    let test = "what_is_refused_leaves_what_was_kept";
    let Some(bench) = Bench::new(test) else { return };
    let at_first = bench.napis();
    bench.run(NAPIER, &["mode", "set", "--dev", "server", "--mode", "suspend20"]);
    let suspended = bench.napis();
    let refused = |args: &[&str], status, why: &str| {
        let output = bench.napier(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{args:?}: {}", stderr(&output));
        assert_eq!(bench.napis(), suspended, "{args:?}");
    };
    refused(&["mode", "set", "--dev", "server", "--mode", "group"], 2, "no groups");
    refused(&["mode", "set", "--dev", "no-such", "--mode", "base"], 2, "no interface no-such");
    // No kernel has it.
    refused(&["mode", "set", "--dev", "server", "--mode", "workqueue"], 1, "workqueue");
    let (running, _) = bench.python("defer20", &[], "print('on', flush=True); import time; time.sleep(60)");
    let meanwhile = bench.napier(&["mode", "set", "--dev", "server", "--mode", "defer50"]);
    assert_eq!(meanwhile.status.code(), Some(1), "{}", stderr(&meanwhile));
    assert!(stderr(&meanwhile).contains("another napier (pid "), "{}", stderr(&meanwhile));
    end(running, "-TERM");
    assert_eq!(bench.napis(), suspended, "a run on top of it gives it back");
    bench.run(NAPIER, &["host", "undo"]);
    assert_eq!(bench.napis(), at_first);
    assert!(bench.is_clean());
}

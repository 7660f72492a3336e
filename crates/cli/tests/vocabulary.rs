//! The kernel's vocabulary as commands: on a veth in a namespace of its own, beside the kernel's own `ynl`, and on a server's engine.

mod common;

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::{Command, Output};

use common::{NAPIER, Running, end, has, start};
use napier_testnet::{self as net, Veth, VethConfig};
use serde_json::{Value, json};

/// A pair whose first end, `server`, has NAPI instances, or a line that says why not.
fn pair(test: &str, queues: u16) -> Option<Veth> {
    let ends = net::ends(("server", &["10.82.0.101/24"]), ("client", &["10.82.0.2/24"]));
    net::pair(test, &VethConfig { queues, gro: true, tso: false, tx_checksum: false, ..ends })
}

/// The namespace as `--netns` takes it.
fn netns(pair: &Veth) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), pair.left().netns().as_fd().as_raw_fd())
}

fn run(program: &str, args: &[&str]) -> Output {
    Command::new("timeout").arg("60").arg(program).args(args).output().expect("timeout is installed")
}

/// Runs a command line of `napier`, whose words have no blanks.
fn napier(line: &str, more: &[&str]) -> Output {
    run(NAPIER, &line.split_whitespace().chain(more.iter().copied()).collect::<Vec<_>>())
}

fn words_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// What it prints as JSON.
fn answer(line: &str, more: &[&str]) -> Value {
    let output = napier(line, &[more, &["--json"]].concat());
    assert!(output.status.success(), "{line}: {}", words_of(&output));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

/// A refusal in one line, with this status.
fn refused(status: i32, line: &str, more: &[&str]) -> String {
    let output = napier(line, more);
    let said = words_of(&output);
    assert_eq!((output.status.code(), said.lines().count()), (Some(status), 1), "{line} {more:?}: {said}");
    said.strip_prefix("napier: ").unwrap_or_else(|| panic!("{said}")).trim_end().to_owned()
}

#[test]
fn an_instance_is_set_by_flags_and_by_the_text_of_ynl_and_five_seconds_survive() {
    let test = "an_instance_is_set_by_flags_and_by_the_text_of_ynl_and_five_seconds_survive";
    let Some(pair) = pair(test, 2) else { return };
    let netns = netns(&pair);
    let inside = ["--netns", &netns];
    let all = answer("napi-get --dump", &inside);
    let before = &all[0];
    let id = before["id"].to_string();
    let get = || answer(&format!("napi-get --id {id}"), &inside);
    assert_eq!(get(), *before, "one is as in the list");
    if before["irq-suspend-timeout"].is_null() {
        napier_testkit::skip!(test, "this kernel has no napi-set");
        return;
    }
    let set = format!("napi-set --id {id} --defer-hard-irqs 100 --gro-flush-timeout 5000000000 --threaded enabled");
    let output = napier(&set, &inside);
    assert!(output.status.success(), "{}", words_of(&output));
    assert_eq!(words_of(&output), "None\n", "as ynl prints it");
    let now = get();
    assert_eq!((&now["defer-hard-irqs"], &now["gro-flush-timeout"]), (&json!(100), &json!(5_000_000_000_u64)));
    assert_eq!((&now["threaded"], now["pid"].is_u64()), (&json!("enabled"), true));
    let text = format!(r#"{{"id": {id}, "irq-suspend-timeout": 18446744073709551615, "threaded": "disabled"}}"#);
    assert_eq!(answer("napi-set", &[&inside[..], &["--json", &text]].concat()), Value::Null);
    let now = get();
    assert_eq!((&now["irq-suspend-timeout"], &now["threaded"]), (&json!(u64::MAX), &json!("disabled")));
    assert_eq!(now["gro-flush-timeout"], json!(5_000_000_000_u64), "what was not named stays");
    let text = format!(r#"{{"id": {id}, "defer-hard-irqs": 0, "gro-flush-timeout": 0, "irq-suspend-timeout": 0}}"#);
    answer("napi-set --do", &[&inside[..], &["--json", &text]].concat());
    assert_eq!(answer("napi-get", &inside), all, "put back");
}

#[test]
fn what_is_asked_wrongly_is_bad_usage_and_changes_nothing() {
    let test = "what_is_asked_wrongly_is_bad_usage_and_changes_nothing";
    for (line, words) in [
        ("napi-set", "attribute id is missing"),
        ("napi-set --dump --id 1", "napi-set has no dump"),
        ("napi-get --do", "attribute id is missing"),
        ("napi-get --do --dump", "--dump"),
        ("queue-get --id 0 --type rx", "attribute ifindex is missing"),
        ("queue-get --type rx", "does not accept type: it takes ifindex"),
        ("queue-get --id 0 --ifindex 1 --type xdp", "type must be rx or tx"),
        ("dev-get --do", "attribute ifindex is missing"),
        ("qstats-get --do", "qstats-get has no do"),
        ("qstats-get --scope x", "scope must be queue"),
        ("napi-get --ifindex 1 --dev lo", "--dev"),
        ("napi-get --dev lo --json {\"ifindex\":1}", "give one"),
        ("napi-get --id 1 --json {\"id\":1}", "id is given twice"),
        ("napi-get --json [1]", "--json takes an object"),
        ("napi-get --json {\"id\":-1}", "id must be a whole number"),
        ("napi-set --json {\"id\":1,\"irq\":5}", "it takes id, defer-hard-irqs, gro-flush-timeout"),
        ("napi-set --id 1 --threaded busypoll", "threaded must be disabled, enabled or busy-poll"),
        ("napi-get --everywhere", "--dev"),
        ("napi-get --netns x --engine 1", "--engine"),
        ("serve kv --no-control", "--no-control would be ignored"),
    ] {
        let said = refused(2, line, &[]);
        assert!(said.contains(words), "{line}: {said}");
    }
    let Some(pair) = pair(test, 1) else { return };
    let netns = netns(&pair);
    let inside = ["--netns", netns.as_str()];
    let before = answer("napi-get", &inside);
    let id = before[0]["id"].to_string();
    let too_much = format!(r#"{{"id": {id}, "gro-flush-timeout": 7, "defer-hard-irqs": 2147483648}}"#);
    let said = refused(1, "napi-set", &[&inside[..], &["--json", &too_much]].concat());
    assert_eq!(said, "ERANGE: defer-hard-irqs must be 0..=2147483647");
    assert_eq!(answer("napi-get", &inside), before);
}

#[test]
fn the_kernels_refusals_are_said_in_words() {
    let test = "the_kernels_refusals_are_said_in_words";
    let Some(pair) = pair(test, 1) else { return };
    let netns = netns(&pair);
    let inside = ["--netns", netns.as_str()];
    let id = answer("napi-get", &inside)[0]["id"].to_string();
    for (line, words) in [
        ("napi-get --id 1", "ENOENT: no enabled NAPI instance has id 1"),
        ("napi-set --id 1 --defer-hard-irqs 1", "ENOENT: no enabled NAPI instance has id 1"),
        ("napi-get --ifindex 4000000", "ENODEV: no device has ifindex 4000000"),
        ("napi-get --ifindex 0", "ERANGE: ifindex must be at least 1"),
        ("queue-get --dev server --type tx --id 5", "EINVAL: there is no queue 5: the device has 1 of that type"),
        ("dev-get --dev nope", "ENODEV: no interface is called nope"),
        ("napi-get --everywhere --dev nope", "no interface is called nope"),
    ] {
        // An interface that is not there is named wrongly, in every command.
        let status = if words.contains("ENODEV") || words.contains("no interface") { 2 } else { 1 };
        let said = refused(status, line, &inside);
        assert!(said.contains(words), "{line}: {said}");
    }
    let busy = napier(&format!("napi-set --id {id} --threaded busy-poll"), &inside);
    let words = words_of(&busy);
    let old = "threaded must be 0..=1 (0 disabled, 1 enabled; 2 busy-poll is there since Linux 6.19)";
    assert!(busy.status.success() || words.contains(old) && words.contains("the kernel says: "), "{words}");
    let said = refused(2, "napi-get --netns no-such-namespace", &[]);
    assert!(said.contains("opening the network namespace no-such-namespace"), "{said}");
    if has(test, "setpriv") {
        let set = ["--bounding-set", "-net_admin", "--inh-caps", "-net_admin", NAPIER, "napi-set", "--id", &id];
        let output = run("setpriv", &[&set[..], &["--defer-hard-irqs", "1", "--netns", &netns]].concat());
        let words = words_of(&output);
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(words.contains("EPERM: napi-set needs CAP_NET_ADMIN (in the first user namespace"), "{words}");
    }
}

#[test]
fn all_places_of_a_setting_are_shown_at_once() {
    let Some(pair) = pair("all_places_of_a_setting_are_shown_at_once", 2) else { return };
    let netns = netns(&pair);
    let line = "napi-get --everywhere --dev server";
    let places = answer(line, &["--netns", &netns]);
    assert_eq!(places["sysfs"], json!({"threaded": 0, "gro_flush_timeout": 0, "napi_defer_hard_irqs": 0}));
    assert_eq!(places["instances"].as_array().map(Vec::len), Some(2));
    assert!(places["sysctl"]["net.core.netdev_budget"].is_i64(), "{places}");
    let text = words_of(&napier(line, &["--netns", &netns]));
    assert!(text.contains("/sys/class/net/server/gro_flush_timeout: 0\n") && text.contains("\ninstance "), "{text}");
}

/// How to start the kernel's own tool for this family: `NAPIER_TEST_YNL`, as in `python3 tools/net/ynl/pyynl/cli.py --spec
/// Documentation/netlink/specs/netdev.yaml --no-schema`, or the one that is installed.
fn ynl(test: &str) -> Option<Vec<String>> {
    match std::env::var("NAPIER_TEST_YNL") {
        Ok(line) => Some(line.split_whitespace().map(str::to_owned).collect()),
        Err(_) => has(test, "ynl").then(|| ["ynl", "--family", "netdev"].map(str::to_owned).to_vec()),
    }
}

#[test]
fn ynl_prints_the_same() {
    let test = "ynl_prints_the_same";
    let Some(ynl) = ynl(test) else { return };
    let Some(pair) = pair(test, 3) else { return };
    let netns = netns(&pair);
    let id = answer("napi-get", &["--netns", &netns])[1]["id"].clone();
    let ifindex = pair.left().ifindex();
    let one = json!({"id": id}).to_string();
    let set = json!({"id": id, "gro-flush-timeout": 5_000_000_000_u64, "threaded": "enabled"}).to_string();
    let device = json!({"ifindex": ifindex}).to_string();
    let queue = json!({"ifindex": ifindex, "type": "tx", "id": 2}).to_string();
    for (operation, how, request) in [
        ("napi-set", "--do", set.as_str()),
        ("napi-get", "--dump", "{}"),
        ("napi-get", "--dump", &device),
        ("napi-get", "--do", &one),
        ("queue-get", "--dump", "{}"),
        ("queue-get", "--do", &queue),
        ("dev-get", "--dump", "{}"),
        ("dev-get", "--do", &device),
        ("qstats-get", "--dump", "{}"),
        ("qstats-get", "--dump", r#"{"scope": "queue"}"#),
    ] {
        for form in [&[][..], &["--output-json"]] {
            let mut theirs: Vec<&str> = ynl.iter().map(String::as_str).collect();
            theirs.extend([how, operation, "--json", request]);
            theirs.extend(form);
            let net = format!("--net={netns}");
            let theirs = run("nsenter", &[&[net.as_str(), "--"][..], &theirs].concat());
            let ours = napier(operation, &[&[how, "--json", request, "--netns", &netns][..], form].concat());
            let (theirs, ours) = (words_of(&theirs), words_of(&ours));
            assert_eq!(comparable(&theirs), comparable(&ours), "{operation} {how} {request}\n{theirs}\n{ours}");
        }
    }
}

/// JSON as a value with sorted lists of words; text with the letters of its lines sorted, for Python prints the flags of a set in
/// an order that changes from run to run.
fn comparable(text: &str) -> String {
    fn sort(value: &mut Value) {
        match value {
            Value::Array(items) => {
                items.iter_mut().for_each(sort);
                if items.iter().all(Value::is_string) {
                    items.sort_by_key(|item| item.as_str().map(str::to_owned));
                }
            }
            Value::Object(record) => record.values_mut().for_each(sort),
            _ => {}
        }
    }
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            sort(&mut value);
            value.to_string()
        }
        Err(_) => {
            let sorted = |line: &str| {
                let mut letters: Vec<char> = line.chars().collect();
                if line.contains("-features") {
                    letters.sort_unstable();
                }
                letters.into_iter().collect::<String>()
            };
            text.lines().map(sorted).collect::<Vec<_>>().join("\n")
        }
    }
}

/// A server on AF_XDP at the first end.
fn serve(pair: &Veth, more: &[&str]) -> Running {
    let args = ["serve", "kv", "--dev", "xdp:server", "--ip", "10.82.0.1/24", "--mode", "suspend20"];
    pair.left().netns().run(|| start(&[&args, more].concat())).expect("the namespace is there")
}

#[test]
fn a_running_engine_has_the_same_words() {
    let Some(pair) = pair("a_running_engine_has_the_same_words", 1) else { return };
    let server = serve(&pair, &[]);
    let pid = server.0.id().to_string();
    let engine = ["--engine", pid.as_str()];
    let napis = answer("napi-get", &engine);
    let napi = &napis[0];
    assert_eq!((&napi["irq-suspend-timeout"], &napi["threaded"]), (&json!(20_000_000), &json!("disabled")));
    assert_eq!(napis.as_array().map(Vec::len), Some(1));
    let id = napi["id"].to_string();
    assert_eq!(answer("napi-get --dev napier0", &engine), napis);
    assert_eq!(answer(&format!("napi-get --id {id}"), &engine), *napi);
    answer(&format!("napi-set --id {id} --gro-flush-timeout 5000000000 --threaded workqueue"), &engine);
    let now = answer(&format!("napi-get --id {id}"), &engine);
    assert_eq!((&now["gro-flush-timeout"], &now["threaded"]), (&json!(5_000_000_000_u64), &json!("workqueue")));
    let queues = answer("queue-get --dev napier0", &engine);
    assert_eq!((&queues[0]["type"], &queues[0]["napi-id"]), (&json!("rx"), &napi["id"]));
    assert_eq!(answer("dev-get", &engine)[0]["ifindex"], napi["ifindex"]);
    assert!(answer("qstats-get --dev napier0", &engine)[0]["rx-packets"].is_u64());
    let said = refused(1, &format!("napi-set --id {id} --defer-hard-irqs 4294967295"), &engine);
    assert_eq!(said, "ERANGE: defer-hard-irqs must be 0..=2147483647");
    let said = refused(1, "queue-get --dev eth7", &engine);
    assert!(said.starts_with("ENODEV: the engine has no device of that name"), "{said}");
    end(server);
    let said = refused(1, "napi-get", &engine);
    assert!(said.contains("no engine answers as"), "{said}");
}

#[test]
fn a_server_without_a_control_socket_has_none() {
    let Some(pair) = pair("a_server_without_a_control_socket_has_none", 1) else { return };
    let server = serve(&pair, &["--no-control"]);
    let said = refused(1, "napi-get", &["--engine", &server.0.id().to_string()]);
    assert!(said.contains("no engine answers as") && said.contains("--no-control"), "{said}");
    end(server);
}

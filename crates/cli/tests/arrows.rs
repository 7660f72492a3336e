//! Who may use whom: the arrows between the crates are part of the design, so a wrong one fails here.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// Crate -> crates of this workspace that it may use outside of tests.
const ALLOWED: &[(&str, &[&str])] = &[
    ("napier-core", &[]),
    ("napier-ring", &["napier-core"]),
    ("napier-sys", &["napier-core", "napier-ring"]),
    ("napier-stack", &["napier-core", "napier-ring", "napier-sys"]),
    ("napier-memif", &["napier-core", "napier-ring", "napier-sys"]),
    ("napier-runtime", &["napier-core", "napier-memif", "napier-ring", "napier-sys", "napier-stack", "napier-xsk"]),
    ("napier-xsk", &["napier-core", "napier-ring", "napier-sys"]),
    ("napier-control", &["napier-core", "napier-runtime", "napier-sys"]),
    ("napier-door", &["napier-linux", "napier-ring", "napier-runtime", "napier-sys"]),
    ("napier-export", &["napier-core", "napier-sys"]),
    ("napier-rng", &[]),
    ("napier-scenario", &["napier-core"]),
    ("napier-sim", &["napier-core", "napier-rng", "napier-scenario"]),
    ("napier-conform", &["napier-core", "napier-linux", "napier-runtime", "napier-scenario", "napier-sim"]),
    ("napier-linux", &["napier-core", "napier-preload"]),
    ("napier-preload", &[]),
    ("napier-testkit", &[]),
    ("napier-verdict", &["napier-rng"]),
    ("napier-tokio", &["napier-runtime"]),
    ("napier-capi", &["napier-runtime"]),
    ("napier-trial", &["napier-core", "napier-linux", "napier-rng", "napier-verdict"]),
    ("napier-testnet", &["napier-linux", "napier-testkit"]),
    ("napier-kv", &["napier-rng", "napier-ring", "napier-runtime", "napier-linux"]),
    (
        "napier-lab",
        &[
            "napier-rng",
            "napier-kv",
            "napier-control",
            "napier-core",
            "napier-ring",
            "napier-runtime",
            "napier-scenario",
            "napier-sim",
            "napier-sys",
            "napier-linux",
            "napier-verdict",
        ],
    ),
    (
        "napier-research",
        &["napier-core", "napier-kv", "napier-lab", "napier-linux", "napier-rng", "napier-scenario", "napier-sim"],
    ),
    (
        "napier",
        &[
            "napier-rng",
            "napier-kv",
            "napier-control",
            "napier-core",
            "napier-door",
            "napier-export",
            "napier-ring",
            "napier-runtime",
            "napier-scenario",
            "napier-sim",
            "napier-conform",
            "napier-linux",
            "napier-lab",
            "napier-verdict",
            "napier-research",
            "napier-trial",
        ],
    ),
];

/// Crates outside the workspace that the two lowest crates may use: none, so that nothing can reach a
/// clock, a thread or the system from there. `loom` is there under `cfg(loom)` only.
const NOTHING_FROM_OUTSIDE: &[(&str, &[&str])] = &[("napier-core", &[]), ("napier-ring", &["loom"])];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// Dependencies by package, without those for tests.
fn arrows(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let text = |value: &Value| value.as_str().expect("a name").to_owned();
    metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|package| {
            let used = package["dependencies"].as_array().expect("dependencies").iter();
            let used = used.filter(|d| d["kind"] != "dev").map(|d| text(&d["name"])).collect();
            (text(&package["name"]), used)
        })
        .collect()
}

/// The arrows that are not allowed, as `from -> to`.
fn forbidden(arrows: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (from, used) in arrows {
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| name == from) else {
            wrong.push(format!("{from} is not in the list of crates"));
            continue;
        };
        let outside = NOTHING_FROM_OUTSIDE.iter().find(|(name, _)| name == from).map(|(_, outside)| *outside);
        for to in used {
            let inside = arrows.contains_key(to);
            let fine = if inside {
                allowed.contains(&to.as_str())
            } else {
                outside.is_none_or(|outside| outside.contains(&to.as_str()))
            };
            if !fine {
                wrong.push(format!("{from} -> {to}"));
            }
        }
    }
    wrong
}

#[test]
fn no_forbidden_arrow() {
    assert_eq!(forbidden(&arrows(&metadata())), Vec::<String>::new());
}

#[test]
fn a_forbidden_arrow_is_found() {
    let mut arrows = arrows(&metadata());
    arrows.get_mut("napier-core").expect("core exists").push("napier-ring".to_owned());
    arrows.get_mut("napier-ring").expect("ring exists").push("libc".to_owned());
    assert_eq!(forbidden(&arrows), ["napier-core -> napier-ring", "napier-ring -> libc"]);
}

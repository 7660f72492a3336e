//! Compiles the libraries that are loaded into programs: each has to be a shared object of its own, which no dependency of cargo can be.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Their names, and the folders of their sources.
const LIBRARIES: [(&str, &str); 2] = [("napier_modes", "library"), ("napier_sockets", "sockets")];

fn main() {
    for (name, folder) in LIBRARIES {
        println!("cargo::rerun-if-changed={folder}");
        build(name, folder);
    }
    // Links, which are part of `ring` as well.
    println!("cargo::rerun-if-changed=sockets/outbox.rs");
    println!("cargo::rerun-if-changed=sockets/record.rs");
}

fn build(name: &str, folder: &str) {
    let variable = |name: &str| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let library = PathBuf::from(variable("OUT_DIR")).join(format!("lib{name}.so"));
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", name]);
    rustc.args(["-C", "opt-level=2", "-C", "codegen-units=1", "-C", "strip=symbols", "-C", "debuginfo=0"]);
    // A thread that is cancelled in a wait unwinds the stack through the library.
    rustc.args(["-C", "panic=unwind"]);
    let built_for = variable("TARGET").to_string_lossy().into_owned();
    let target = of_programs(&built_for);
    let is_foreign = target != built_for;
    if *target != *variable("HOST") {
        rustc.arg("--target").arg(&target);
    }
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut with = OsString::from("linker=");
        with.push(linker);
        rustc.arg("-C").arg(with);
    }
    rustc.arg("-o").arg(&library).arg(format!("{folder}/lib.rs"));
    let status = rustc.status().unwrap_or_else(|error| panic!("{rustc:?}: {error}"));
    if !status.success() && is_foreign {
        // On a machine of musl alone: the rest of the command is as useful there.
        println!("cargo::warning=no lib{name}.so, which needs {target}: what needs it will be refused");
        fs::write(&library, []).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
        return;
    }
    assert!(status.success(), "{rustc:?}: {status}");
}

/// What the programs are that they are loaded into. A command that is linked statically with musl runs everywhere, and most programs
/// there have the GNU C library; `napier-linux` refuses the others before it loads these.
fn of_programs(target: &str) -> String {
    target.replace("-linux-musl", "-linux-gnu")
}

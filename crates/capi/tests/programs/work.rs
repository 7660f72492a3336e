//! Programs: how they are built, started, and ended.

use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use napier_testkit::{Folder, PATIENCE, skip};

/// A program in a folder of its own, with the library that it was built against.
pub(crate) struct Program {
    folder: Folder,
    /// What runs it: nothing, or valgrind.
    under: Vec<&'static str>,
}

/// The newest library of this name that cargo has made: where the test program is, or above.
fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this program");
    let deps = test.parent().expect("a folder");
    let places = [deps, deps.parent().expect("a folder")];
    let there = places.iter().map(|folder| folder.join(name)).filter(|path| path.exists());
    let newest = there.max_by_key(|path| std::fs::metadata(path).and_then(|meta| meta.modified()).expect("a time"));
    newest.unwrap_or_else(|| panic!("{name} is not in {}: cargo makes it with this test", deps.display()))
}

/// Builds an example, or a program of this folder, against the shared library, as `pkg-config --cflags --libs napier` would; `None`, and a line that says so, without a compiler.
pub(crate) fn build(test: &str, example: &str) -> Option<Program> {
    let folder = Folder::new(test);
    for name in ["libnapier.so", "libnapier.so.0"] {
        symlink(library("libnapier.so"), folder.file(name)).expect("a link");
    }
    let rest = ["-L.", "-lnapier", "-Wl,-rpath,$ORIGIN"];
    compile(test, example, &folder, &rest).then(|| Program { folder, under: Vec::new() })
}

/// Builds an example against the static library.
pub(crate) fn build_static(test: &str, example: &str) -> Option<Program> {
    let folder = Folder::new(test);
    symlink(library("libnapier.a"), folder.file("libnapier.a")).expect("a link");
    // What rustc says that the library needs (--print native-static-libs).
    let rest = ["libnapier.a", "-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];
    compile(test, example, &folder, &rest).then(|| Program { folder, under: Vec::new() })
}

fn compile(test: &str, example: &str, folder: &Folder, rest: &[&str]) -> bool {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = ["examples", "tests/programs"].map(|folder| crate_root.join(folder).join(format!("{example}.c")));
    let source = sources.iter().find(|path| path.exists()).expect("a source");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", "program"]).current_dir(folder);
    command.arg("-I").arg(crate_root.join("include")).arg(source).args(rest);
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip!(test, "cc is not installed");
            false
        }
        Err(error) => panic!("cc: {error}"),
    }
}

impl Program {
    /// The same under valgrind; `None`, and a line that says so, without it.
    pub(crate) fn under_valgrind(mut self, test: &str) -> Option<Self> {
        match Command::new("valgrind").arg("--version").output() {
            Ok(_) => {
                self.under = vec!["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full"];
                // Threads of an engine are many, and take turns there.
                self.under.extend([
                    "--errors-for-leak-kinds=definite",
                    "--show-leak-kinds=definite",
                    "--fair-sched=yes",
                    concat!("--suppressions=", env!("CARGO_MANIFEST_DIR"), "/tests/programs/valgrind.supp"),
                ]);
                Some(self)
            }
            Err(_) => {
                skip!(test, "valgrind is not installed");
                None
            }
        }
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let program = self.folder.file("program");
        let mut words = self.under.iter().copied().chain([program.as_str()]).chain(arguments.iter().copied());
        let mut command = Command::new(words.next().expect("at least the program"));
        // Not a pipe: nothing reads it before the end, and it may be long.
        let said = self.folder.file("said");
        let to = std::fs::File::create(&said).expect("a file");
        command.args(words).stdout(Stdio::piped()).stderr(to);
        Running { program: command.spawn().expect("the program starts"), said }
    }
}

/// A program that runs; it does not outlive this.
pub(crate) struct Running {
    program: Child,
    /// The file that it says its errors in.
    said: String,
}

impl Running {
    pub(crate) fn has_ended(&mut self) -> bool {
        self.program.try_wait().expect("it is a child").is_some()
    }

    /// Calls again and again until the program has ended.
    pub(crate) fn until_it_ends(&mut self, mut call: impl FnMut()) {
        napier_testkit::eventually("the program ends", || {
            call();
            self.has_ended()
        });
    }

    /// Waits until it has ended; what it wrote, if it ended well.
    pub(crate) fn end(self) -> String {
        let (status, wrote, said) = self.ended();
        assert!(status.success(), "{status}: {wrote}{said}");
        wrote
    }

    /// Waits until it has ended; how it did, what it wrote, and its errors.
    pub(crate) fn ended(mut self) -> (ExitStatus, String, String) {
        let begun = Instant::now();
        let status: ExitStatus = loop {
            if let Some(status) = self.program.try_wait().expect("it is a child") {
                break status;
            }
            assert!(begun.elapsed() < 3 * PATIENCE, "the program does not end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let mut wrote = String::new();
        self.program.stdout.take().expect("a pipe").read_to_string(&mut wrote).expect("text");
        (status, wrote, std::fs::read_to_string(&self.said).expect("text"))
    }

    /// Waits for its first line.
    pub(crate) fn first_line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        let output = self.program.stdout.as_mut().expect("a pipe");
        while output.read(&mut byte).expect("it can be read") == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8(line).expect("text")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

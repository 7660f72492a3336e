//! The library that is loaded into a program where a mode needs another time-out of its waits (`fullbusy`), and the program's
//! file, as far as that depends on it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The library beside this command.
const LIBRARY: &str = "libnapier_modes.so";

/// Scripts that are run by scripts; more are taken for no program.
const SCRIPTS_MAX: usize = 4;

/// Why no library can be loaded into a program.
#[derive(Debug, thiserror::Error)]
pub enum PreloadError {
    /// There is no such program.
    #[error("{} cannot be started: there is no such program", .0.display())]
    NoProgram(PathBuf),
    /// It loads none.
    #[error("{} is {is}, so no library can be loaded into it: take another mode, such as suspend20", file.display())]
    NotLoadable {
        /// The program.
        file: PathBuf,
        /// Setuid, or linked statically.
        is: &'static str,
    },
    /// It was not built, or is elsewhere.
    #[error("{LIBRARY} is not beside this command: build it (cargo build --release -p napier-preload)")]
    NotFound,
}

/// The library for a program: the one that is given, else the one beside this command or where it is installed.
///
/// # Errors
/// [`PreloadError`]: it cannot be loaded into this program, or there is none.
pub fn preload_for(program: &OsStr, given: Option<&Path>) -> Result<PathBuf, PreloadError> {
    let file = find_program(program).ok_or_else(|| PreloadError::NoProgram(program.into()))?;
    let is = match (is_setuid(&file), is_dynamic(&file)) {
        (true, _) => "setuid",
        (false, false) => "linked statically",
        (false, true) => {
            let path = given.map(Path::to_owned).or_else(library).ok_or(PreloadError::NotFound)?;
            return path.canonicalize().map_err(|_| PreloadError::NotFound);
        }
    };
    Err(PreloadError::NotLoadable { file, is })
}

/// What `LD_PRELOAD` has to be, so that this library comes before others that the environment names.
#[must_use]
pub fn ld_preload(library: &Path) -> OsString {
    let others = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty());
    let mut all = library.as_os_str().to_owned();
    others.iter().for_each(|others| {
        all.push(":");
        all.push(others);
    });
    all
}

/// The file that a name stands for, as `execvp(3)` finds it.
#[must_use]
pub fn find_program(name: &OsStr) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.components().count() > 1 {
        return path.is_file().then(|| path.to_owned());
    }
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_program)
}

/// Whether it runs with the rights of its owner: a library cannot be loaded into it, nor its calls be held by a user.
#[must_use]
pub fn is_setuid(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.permissions().mode() & 0o6000 != 0)
}

/// Whether a library can be loaded into it: it, or what runs it if it is a script, names a loader. Source: `elf(5)`.
fn is_dynamic(path: &Path) -> bool {
    let mut path = path.to_owned();
    for _ in 0..SCRIPTS_MAX {
        let mut head = Vec::new();
        let Ok(file) = File::open(&path) else { return false };
        if (&file).take(256).read_to_end(&mut head).is_err() {
            return false;
        }
        let Some(line) = head.strip_prefix(b"#!") else { return names_loader(&file, &head) };
        let line = String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next().unwrap_or_default()).into_owned();
        let mut words = line.split_whitespace();
        let Some(interpreter) = words.next() else { return false };
        path = match (interpreter.ends_with("/env"), words.next().and_then(|name| find_program(OsStr::new(name)))) {
            (true, Some(found)) => found,
            _ => PathBuf::from(interpreter),
        };
    }
    false
}

/// Whether an ELF file of 64 bits has a header `PT_INTERP`.
fn names_loader(file: &File, head: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    if head.len() < 64 || !head.starts_with(b"\x7fELF\x02") {
        return false;
    }
    let half = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let offset = u64::from_le_bytes(head[32..40].try_into().expect("8 bytes"));
    (0..half(56)).any(|nth| {
        let mut kind = [0; 4];
        let at = offset.saturating_add(nth * half(54));
        file.read_exact_at(&mut kind, at).is_ok() && u32::from_le_bytes(kind) == PT_INTERP
    })
}

/// Beside this command or where it is installed.
fn library() -> Option<PathBuf> {
    let command = std::env::current_exe().ok()?;
    let folder = command.parent()?;
    let places = [folder.join(LIBRARY), folder.join("../lib/napier").join(LIBRARY), folder.join("deps").join(LIBRARY)];
    places.into_iter().find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_what_is_none() {
        let shell = find_program(OsStr::new("sh")).expect("there is a shell");
        assert!(is_dynamic(&std::env::current_exe().expect("it runs")) && shell.is_file());
        assert!(!is_dynamic(Path::new("/proc/self/status")) && !is_setuid(&shell));
        let none = preload_for(OsStr::new("no-such-program-here"), None);
        assert!(matches!(none, Err(PreloadError::NoProgram(_))));
        let text = preload_for(OsStr::new("/proc/self/status"), Some(Path::new("/")));
        assert!(matches!(text, Err(PreloadError::NotLoadable { is: "linked statically", .. })));
    }
}

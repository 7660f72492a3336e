//! What is loaded into a program where a mode needs other waits of it (`fullbusy`), or where its bytes go past its sockets, and the program's file,
//! as far as that depends on it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::library::{OwnLibrary, first_place, library};

/// Scripts that are run by scripts; more are taken for no program.
const SCRIPTS_MAX: usize = 4;

/// Why no library can be loaded into a program.
#[derive(Debug, thiserror::Error)]
pub enum PreloadError {
    /// There is no such program.
    #[error("{} cannot be started: there is no such program", .0.display())]
    NoProgram(PathBuf),
    /// It loads none.
    #[error("{} is {is}, so this one cannot be loaded into it", file.display())]
    NotLoadable {
        /// The program.
        file: PathBuf,
        /// Setuid, linked statically, or of another C library.
        is: &'static str,
    },
    /// This command was built for musl where there was nothing to compile the library for the GNU C library.
    #[error("this command was built without it, on a machine that has no GNU C library to build it for")]
    NotBuilt,
    /// There is no place for the library's file.
    #[error("the library cannot be written anywhere: {0}")]
    NoPlace(String),
    /// The file that was given cannot be named to a loader.
    #[error("{}: the loader takes no path with a blank or a colon (ld.so(8))", .0.display())]
    Path(PathBuf),
}

/// The library for a program: the one that is given, else this command's own.
///
/// # Errors
/// [`PreloadError`]: it cannot be loaded into this program, or there is no place for it.
pub fn preload_for(program: &OsStr, given: Option<&Path>) -> Result<PathBuf, PreloadError> {
    preload(program, given, OwnLibrary::Modes, |own| library(own).map_err(PreloadError::NoPlace))
}

/// The library for a program whose bytes go past its sockets (`napier_preload::SOCKETS`).
///
/// # Errors
/// [`PreloadError`]: as above.
pub fn sockets_preload_for(program: &OsStr) -> Result<PathBuf, PreloadError> {
    preload(program, None, OwnLibrary::Sockets, |own| library(own).map_err(PreloadError::NoPlace))
}

/// The same without writing its file: where it would be.
///
/// # Errors
/// [`PreloadError`]: it cannot be loaded into this program.
pub fn preload_would_be(program: &OsStr, given: Option<&Path>) -> Result<PathBuf, PreloadError> {
    preload(program, given, OwnLibrary::Modes, |own| Ok(first_place(own)))
}

fn preload(
    program: &OsStr,
    given: Option<&Path>,
    own: OwnLibrary,
    place: impl FnOnce(OwnLibrary) -> Result<PathBuf, PreloadError>,
) -> Result<PathBuf, PreloadError> {
    let file = find_program(program).ok_or_else(|| PreloadError::NoProgram(program.into()))?;
    let is = if is_setuid(&file) { Some("setuid") } else { unloadable(&file) };
    if let Some(is) = is {
        return Err(PreloadError::NotLoadable { file, is });
    }
    let Some(given) = given else {
        return if own.bytes().is_empty() { Err(PreloadError::NotBuilt) } else { place(own) };
    };
    let path = given.canonicalize().map_err(|error| PreloadError::NoPlace(format!("{}: {error}", given.display())))?;
    let is_taken = !path.to_string_lossy().contains([' ', ':']);
    if is_taken { Ok(path) } else { Err(PreloadError::Path(path)) }
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

/// Why no library can be loaded into it: it, or what runs it if it is a script, names no loader, or another C library's. Source:
/// `elf(5)`.
fn unloadable(path: &Path) -> Option<&'static str> {
    let mut path = path.to_owned();
    for _ in 0..SCRIPTS_MAX {
        let mut head = Vec::new();
        let Ok(file) = File::open(&path) else { return Some("not readable") };
        if (&file).take(256).read_to_end(&mut head).is_err() {
            return Some("not readable");
        }
        let Some(line) = head.strip_prefix(b"#!") else { return unloadable_object(&file, &head) };
        let line = String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next().unwrap_or_default()).into_owned();
        let mut words = line.split_whitespace();
        let Some(interpreter) = words.next() else { return Some("a script without an interpreter") };
        path = match (interpreter.ends_with("/env"), words.next().and_then(|name| find_program(OsStr::new(name)))) {
            (true, Some(found)) => found,
            _ => PathBuf::from(interpreter),
        };
    }
    Some("a script of a script of a script")
}

/// The same of an ELF file: it has to be of this machine, with a header `PT_INTERP` that names the loader of the C library that this
/// library is linked with, of a version that has what the library needs.
fn unloadable_object(file: &File, head: &[u8]) -> Option<&'static str> {
    const PT_INTERP: u32 = 3;
    #[cfg(target_arch = "x86_64")]
    const MACHINE: u64 = 62;
    #[cfg(target_arch = "aarch64")]
    const MACHINE: u64 = 183;
    if head.len() < 64 || !head.starts_with(b"\x7fELF") {
        return Some("linked statically");
    }
    let half = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
    if head[4] != 2 || half(18) != MACHINE {
        return Some("a program of another machine or of 32 bits");
    }
    let offset = u64::from_le_bytes(head[32..40].try_into().expect("8 bytes"));
    let interpreter = (0..half(56)).find_map(|nth| {
        let mut header = [0; 40];
        file.read_exact_at(&mut header, offset.saturating_add(nth * half(54))).ok()?;
        let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
        (header[..4] == PT_INTERP.to_le_bytes()).then(|| (word(8), word(32)))
    });
    let Some((at, len)) = interpreter else { return Some("linked statically") };
    let mut loader = vec![0; usize::try_from(len).unwrap_or(0).min(256)];
    file.read_exact_at(&mut loader, at).ok()?;
    if has(&loader, b"musl") {
        return Some("linked with musl and not with the GNU C library");
    }
    let loader = OsStr::from_bytes(loader.split(|byte| *byte == 0).next().unwrap_or_default());
    // One that is not there starts no program either.
    let is_old = std::fs::read(loader).is_ok_and(|loader| !has(&loader, NEEDED));
    is_old.then_some("linked with a GNU C library before 2.34")
}

/// What the library needs of the C library, as a loader of it says of itself. It would end a program that it cannot give that. Source:
/// glibc `elf/Versions`, `__rtld_version_placeholder`.
const NEEDED: &[u8] = b"GLIBC_2.34\0";

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|found| found == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_what_is_none() {
        let shell = find_program(OsStr::new("sh")).expect("there is a shell");
        assert_eq!(unloadable(&shell), None);
        assert!(unloadable(Path::new("/proc/self/status")).is_some() && !is_setuid(&shell));
        let none = preload_for(OsStr::new("no-such-program-here"), None);
        assert!(matches!(none, Err(PreloadError::NoProgram(_))));
        let text = preload_for(OsStr::new("/proc/self/status"), Some(Path::new("/")));
        assert!(matches!(text, Err(PreloadError::NotLoadable { is: "linked statically", .. })));
        let path = preload_for(OsStr::new("sh"), Some(Path::new("/no/such/file")));
        assert!(matches!(path, Err(PreloadError::NoPlace(_))));
    }

    /// A shell that names another loader.
    fn shell_with(loader: &str, folder: &Path) -> Option<&'static str> {
        let mut shell = std::fs::read(find_program(OsStr::new("sh")).expect("there is a shell")).expect("readable");
        let at = shell.windows(7).position(|part| part == b"/lib64/" || part == b"/lib/ld").expect("a loader");
        let end = at + shell[at..].iter().position(|byte| *byte == 0).expect("an end");
        shell[at..end].fill(0);
        shell[at..at + loader.len()].copy_from_slice(loader.as_bytes());
        let file = folder.join("shell");
        std::fs::write(&file, shell).expect("written");
        unloadable(&file)
    }

    #[test]
    fn programs_of_other_c_libraries_are_told() {
        let folder = napier_testkit::Folder::new("other_c_libraries");
        let musl = shell_with("/lib/ld-musl-x86_64.so.1", &folder);
        assert_eq!(musl, Some("linked with musl and not with the GNU C library"));
        // A file that is not one stands for a loader of before.
        assert_eq!(shell_with("/etc/passwd", &folder), Some("linked with a GNU C library before 2.34"));
        assert_eq!(shell_with("/no/such/loader", &folder), None);
    }

    #[test]
    fn the_libraries_need_no_later_c_library_than_is_asked_for() {
        for own in [OwnLibrary::Modes, OwnLibrary::Sockets] {
            let versions = own.bytes().split(|byte| *byte == 0).filter_map(|text| text.strip_prefix(b"GLIBC_2."));
            let minor = |text: &[u8]| std::str::from_utf8(text).ok()?.split('.').next()?.parse::<u32>().ok();
            let latest = versions.filter_map(minor).max().expect("it is linked with it");
            assert!(latest <= 34 && NEEDED == b"GLIBC_2.34\0", "{own:?}: 2.{latest}");
        }
    }
}

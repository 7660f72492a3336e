//! What is given as a file and is none, or never ends.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{read, read_text};

/// A name in the folder for such, which is not there yet.
fn name(of: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("napier-given-{}-{of}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn fifo(of: &str) -> PathBuf {
    let path = name(of);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe with a name");
    path
}

#[test]
fn a_file_is_read_up_to_its_bound() {
    let path = name("file");
    std::fs::write(&path, "twelve bytes").unwrap();
    assert_eq!(read_text(&path, 12).unwrap(), "twelve bytes");
    let error = read(&path, 11).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::FileTooLarge, "it has more than 11 bytes"));
    std::fs::write(&path, [0xff]).unwrap();
    assert_eq!(read_text(&path, 12).unwrap_err().kind(), ErrorKind::InvalidData);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read(&path, 12).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn devices_and_folders_are_refused() {
    for (path, what) in [("/dev/zero", "a device"), ("/dev/null", "a device"), ("/proc", "a folder")] {
        let error = read(Path::new(path), 1 << 20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path}");
        assert!(error.to_string().contains(what), "{path}: {error}");
    }
}

#[test]
fn a_pipe_is_read_to_its_end_and_no_further_than_its_bound() {
    let path = fifo("pipe");
    let write = |parts: &'static [&'static str]| {
        let path = path.clone();
        std::thread::spawn(move || {
            let mut pipe = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            for part in parts {
                std::thread::sleep(Duration::from_millis(5));
                if pipe.write_all(part.as_bytes()).is_err() {
                    return; // the reader had enough
                }
            }
        })
    };
    let writer = write(&["in ", "three ", "parts"]);
    assert_eq!(read_text(&path, 100).unwrap(), "in three parts");
    writer.join().unwrap();
    let writer = write(&["too ", "long ", "by far"]);
    assert_eq!(read(&path, 7).unwrap_err().kind(), ErrorKind::FileTooLarge);
    writer.join().unwrap();
    std::fs::remove_file(&path).unwrap();
}

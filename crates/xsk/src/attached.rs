//! Whose program is on an interface already, and how it is taken off.

use std::path::Path;

use napier_sys::netdev::{self, Attached};

/// What to do about the program that is on an interface of the calling thread's namespace.
pub(crate) fn mend(interface: &str, ifindex: u32) -> String {
    let Some(Attached { generic, program }) = netdev::attached_xdp(ifindex).ok().flatten() else {
        return format!("it has gone since, or cannot be asked about; try again, or see ip -d link show {interface}");
    };
    if let Some((pid, name)) = holder(program) {
        return format!("process {pid} ({name}) holds it by a BPF link: end that process; ip link cannot take it off");
    }
    let word = if generic { "xdpgeneric" } else { "xdpdrv" };
    format!(
        "take it off (ip link set {interface} {word} off); if that is refused, a BPF link that is pinned holds it: bpftool link \
         shows it"
    )
}

/// The process that has a link of this program open, as far as this one may see.
fn holder(program: u32) -> Option<(u32, String)> {
    let wanted = format!("prog_id:\t{program}");
    let is_it = |text: &str| text.contains("link_type:\txdp") && text.lines().any(|line| line == wanted);
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(files) = std::fs::read_dir(process.path().join("fdinfo")) else { continue };
        let mut texts = files.flatten().filter_map(|file| std::fs::read_to_string(file.path()).ok());
        if texts.any(|text| is_it(&text)) {
            return Some((pid, command(&process.path())));
        }
    }
    None
}

fn command(process: &Path) -> String {
    std::fs::read_to_string(process.join("comm")).map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}

//! The files of a mode that stays: a unit that keeps it, and a drop-in by which the service that it is for starts that one too.
//!
//! | file | why |
//! |---|---|
//! | `napier-mode-NAME.service` | runs `napier mode keep` beside `NAME.service`, and ends with it (`BindsTo=`) |
//! | `NAME.service.d/50-napier.conf` | starts it with the service (`Wants=`): at the start of the machine, and when the service is started anew |
//!
//! The unit has a section of its own, which systemd passes over (`X-Napier`): it is all that is known of what is enabled.
//! Source: `systemd.unit(5)`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::keeping::{Kept, check_unit};

/// Names another folder than `/etc/systemd/system`.
pub(crate) const FOLDER_VARIABLE: &str = "NAPIER_SYSTEMD_DIRECTORY";
const FOLDER: &str = "etc/systemd/system";
const DROP_IN: &str = "50-napier.conf";
const BEFORE: &str = "napier-mode-";
const SECTION: &str = "[X-Napier]";

/// Where units are.
pub(crate) struct UnitFiles {
    folder: PathBuf,
}

/// A mode that is enabled for a unit.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Enabled {
    /// The service, by its whole name.
    pub(crate) unit: String,
    pub(crate) kept: Kept,
    pub(crate) steer: bool,
}

impl UnitFiles {
    /// Below another root than this machine's, if one is given.
    pub(crate) fn new(root: Option<&Path>) -> Self {
        let set = std::env::var_os(FOLDER_VARIABLE).filter(|value| !value.is_empty() && root.is_none());
        let folder = set.map_or_else(|| root.unwrap_or(Path::new("/")).join(FOLDER), PathBuf::from);
        Self { folder }
    }

    fn companion(&self, unit: &str) -> PathBuf {
        self.folder.join(companion(unit))
    }

    fn drop_in(&self, unit: &str) -> PathBuf {
        self.folder.join(format!("{unit}.d")).join(DROP_IN)
    }

    /// Files of a unit's mode that are there.
    pub(crate) fn there(&self, unit: &str) -> Vec<PathBuf> {
        [self.drop_in(unit), self.companion(unit)].into_iter().filter(|path| path.exists()).collect()
    }

    /// All that is enabled, by the names of units.
    pub(crate) fn all(&self) -> Vec<Enabled> {
        let names = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let is_ours = |path: &PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(BEFORE))
        };
        let paths = names.map(|entry| entry.path()).filter(is_ours);
        let mut found: Vec<Enabled> = paths.filter_map(|path| parse(&fs::read_to_string(path).ok()?)).collect();
        found.sort_by(|one, other| one.unit.cmp(&other.unit));
        found
    }

    /// Writes both files; the drop-in last, so that a service never wants a unit that is not there.
    pub(crate) fn write(&self, enabled: &Enabled, program: &Path) -> io::Result<Vec<PathBuf>> {
        let (unit, drop_in) = (self.companion(&enabled.unit), self.drop_in(&enabled.unit));
        fs::create_dir_all(&self.folder)?;
        replace(&unit, &unit_text(enabled, program))?;
        let written = fs::create_dir_all(drop_in.parent().unwrap_or(&self.folder))
            .and_then(|()| replace(&drop_in, &drop_in_text(&enabled.unit)));
        if let Err(error) = written {
            let _ = self.remove(&enabled.unit);
            return Err(error);
        }
        Ok(vec![drop_in, unit])
    }

    /// Removes them, and the folder of drop-ins if nothing else is in it.
    pub(crate) fn remove(&self, unit: &str) -> io::Result<Vec<PathBuf>> {
        let mut removed = Vec::new();
        for path in self.there(unit) {
            fs::remove_file(&path)?;
            removed.push(path);
        }
        // Others may have drop-ins there.
        let _ = fs::remove_dir(self.folder.join(format!("{unit}.d")));
        Ok(removed)
    }
}

/// The unit that keeps the mode of a service.
pub(crate) fn companion(unit: &str) -> String {
    format!("{BEFORE}{unit}")
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("napier-new");
    fs::write(&new, text).and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

fn drop_in_text(unit: &str) -> String {
    format!(
        "# Written by `napier mode enable`; `napier mode disable --unit {unit}` removes it.\n\
         [Unit]\n\
         Wants={}\n",
        companion(unit)
    )
}

fn unit_text(Enabled { unit, kept, steer }: &Enabled, program: &Path) -> String {
    let Kept { dev, mode, queues } = kept;
    let list = queues.as_ref().map(ToString::to_string);
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(["mode", "keep", "--unit", unit, "--dev", dev, "--mode"].map(ToOwned::to_owned));
    words.push(mode.to_string());
    words.extend(list.iter().flat_map(|list| ["--queues".to_owned(), list.clone()]));
    words.extend(steer.then(|| "--steer".to_owned()));
    let command: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!(
        "# Written by `napier mode enable`; `napier mode disable --unit {unit}` removes it.\n\
         [Unit]\n\
         Description=Mode {mode} on {place} for {unit}\n\
         Documentation=man:napier-mode-keep(1)\n\
         BindsTo={unit}\n\
         After={unit}\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         Type=exec\n\
         ExecStart={command}\n\
         Restart=on-failure\n\
         RestartSec=5s\n\
         # Bad usage does not mend itself.\n\
         RestartPreventExitStatus=2\n\
         # The journals' folder, which all napier commands share.\n\
         StateDirectory=napier\n\
         StateDirectoryMode=0700\n\
         Environment=NAPIER_STATE_DIRECTORY=/var/lib/napier\n\
         NoNewPrivileges=yes\n\
         UMask=0077\n\
         \n\
         # What `napier mode list` reads.\n\
         {SECTION}\n\
         Unit={unit}\n\
         Dev={dev}\n\
         Mode={mode}\n\
         Queues={queues}\n\
         Steer={steer}\n",
        place = kept.place().replace('%', "%%"),
        command = command.join(" "),
        queues = list.unwrap_or_default(),
    )
}

/// A word of `ExecStart=`. Source: `systemd.service(5)`, "Command lines".
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    let is_plain = word.chars().all(|letter| letter.is_ascii_alphanumeric() || "/-_.,:@".contains(letter));
    if is_plain && !word.is_empty() { escaped } else { format!("\"{escaped}\"") }
}

fn parse(text: &str) -> Option<Enabled> {
    let section = text.split_once(SECTION)?.1;
    let of = |key: &str| section.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let queues = match of("Queues")? {
        "" => None,
        list => Some(list.parse().ok()?),
    };
    let unit = of("Unit").filter(|unit| check_unit(unit).is_ok())?.to_owned();
    let kept = Kept { dev: of("Dev")?.to_owned(), mode: of("Mode")?.parse().ok()?, queues };
    Some(Enabled { unit, kept, steer: of("Steer") == Some("true") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enabled(queues: Option<&str>) -> Enabled {
        let queues = queues.map(|list| list.parse().expect("a list"));
        let kept = Kept { dev: "eth0".to_owned(), mode: "suspend20".parse().expect("a mode"), queues };
        Enabled { unit: "nginx.service".to_owned(), kept, steer: false }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for one in [enabled(None), Enabled { steer: true, ..enabled(Some("0-3,6")) }] {
            let text = unit_text(&one, Path::new("/usr/bin/napier"));
            assert_eq!(parse(&text), Some(one), "{text}");
        }
        assert_eq!(parse("[Unit]\nDescription=another\n"), None);
    }

    #[test]
    fn the_command_is_one_that_this_program_takes() {
        use clap::Parser as _;
        let one = Enabled { steer: true, ..enabled(Some("0-3,6")) };
        let text = unit_text(&one, Path::new("/usr/bin/napier"));
        let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
        let words: Vec<&str> = line.split(' ').map(|word| word.trim_matches('"')).collect();
        assert!(crate::Cli::try_parse_from(&words).is_ok(), "{line}");
    }

    #[test]
    fn words_of_a_command_are_as_systemd_reads_them() {
        assert_eq!(quoted("/usr/bin/napier"), "/usr/bin/napier");
        assert_eq!(quoted("a b%$\"\\"), r#""a b%%$$\"\\""#);
        assert_eq!(quoted(""), "\"\"");
    }

    #[test]
    fn files_go_as_they_came() {
        let folder = napier_testkit::Folder::new("unit_files");
        let root = Path::new(&folder.file("root")).to_owned();
        let files = UnitFiles::new(Some(&root));
        let one = enabled(None);
        let written = files.write(&one, Path::new("/usr/bin/napier")).expect("written");
        assert_eq!((written.len(), files.all()), (2, vec![one.clone()]));
        assert_eq!(files.write(&one, Path::new("/usr/bin/napier")).expect("written anew"), written);
        // Another's drop-in keeps its folder.
        let other = written[0].with_file_name("90-other.conf");
        fs::write(&other, "").expect("written");
        assert_eq!(files.remove(&one.unit).expect("removed").len(), 2);
        assert!(other.exists() && files.all().is_empty());
        fs::remove_file(&other).expect("ours");
        files.write(&one, Path::new("/usr/bin/napier")).expect("written");
        files.remove(&one.unit).expect("removed");
        let left = fs::read_dir(root.join(FOLDER)).expect("the folder was made").count();
        assert_eq!(left, 0);
    }
}

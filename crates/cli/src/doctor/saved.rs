//! A picture of this machine in a file.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use napier_linux::facts::Picture;

use crate::Usage;
use crate::page::{Page, plural};

/// Writes one, and says what it has.
pub(super) fn save(path: &Path, device: Option<&str>) -> anyhow::Result<()> {
    let picture = Picture::take(device).map_err(|error| Usage(error.into()))?;
    let mut text = serde_json::to_vec_pretty(&picture)?;
    text.push(b'\n');
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    let contents = picture.contents();
    let threads = if contents.threads.is_empty() {
        String::new()
    } else {
        format!(", and the names of NAPI threads: {}", contents.threads.join(", "))
    };
    let mut page = Page::default();
    page.paragraph(&format!(
        "{}: what {} and the kernel say of this machine. It has no addresses, no host name and no program's name but \
         irqbalance. It has the names of interfaces: {}{threads}. It is text: read it before you send it.",
        path.display(),
        plural(contents.files, "file"),
        contents.interfaces.join(", ")
    ));
    page.paragraph(&format!("What is found in it: napier doctor --from {}", path.display()));
    Ok(io::stdout().write_all(page.finish().as_bytes())?)
}

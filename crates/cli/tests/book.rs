//! The pages for readers: the summary names each, each link arrives, and what is made by the program is as it makes it now.
//! `NAPIER_WRITE=1 cargo test -p napier --test book` writes the pictures and tables anew.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

#[path = "book/mdbook.rs"]
mod mdbook;

use napier_lab::modes::Mode;
use napier_research::timeline::{self, Timeline};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project's folder")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All pages below docs.
fn pages() -> BTreeSet<PathBuf> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![root().join("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|is| is == "md") {
                found.insert(entry);
            }
        }
    }
    found
}

/// The text outside of blocks of code, and of code in lines.
fn prose(page: &str) -> String {
    let mut fenced = false;
    let mut text = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            text.extend(line.split('`').step_by(2).chain(["\n"]));
        }
    }
    text
}

/// Where the links and pictures of a page lead.
fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let letters = heading.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    letters.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn anchors(page: &str) -> Vec<String> {
    let mut fenced = false;
    let headings = page.lines().filter(|line| {
        fenced ^= line.starts_with("```");
        !fenced && line.starts_with('#')
    });
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{}", path.display()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// What is wrong with the links of a page at that place.
fn broken(path: &Path, page: &str) -> Vec<String> {
    let folder = path.parent().expect("a page is in a folder");
    let wrong = |link: &String| {
        let (file, part) = link.split_once('#').map_or((link.as_str(), None), |(file, part)| (file, Some(part)));
        let target = if file.is_empty() { path.to_owned() } else { plain(&folder.join(file)) };
        if !target.exists() {
            return Some(format!("{}: there is no {link}", path.display()));
        }
        let text = if file.is_empty() { page.to_owned() } else { String::new() };
        let text = if text.is_empty() && part.is_some() { read(&target) } else { text };
        let missing = part.filter(|part| !anchors(&text).iter().any(|is| is == part));
        missing.map(|part| format!("{}: {} has no heading #{part}", path.display(), target.display()))
    };
    links(page).iter().filter_map(wrong).collect()
}

#[test]
fn every_link_and_anchor_arrives() {
    let mut wrong = Vec::new();
    let front = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md"];
    let deploy = ["deploy/README.md", "deploy/plans.md", "deploy/prometheus/README.md", "deploy/ansible/README.md"];
    for path in pages().into_iter().chain(front.into_iter().chain(deploy).map(|page| root().join(page))) {
        wrong.extend(broken(&path, &read(&path)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let path = root().join("docs/README.md");
    let page = "# A `b`: c\n[good](#a-b-c) [good](run.md) [no file](nosuch.md) [no part](#nosuch) [no part](run.md#nosuch)\n\
                ```\n[code](nosuch.md)\n```\n`[code](nosuch.md)` [elsewhere](https://example.org/x)\n";
    let wrong = broken(&path, page);
    assert_eq!(wrong.len(), 3, "{wrong:?}");
}

#[test]
fn the_summary_names_every_page_once() {
    let summary = root().join("docs/SUMMARY.md");
    let mut named: Vec<PathBuf> =
        links(&read(&summary)).iter().map(|link| plain(&root().join("docs").join(link))).collect();
    named.sort();
    let twice: Vec<_> = named.windows(2).filter(|two| two[0] == two[1]).map(|two| &two[0]).collect();
    assert!(twice.is_empty(), "named twice: {twice:?}");
    let named: BTreeSet<PathBuf> = named.into_iter().collect();
    let pages: BTreeSet<PathBuf> = pages().into_iter().filter(|page| *page != summary).collect();
    let (lost, vain): (Vec<_>, Vec<_>) = (pages.difference(&named).collect(), named.difference(&pages).collect());
    assert!(lost.is_empty() && vain.is_empty(), "not in docs/SUMMARY.md: {lost:?}; there, but no page: {vain:?}");
}

/// Compares a file with what it should be, or writes it.
fn current(path: &Path, is: &str) {
    if std::env::var_os("NAPIER_WRITE").is_some() {
        std::fs::write(path, is).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let was = std::fs::read_to_string(path).unwrap_or_default();
    let how = "`NAPIER_WRITE=1 cargo test -p napier --test book` writes it anew";
    assert!(was == is, "{} is not what the program makes now: {how}", path.display());
}

/// A page with what stands between `<!-- NAME: ... -->` and `<!-- end -->` replaced.
fn with_part(page: &str, name: &str, part: &str) -> String {
    let begin = page.find(&format!("<!-- {name}:")).unwrap_or_else(|| panic!("a mark {name:?}"));
    let begin = begin + page[begin..].find("-->\n").expect("the mark ends") + 4;
    let end = begin + page[begin..].find("<!-- end -->").expect("the part ends");
    format!("{}\n{part}\n{}", &page[..begin], &page[end..])
}

#[test]
fn pictures_and_tables_of_modes_are_current() {
    let modes = Mode::parse_list(timeline::DRAWN).expect("modes");
    for mode in &modes {
        let picture = timeline::svg(&Timeline::of(*mode).expect("it can be drawn"));
        current(&root().join(format!("docs/timelines/{mode}.svg")), &picture);
    }
    let path = root().join("docs/modes.md");
    let page = read(&path);
    for mode in &modes {
        assert!(page.contains(&format!("(timelines/{mode}.svg)")), "docs/modes.md does not show {mode}");
    }
    let page = with_part(&page, "numbers", &timeline::table(&modes).expect("a table"));
    current(&path, &with_part(&page, "settings", &settings()));
}

/// What each mode sets, as a table.
fn settings() -> String {
    let names =
        "base,defer20,suspend0,suspend20,napibusy,fullbusy,busy-read,threaded,workqueue,threaded-busy-poll,group";
    let modes = Mode::parse_list(names).expect("modes");
    let rows = modes.iter().map(|mode| format!("| `{mode}` | {} |\n", timeline::settings(*mode)));
    format!("| mode | what it sets beside the defaults |\n|---|---|\n{}", rows.collect::<String>())
}

#[test]
fn the_book_is_built_where_mdbook_is() {
    let found = std::process::Command::new("mdbook").arg("--version").output();
    if found.is_err() {
        return napier_testkit::skip!("the_book_is_built_where_mdbook_is", "mdbook is not installed");
    }
    let out = std::env::temp_dir().join(format!("napier-book-{}", std::process::id()));
    let built = std::process::Command::new("mdbook").arg("build").arg(root()).arg("--dest-dir").arg(&out).output();
    let built = built.expect("mdbook starts");
    let said = String::from_utf8_lossy(&built.stderr).into_owned();
    let is_there = out.join("tutorial.html").exists();
    let _ = std::fs::remove_dir_all(&out);
    assert!(built.status.success() && is_there && !said.contains("WARN"), "{said}");
}

//! The links of the pages as mdbook resolves them, without mdbook: `scripts/book-links`, which it calls, is called on the book
//! that the summary describes; what is a page then is an `.html`, and what is no page is copied if it lies in docs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{anchors, links, plain, read, root};

/// The pages that the summary names, by their place in docs.
fn chapters() -> BTreeMap<String, String> {
    let docs = root().join("docs");
    links(&read(&docs.join("SUMMARY.md"))).into_iter().map(|page| (page.clone(), read(&docs.join(&page)))).collect()
}

/// All that lies in docs and is no page: mdbook copies it.
fn copied() -> BTreeSet<String> {
    let docs = root().join("docs");
    let (mut found, mut folders) = (BTreeSet::new(), vec![docs.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_none_or(|is| is != "md") {
                found.insert(entry.strip_prefix(&docs).expect("it is in docs").display().to_string());
            }
        }
    }
    found
}

/// The pages as the preprocessor of book.toml hands them on. mdbook gives it the book as JSON, chapters within chapters.
fn preprocessed(chapters: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let chapter = |(path, content): (&String, &String), below: Vec<Value>| json!({"Chapter": {"name": path, "content": content, "path": path, "source_path": path, "sub_items": below}});
    // The last one lies within the first one, as those of a folder do in the summary.
    let mut below: Vec<Value> = chapters.iter().skip(1).map(|one| chapter(one, vec![])).collect();
    let last = below.pop();
    let mut items: Vec<Value> =
        chapters.iter().take(1).map(|one| chapter(one, last.clone().into_iter().collect())).collect();
    items.append(&mut below);
    let book = json!([{"root": root(), "renderer": "html"}, {"items": items, "__non_exhaustive": null}]);

    let settings = read(&root().join("book.toml"));
    let command = settings.lines().find_map(|line| line.strip_prefix("command = ")).expect("a preprocessor");
    let mut child = Command::new(root().join(command.trim_matches('"')));
    child.current_dir(root()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = child.spawn().expect("it starts: python3 is installed");
    let mut input = child.stdin.take().expect("its input");
    let writer = std::thread::spawn(move || input.write_all(book.to_string().as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("the writer").expect("all is read");
    assert!(output.status.success());
    let book: Value = serde_json::from_slice(&output.stdout).expect("a book");
    let mut pages = BTreeMap::new();
    let mut open = vec![&book["items"]];
    while let Some(items) = open.pop() {
        for chapter in items.as_array().expect("chapters").iter().map(|item| &item["Chapter"]) {
            let of = |key: &str| chapter[key].as_str().expect("a text").to_owned();
            pages.insert(of("path"), of("content"));
            open.push(&chapter["sub_items"]);
        }
    }
    pages
}

/// What mdbook calls the page of a chapter. The README of a folder is its index.
fn html(chapter: &str) -> String {
    let page = chapter.strip_suffix("README.md").map(|folder| format!("{folder}index.md"));
    page.as_deref().unwrap_or(chapter).strip_suffix(".md").map(|name| format!("{name}.html")).expect("a page")
}

/// Where the book lies while its links are looked at.
const BOOK: &str = "above/above/above/book";

/// Links of the pages that lead nowhere once they are a book.
fn dead(chapters: &BTreeMap<String, String>, copied: &BTreeSet<String>) -> Vec<String> {
    let built: BTreeMap<String, &String> = chapters.iter().map(|(path, text)| (html(path), text)).collect();
    let mut dead = Vec::new();
    for (path, text) in chapters {
        for link in links(text) {
            let (file, part) = link.split_once('#').map_or((link.as_str(), None), |(file, part)| (file, Some(part)));
            // mdbook changes the ending and nothing else: it does not ask whether there is such a page.
            let file = file.strip_suffix(".md").map_or_else(|| file.to_owned(), |name| format!("{name}.html"));
            // Below folders that are no part of the book, so that a link out of it is none of a page by chance.
            let folder = Path::new(BOOK).join(Path::new(path).parent().expect("a page is in a folder"));
            let at = plain(&folder.join(&file));
            let target = at.strip_prefix(BOOK).map(|at| at.display().to_string()).unwrap_or_default();
            let target = if file.is_empty() { html(path) } else { target };
            let arrives = match (built.get(&target), part) {
                (Some(page), Some(part)) => anchors(page).iter().any(|is| is == part),
                (Some(_), None) => true,
                (None, _) => copied.contains(&target),
            };
            if !arrives {
                dead.push(format!("docs/{path}: {link}"));
            }
        }
    }
    dead
}

#[test]
fn every_link_of_the_book_arrives() {
    let chapters = chapters();
    assert!(chapters.len() > 100, "{}", chapters.len());
    let pages = preprocessed(&chapters);
    assert!(pages.keys().eq(chapters.keys()), "no page is lost");
    let dead = dead(&pages, &copied());
    assert!(dead.is_empty(), "{} dead links:\n{}", dead.len(), dead.join("\n"));
}

#[test]
fn links_that_lead_out_of_the_book_are_found_and_made_text() {
    let page = "# A\n[out](../ARCHITECTURE.md) [far](../../x.toml \"title\") [`b`](b/README.md#b) ![p](p.svg) `[c](../c)` [w](https://a/b.md)\n\
                ```sh\n[d](../d)\n```\n";
    let was = BTreeMap::from([("a.md".to_owned(), page.to_owned()), ("b/README.md".to_owned(), "# B\n".to_owned())]);
    let copied = BTreeSet::from(["p.svg".to_owned()]);
    assert_eq!(dead(&was, &copied).len(), 3, "{:?}", dead(&was, &copied));
    let is = preprocessed(&was);
    assert_eq!(dead(&is, &copied), Vec::<String>::new());
    let expected = page.replace("[out](../ARCHITECTURE.md) [far](../../x.toml \"title\")", "out far");
    assert_eq!(is["a.md"], expected.replace("b/README.md", "b/index.md"));
}

//! The pages of the manual have what the header has.

use std::process::Command;

use napier_testkit::skip;

use super::reader::Item;
use super::{PARTS, items, root};

fn page(name: &str) -> String {
    let path = root().join(format!("man/{name}.3"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_function_is_on_the_page_of_its_part() {
    for (_, name, sources) in PARTS {
        let text = page(name);
        for function in items(sources).iter().filter(|item| item.is_function()).map(Item::name) {
            let has =
                |macro_name: &str| text.lines().any(|line| line.split_whitespace().take(2).eq([macro_name, function]));
            assert!(has(".Nm"), "{name}.3 does not name {function}");
            assert!(has(".Fo") || has(".Fn"), "{name}.3 does not declare {function}");
            assert!(text.matches(function).count() > 2, "{name}.3 does not say what {function} does");
        }
        for structure in items(sources).iter().filter(|item| item.members().is_some()).map(Item::name) {
            assert!(text.contains(structure), "{name}.3 does not say what {structure} is");
        }
    }
}

#[test]
fn a_page_declares_nothing_that_is_not_there() {
    let all: Vec<Item> = PARTS.iter().flat_map(|(_, _, sources)| items(sources)).collect();
    for (_, name, _) in PARTS {
        for line in page(name).lines().filter(|line| line.starts_with(".Fo ") || line.starts_with(".Nm napier_")) {
            let function = line.split_whitespace().nth(1).expect("a name");
            assert!(all.iter().any(|item| item.name() == function), "{name}.3: {function}");
        }
    }
}

#[test]
fn mandoc_has_nothing_to_say() {
    for (_, name, _) in PARTS {
        let path = root().join(format!("man/{name}.3"));
        match Command::new("mandoc").args(["-Tlint", "-Wwarning"]).arg(&path).output() {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                skip!("mandoc_has_nothing_to_say", "mandoc is not installed");
                return;
            }
            Err(error) => panic!("mandoc: {error}"),
        }
    }
}

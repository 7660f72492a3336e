use super::*;
use crate::report::samples::{beside_the_kernel, cover_letter, refused, row, sustained};

fn one(report: &Report) -> String {
    page_of_one(report, &[])
}

#[test]
fn a_page_needs_nothing_from_elsewhere_and_has_no_script() {
    let page = one(&Report { sustained: sustained(), ..cover_letter() });
    for never in ["<script", "http:", "https:", "src=", "@import", "url(\"", "javascript"] {
        assert!(!page.contains(never), "{never}");
    }
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"));
}

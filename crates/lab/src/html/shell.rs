//! What all pages share: the frame, the style sheet, sections, figures, tables.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plot::Size;
use crate::sheet::SheetTable;
pub(super) use crate::sheet::{TableCell, printable};

const STYLE: &str = include_str!("style.css");

/// A page that is being made.
pub(super) struct Page {
    title: String,
    /// The answer, a paragraph each.
    answer: Vec<String>,
    /// What stands below the answer, before any section.
    lead: Option<Markup>,
    sections: Vec<(String, Markup)>,
}

impl Page {
    /// A page that says the answer first.
    pub(super) fn new(title: impl Into<String>, answer: Vec<String>) -> Self {
        Self { title: title.into(), answer, lead: None, sections: Vec::new() }
    }

    /// Puts something below the answer.
    pub(super) fn lead(&mut self, content: Markup) {
        self.lead = Some(content);
    }

    /// Adds a section.
    pub(super) fn section(&mut self, heading: impl Into<String>, content: Markup) {
        self.sections.push((heading.into(), content));
    }

    /// The page as one HTML file.
    pub(super) fn render(self) -> String {
        let title = printable(&self.title);
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="generator" content={ "napier " (env!("CARGO_PKG_VERSION")) };
                    title { (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    (hatch())
                    main {
                        header {
                            h1 { (title) }
                            @for (i, paragraph) in self.answer.iter().enumerate() {
                                p.answer[i == 0] { (printable(paragraph)) }
                            }
                        }
                        @if let Some(lead) = &self.lead { (lead) }
                        @if self.sections.len() > 2 {
                            nav aria-label="Sections" {
                                @for (i, (heading, _)) in self.sections.iter().enumerate() {
                                    a href={ "#s" (i) } { (heading) }
                                }
                            }
                        }
                        @for (i, (heading, content)) in self.sections.iter().enumerate() {
                            section id={ "s" (i) } {
                                h2 { (heading) }
                                (content)
                            }
                        }
                    }
                }
            }
        };
        page.into_string() + "\n"
    }
}

/// The pattern of what was spent in vain, for all figures.
fn hatch() -> Markup {
    html! {
        svg.defs width="0" height="0" aria-hidden="true" focusable="false" {
            defs {
                pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    rect.hatch-ground width="6" height="6" {}
                    rect.hatch-line width="2.4" height="6" {}
                }
            }
        }
    }
}

/// A figure in two sizes, of which the style sheet shows the one that fits.
pub(super) fn figure(caption: Markup, sizes: [Size; 2], draw: impl Fn(Size) -> Markup) -> Markup {
    let [wide, narrow] = sizes;
    html! {
        figure {
            figcaption { (caption) }
            div.wide { (draw(wide)) }
            div.narrow { (draw(narrow)) }
        }
    }
}

/// A table that scrolls by itself where it is too wide. `heads` has the text of each column and what it is.
pub(super) fn table(caption: &str, heads: &[(String, String)], rows: &[Vec<TableCell>]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @for (i, (head, says)) in heads.iter().enumerate() {
                            @let is_text = rows.iter().any(|row| matches!(row.get(i), Some(TableCell::Name(_))));
                            th scope="col" class=[is_text.then_some("text")] title=[(!says.is_empty()).then_some(says)] { (head) }
                        }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            @for (i, cell) in row.iter().enumerate() {
                                @match cell {
                                    TableCell::Name(name) if i == 0 => th scope="row" { (printable(name)) },
                                    TableCell::Name(name) => td.text { (printable(name)) },
                                    TableCell::Figure(figure) => td { (figure) },
                                    TableCell::Best(figure) => td.best { (figure) },
                                    TableCell::Differs(figure) => td.differs { (figure) },
                                    TableCell::Words(words, columns) => td.words colspan=(columns) { (printable(words)) },
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A table of a sheet.
pub(super) fn sheet_table(table: &SheetTable) -> Markup {
    let heads: Vec<(String, String)> = table.heads.iter().map(|head| (head.name.clone(), head.says.clone())).collect();
    self::table(&table.title, &heads, &table.rows)
}

/// Names and what they are.
pub(super) fn facts(facts: &[(String, String)]) -> Markup {
    html! {
        dl {
            @for (name, what) in facts {
                div {
                    dt { (printable(name)) }
                    dd { (printable(what)) }
                }
            }
        }
    }
}

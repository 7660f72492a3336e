//! A sheet as Markdown.

use super::{Sheet, SheetTable, TableCell};

/// The answer in paragraphs, a heading for each table, the notes.
pub(crate) fn markdown(sheet: &Sheet) -> String {
    let paragraphs = sheet.answer.paragraphs();
    let mut text: String = paragraphs.iter().map(|paragraph| escaped(paragraph) + "\n\n").collect();
    for table in &sheet.tables {
        text += &of_table(table);
    }
    for note in &sheet.notes {
        text += &format!("{}\n", escaped(note));
    }
    text
}

fn of_table(table: &SheetTable) -> String {
    let heads: Vec<String> = table.heads.iter().map(|head| escaped(&head.name)).collect();
    let sides: String = table.heads.iter().map(|head| if head.is_text { ":---|" } else { "---:|" }).collect();
    let mut text = format!("### {}\n\n| {} |\n|{sides}\n", escaped(&table.title), heads.join(" | "));
    for row in &table.rows {
        let mut cells: Vec<String> = row.iter().map(cell).collect();
        cells.resize(heads.len(), String::new());
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text + "\n"
}

fn cell(cell: &TableCell) -> String {
    escaped(cell.content())
}

/// Text from outside without what Markdown would obey.
pub(crate) fn escaped(text: &str) -> String {
    let special = |c: char| matches!(c, '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '\\');
    text.chars()
        .flat_map(|c| {
            let c = if c.is_control() { ' ' } else { c };
            special(c).then_some('\\').into_iter().chain(Some(c))
        })
        .collect()
}

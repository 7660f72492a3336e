//! How the state of the view looks on a terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::app::App;
use super::layout::{cells, cut, heads, layout};
use super::rows::{FigureKind, Tab};

const HELP: &[(&str, &str)] = &[
    ("1..7, Tab", "another table"),
    ("s, S", "sort by the next column, by the one before"),
    ("r", "the other way round"),
    ("/", "show rows with these letters; Esc: all rows"),
    ("p, Space", "pause, or go on"),
    ("+, -", "longer or shorter interval"),
    ("arrows, PgUp, PgDn", "scroll"),
    ("q, Ctrl-C", "quit"),
    ("?", "this page; any key leaves it"),
];

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let notes = app.notes.len().min(3) as u16;
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(notes),
        Constraint::Length(1),
    ]);
    let [title, tabs, body, below, last] = rows.areas(frame.area());
    frame.render_widget(title_line(app), title);
    frame.render_widget(tab_line(app, tabs.width), tabs);
    draw_table(frame, app, body);
    let notes = app.notes.iter().map(|note| Line::styled(cut(note, below.width.into()), DIM));
    frame.render_widget(Paragraph::new(notes.collect::<Vec<_>>()), below);
    frame.render_widget(last_line(app), last);
    if app.help {
        draw_help(frame);
    }
}

fn title_line(app: &App) -> Line<'static> {
    let mut words = format!("napier top  {}  every {} s", app.title, seconds(app.interval.as_secs_f64()));
    if !app.filter.is_empty() && !app.writes {
        words += &format!("  with \"{}\"", app.filter);
    }
    if app.paused {
        words += "  PAUSED";
    }
    Line::styled(words, BOLD)
}

fn seconds(seconds: f64) -> String {
    let text = format!("{seconds:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn tab_line(app: &App, width: u16) -> Line<'static> {
    let mut spans = Vec::new();
    for (nth, tab) in Tab::ALL.into_iter().enumerate() {
        let rows = app.tables.get(nth).map_or(0, |table| table.rows.len());
        // Where there is no room the number of rows is left out.
        let name = if width >= 100 {
            format!(" {} {} ({rows}) ", nth + 1, tab.name())
        } else {
            format!(" {} {} ", nth + 1, tab.name())
        };
        let style = match (nth == app.tab, rows) {
            (true, _) => REVERSED,
            (false, 0) => DIM,
            _ => Style::new(),
        };
        spans.push(Span::styled(name, style));
    }
    Line::from(spans)
}

fn draw_table(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    app.room = usize::from(area.height.saturating_sub(1)).max(1);
    app.keep_in_sight();
    let Some(table) = app.table() else {
        frame.render_widget(Line::styled("looking for the length of an interval ...", DIM), area);
        return;
    };
    let places = layout(table, Some(area.width.into()));
    let sorted = app.orders[app.tab].column;
    let mut head = Vec::new();
    for (place, text) in places.iter().zip(heads(&table.columns, &places)) {
        let style = if sorted == Some(place.column) { REVERSED } else { BOLD };
        head.extend([Span::styled(text, style), Span::raw(" ")]);
    }
    let mut lines = vec![Line::from(head)];
    let rows = app.rows();
    for row in rows.iter().skip(app.first).take(app.room) {
        let mut spans = Vec::new();
        for (place, text) in places.iter().zip(cells(&table.columns, row, &places)) {
            let idle = table.columns[place.column].kind != FigureKind::Text && matches!(text.trim(), "0" | "0.0" | "-");
            spans.extend([Span::styled(text, if idle { DIM } else { Style::new() }), Span::raw(" ")]);
        }
        lines.push(Line::from(spans));
    }
    if rows.is_empty() {
        let why = if table.rows.is_empty() { "there are none" } else { "none has these letters (Esc: all rows)" };
        lines.push(Line::styled(why, DIM));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn last_line(app: &App) -> Line<'static> {
    if app.writes {
        return Line::from(vec![
            Span::styled("show rows with: ", BOLD),
            Span::raw(app.filter.clone()),
            Span::styled(" ", REVERSED),
        ]);
    }
    let (all, last) = (app.rows().len(), (app.first + app.room).min(app.rows().len()));
    let place = if all > app.room { format!("rows {} to {last} of {all}   ", app.first + 1) } else { String::new() };
    Line::styled(format!("{place}? help  Tab table  s sort  / filter  p pause  q quit"), DIM)
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (area.width.min(72), area.height.min(HELP.len() as u16 + 2));
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    let lines =
        HELP.iter().map(|(keys, what)| Line::from(vec![Span::styled(format!(" {keys:<20}"), BOLD), Span::raw(*what)]));
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(Block::bordered().title(" keys ")), place);
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;

//! The view on a terminal that is none.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::rows::tests::{instance, snapshot};
use super::super::snapshot::Instance;
use super::*;

fn app() -> App {
    let mut app = App::new("engine 7".to_owned(), Duration::from_millis(500));
    app.take(snapshot(1));
    app.take(snapshot(2));
    app
}

fn press(app: &mut App, letter: char) {
    let _ = app.key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE));
}

/// What stands on the terminal, line by line.
fn seen(app: &mut App, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
    terminal.draw(|frame| draw(frame, app)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(line).collect()
}

#[test]
fn a_view_of_eighty_columns() {
    let lines = seen(&mut app(), (80, 24));
    let text = lines.join("\n");
    assert!(lines[0].starts_with("napier top  engine 7  every 0.5 s"), "{text}");
    assert!(
        lines[1].contains("1 instances") && lines[1].contains("6 groups") && lines[1].contains("7 programs"),
        "{text}"
    );
    for word in ["DEVICE", "SUSP/S"] {
        assert!(lines[2].contains(word), "{word}: {text}");
    }
    for word in ["napier0", "8193", "suspend20", "user", "120k", "10.0k", "12.0", "1.20k", "12.0k", "24.0k"] {
        assert!(
            lines[3].split_whitespace().any(|cell| cell == word || (word == "12.0" && cell == "12")),
            "{word}: {text}"
        );
    }
    assert!(lines[23].contains("? help"), "{text}");
}

#[test]
fn every_size_and_table_can_be_drawn() {
    for size in [(1, 1), (2, 3), (20, 5), (40, 10), (80, 24), (133, 40), (300, 100)] {
        let mut app = App::new("engine 7".to_owned(), Duration::from_secs(1));
        app.notes = vec!["a note".to_owned(); 9];
        let _ = seen(&mut app, size);
        app.take(snapshot(1));
        app.take(snapshot(2));
        for key in ['1', '2', '3', '4', '5', '6', '7', '?', '?', 'p', '/', 'x'] {
            press(&mut app, key);
            let _ = seen(&mut app, size);
        }
    }
}

#[test]
fn what_has_no_room_is_scrolled_to() {
    let mut app = app();
    let (mut then, mut now) = (snapshot(3), snapshot(4));
    let many = |polls| (0..100).map(|id| Instance { id: id.to_string(), ..instance(0, polls) }).collect();
    (then.instances, now.instances) = (many(0), many(4));
    app.take(then);
    app.take(now);
    let lines = seen(&mut app, (80, 24));
    assert!(lines[23].starts_with("rows 1 to 20 of 100"), "{}", lines[23]);
    let _ = app.key(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
    let lines = seen(&mut app, (80, 24));
    assert!(lines[23].starts_with("rows 81 to 100 of 100"), "{}", lines[23]);
    // A larger window shows more, and leaves nothing empty below.
    let lines = seen(&mut app, (80, 54));
    assert!(lines[53].starts_with("rows 51 to 100 of 100"), "{}", lines[53]);
}

#[test]
fn what_is_so_now_is_said() {
    let mut app = app();
    press(&mut app, 'p');
    assert!(seen(&mut app, (80, 24))[0].contains("PAUSED"));
    press(&mut app, '?');
    assert!(seen(&mut app, (80, 24)).iter().any(|line| line.contains("another table")));
    press(&mut app, '?');
    press(&mut app, '/');
    press(&mut app, 'z');
    let lines = seen(&mut app, (80, 24));
    assert!(lines[23].contains("show rows with: z"), "{}", lines[23]);
    assert!(lines[3].contains("none has these letters"), "{}", lines[3]);
    app.notes = vec!["polls are not counted: tracing needs root".to_owned()];
    assert!(seen(&mut app, (80, 24)).iter().any(|line| line.contains("needs root")));
}

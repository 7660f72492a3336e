//! Keys.

use super::super::rows::tests::snapshot;
use super::*;

fn press(app: &mut App, keys: &str) -> Next {
    let mut next = Next::GoesOn;
    for letter in keys.chars() {
        let code = match letter {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            letter => KeyCode::Char(letter),
        };
        next = app.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    next
}

fn app() -> App {
    let mut app = App::new("engine 7".to_owned(), Duration::from_secs(1));
    assert!(app.table().is_none() && app.rows().is_empty());
    app.take(snapshot(1));
    app.take(snapshot(2));
    app
}

#[test]
fn keys_lead_to_tables_and_out() {
    let mut app = app();
    assert_eq!(app.table().map(|table| table.tab), Some(Tab::Instances));
    assert_eq!(press(&mut app, "\t"), Next::GoesOn);
    assert_eq!(app.table().map(|table| table.tab), Some(Tab::Threads));
    let _ = press(&mut app, "7\t");
    assert_eq!(app.tab, 0, "it goes round");
    let _ = press(&mut app, "?q");
    assert!(!app.help, "any key leaves the help, and does nothing else");
    assert_eq!(press(&mut app, "q"), Next::Quit);
    assert_eq!(app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Next::Quit);
}

#[test]
fn a_filter_is_written_kept_and_taken_away() {
    let mut app = app();
    let _ = press(&mut app, "2/0-1q");
    assert!(app.writes && app.filter == "0-1q", "letters are no commands now");
    let _ = app.key(KeyEvent::new(KeyCode::Backspace, KeyModifiers::NONE));
    let _ = press(&mut app, "\n");
    assert_eq!((app.writes, app.rows().len()), (false, 1));
    let _ = press(&mut app, "\u{1b}");
    assert_eq!(app.rows().len(), 2);
    let _ = press(&mut app, "/");
    let _ = press(&mut app, &"x".repeat(200));
    assert_eq!(app.filter.len(), FILTER_MAX);
    let _ = press(&mut app, "\u{1b}");
    assert!(app.filter.is_empty() && !app.writes);
}

#[test]
fn paused_rows_stand_and_go_on_with_the_last_interval() {
    let mut app = app();
    let _ = press(&mut app, "p");
    let before = app.tables.clone();
    let mut other = snapshot(5);
    other.instances.clear();
    app.take(other.clone());
    assert_eq!(app.tables, before);
    let _ = press(&mut app, "p");
    other.at_ns += 2_000_000_000;
    app.take(other);
    assert_eq!((app.rows().len(), app.seconds), (0, 2.0));
}

#[test]
fn columns_without_anything_known_are_not_sorted_by() {
    let mut app = app();
    let _ = press(&mut app, "3s");
    assert_eq!(app.orders[2].column, Some(0));
    let _ = press(&mut app, "s");
    let column = app.orders[2].column.expect("the next one");
    assert_eq!(app.tables[2].columns[column].key, "receive_runs_per_s");
    let _ = press(&mut app, "SS");
    assert_eq!(app.orders[2].column, None);
    let _ = press(&mut app, "r");
    assert!(app.orders[2].reverse && !app.orders[0].reverse, "each table has its own");
}

#[test]
fn intervals_and_rows_have_bounds() {
    let mut app = app();
    let _ = press(&mut app, "----------");
    assert_eq!(app.interval, INTERVAL_MIN);
    let _ = press(&mut app, "++++++++++++++++++++");
    assert_eq!(app.interval, INTERVAL_MAX);
    for code in [KeyCode::End, KeyCode::PageDown, KeyCode::Down] {
        let _ = app.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    assert_eq!(app.first, 0, "all rows have room");
}

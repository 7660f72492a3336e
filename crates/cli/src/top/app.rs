//! What the view shows, and what keys change of it. No terminal.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::layout::{Order, arranged};
use super::rows::{Cell, Tab, TopTable, tables};
use super::snapshot::Snapshot;
use super::verdict::verdicts;

const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Letters of a filter.
const FILTER_MAX: usize = 64;

/// The state of the view.
#[derive(Debug)]
pub(super) struct App {
    pub(super) title: String,
    pub(super) interval: Duration,
    pub(super) tab: usize,
    pub(super) orders: [Order; Tab::ALL.len()],
    pub(super) filter: String,
    /// The filter is being written.
    pub(super) writes: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// The first row that is shown.
    pub(super) first: usize,
    /// Rows that had room when the view was drawn last.
    pub(super) room: usize,
    pub(super) tables: Vec<TopTable>,
    pub(super) notes: Vec<String>,
    /// Between the two snapshots that are shown.
    pub(super) seconds: f64,
    last: Option<Snapshot>,
}

/// Whether the view goes on.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Next {
    GoesOn,
    Quit,
}

impl App {
    pub(super) fn new(title: String, interval: Duration) -> Self {
        Self {
            title,
            interval: interval.clamp(INTERVAL_MIN, INTERVAL_MAX),
            tab: 0,
            orders: [Order::default(); Tab::ALL.len()],
            filter: String::new(),
            writes: false,
            paused: false,
            help: false,
            first: 0,
            room: 1,
            tables: Vec::new(),
            notes: Vec::new(),
            seconds: 0.0,
            last: None,
        }
    }

    /// A snapshot has come. While the view is paused it is only kept, so that rates are of one interval afterwards.
    pub(super) fn take(&mut self, now: Snapshot) {
        if let Some(then) = &self.last
            && !self.paused
        {
            self.tables = tables(then, &now);
            // What is wrong comes before what is not shown: there may be room for few lines.
            self.notes = verdicts(then, &now).into_iter().chain(now.notes.iter().cloned()).collect();
            self.seconds = Duration::from_nanos(now.at_ns.saturating_sub(then.at_ns)).as_secs_f64();
        }
        self.last = Some(now);
        self.keep_in_sight();
    }

    /// The table that is shown; `None` before there is one.
    pub(super) fn table(&self) -> Option<&TopTable> {
        self.tables.get(self.tab)
    }

    /// Its rows in their order.
    pub(super) fn rows(&self) -> Vec<&Vec<Cell>> {
        self.table().map_or_else(Vec::new, |table| arranged(table, self.orders[self.tab], &self.filter))
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::GoesOn;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Next::Quit } else { Next::GoesOn };
        }
        if self.writes {
            self.write(key.code);
        } else if self.help {
            self.help = false;
        } else if key.code == KeyCode::Char('q') {
            return Next::Quit;
        } else {
            self.command(key.code);
        }
        self.keep_in_sight();
        Next::GoesOn
    }

    fn write(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.writes = false,
            KeyCode::Esc => {
                self.writes = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) if !letter.is_control() && self.filter.chars().count() < FILTER_MAX => {
                self.filter.push(letter);
            }
            _ => {}
        }
    }

    fn command(&mut self, code: KeyCode) {
        let tabs = Tab::ALL.len();
        match code {
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.writes = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Tab | KeyCode::Right => self.tab = (self.tab + 1) % tabs,
            KeyCode::BackTab | KeyCode::Left => self.tab = (self.tab + tabs - 1) % tabs,
            KeyCode::Char(digit @ '1'..='7') => self.tab = (u32::from(digit) - u32::from('1')) as usize,
            KeyCode::Char('>' | 's') => self.sort_by(1),
            KeyCode::Char('<' | 'S') => self.sort_by(-1),
            KeyCode::Char('r') => self.orders[self.tab].reverse ^= true,
            KeyCode::Char('+') => self.interval = (self.interval * 2).min(INTERVAL_MAX),
            KeyCode::Char('-') => self.interval = (self.interval / 2).max(INTERVAL_MIN),
            KeyCode::Down | KeyCode::Char('j') => self.first = self.first.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::PageDown => self.first = self.first.saturating_add(self.room),
            KeyCode::PageUp => self.first = self.first.saturating_sub(self.room),
            KeyCode::Home => self.first = 0,
            KeyCode::End => self.first = usize::MAX,
            _ => {}
        }
    }

    /// Goes on to the next column in which something is known, or back; beyond the last one to the rows as they are.
    fn sort_by(&mut self, step: isize) {
        let Some(table) = self.table() else { return };
        let known: Vec<Option<usize>> =
            (0..table.columns.len()).filter(|column| table.known(*column)).map(Some).collect();
        let places: Vec<Option<usize>> = [None].into_iter().chain(known).collect();
        let at = places.iter().position(|place| *place == self.orders[self.tab].column).unwrap_or(0);
        let next = (at.cast_signed() + step).rem_euclid(places.len().cast_signed());
        self.orders[self.tab].column = places[next.cast_unsigned()];
    }

    /// The last row is not scrolled out of sight.
    pub(super) fn keep_in_sight(&mut self) {
        self.first = self.first.min(self.rows().len().saturating_sub(self.room));
    }
}

#[cfg(test)]
#[path = "app_tests.rs"]
mod tests;

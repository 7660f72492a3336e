//! Tables as text.

use super::super::rows::tests::{instance, snapshot};
use super::super::rows::{Tab, tables};
use super::super::snapshot::Instance;
use super::*;

#[test]
fn numbers_take_five_letters() {
    for (number, text) in [
        (0.0, "0"),
        (0.004, "0.00"),
        (0.25, "0.25"),
        (7.0, "7"),
        (12.0, "12"),
        (12.34, "12.3"),
        (99.96, "100"),
        (999.0, "999"),
        (999.6, "1.00k"),
        (1234.0, "1.23k"),
        (9996.0, "10.0k"),
        (45_678.0, "45.7k"),
        (123_456.0, "123k"),
        (999_600.0, "1.00M"),
        (7_654_321.0, "7.65M"),
        (2.5e9, "2.50G"),
        (3e12, "3.00T"),
    ] {
        assert_eq!(short(number), text);
        assert!(text.len() <= NUMBER_WIDTH);
    }
}

fn lines(width: Option<usize>) -> Vec<String> {
    let (then, mut now) = (snapshot(1), snapshot(2));
    now.instances[0].mode = "threaded-busy-poll".to_owned();
    text(&tables(&then, &now), width).lines().map(str::to_owned).collect()
}

#[test]
fn everything_fits_into_eighty_columns() {
    let lines = lines(Some(80));
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    let heads = lines.iter().find(|line| line.starts_with("DEVICE")).expect("the instances");
    for head in ["Q", "ID", "MODE", "POLLER", "PKT/S", "POLL/S", "WORK", "IRQ/S", "DEFER/S", "SUSP/S"] {
        assert!(heads.split_whitespace().any(|word| word == head), "{head} of {heads}");
    }
    assert!(lines[2].contains("120k") && lines[2].contains("threaded"), "{lines:#?}");
}

#[test]
fn without_a_width_nothing_is_cut_or_left_out() {
    let lines = lines(None);
    assert!(lines[1].contains("OWNER") && lines[2].contains("threaded-busy-poll"), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("USER%")), "what no CPU counts is no column: {lines:#?}");
}

#[test]
fn however_narrow_something_is_shown() {
    for width in 1..100 {
        let tables = tables(&snapshot(1), &snapshot(2));
        for table in &tables {
            let places = layout(table, Some(width));
            let taken: usize = places.iter().map(|place| place.width + GAP).sum::<usize>() - GAP;
            assert!(!places.is_empty() && (taken <= width || places.len() == 1), "{:?} {width}", table.tab);
        }
    }
}

#[test]
fn rows_are_sorted_and_filtered() {
    let one = |id: &str, device: &str, packets| Instance {
        id: id.to_owned(),
        device: device.to_owned(),
        ..instance(packets, packets)
    };
    let (mut then, mut now) = (snapshot(1), snapshot(2));
    then.instances = vec![one("9", "eth1", 0), one("10", "eth0", 0), one("8", "wlan0", 0)];
    now.instances = vec![one("9", "eth1", 5), one("10", "eth0", 500), one("8", "wlan0", 50), one("11", "eth9", 7)];
    let tables = tables(&then, &now);
    let table = &tables[0];
    assert_eq!(table.tab, Tab::Instances);
    let column = |key: &str| table.columns.iter().position(|column| column.key == key);
    let ids = |order, filter: &str| -> Vec<String> {
        arranged(table, order, filter).iter().map(|row| shown(&row[2], FigureKind::Text)).collect()
    };
    let by = |key, reverse| Order { column: column(key), reverse };
    assert_eq!(ids(Order::default(), ""), ["9", "10", "8", "11"]);
    assert_eq!(ids(by("packets_per_s", false), ""), ["10", "8", "9", "11"], "what has no rate yet is last");
    assert_eq!(ids(by("napi_id", false), ""), ["8", "9", "10", "11"], "numbers are no words");
    assert_eq!(ids(by("napi_id", true), "ETH"), ["11", "10", "9"]);
    assert_eq!(ids(Order::default(), "no such"), [""; 0]);
}

#[test]
fn json_has_every_table_and_says_null_for_what_is_not_known() {
    let json = Value::Object(as_json(&tables(&snapshot(1), &snapshot(2))));
    for tab in Tab::ALL {
        assert!(json[tab.name()].is_array(), "{}", tab.name());
    }
    assert_eq!(json["instances"][0]["packets_per_s"], 120_000.0);
    assert_eq!((&json["cpus"][0]["user_pct"], &json["cpus"][0]["cpu"]), (&Value::Null, &json!("0")));
}

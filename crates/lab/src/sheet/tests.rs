use super::*;

fn sample() -> Sheet {
    let figure = |text: &str| TableCell::Figure(text.to_owned());
    let name = |text: &str| TableCell::Name(text.to_owned());
    let heads = vec![
        ColumnHead::text("mode", "the mode"),
        ColumnHead::figure("p50 us", "").goes(1),
        ColumnHead::figure("p99 us", ""),
        ColumnHead::text("verdict", ""),
    ];
    let rows = vec![
        vec![name("base"), figure("20.5"), figure("140 ±3%"), name("")],
        vec![name("suspend20"), figure("9.5"), figure("84.1 ±12%"), name("lowest p99: p99 0.60x, CPU as base")],
        vec![name("busy-read"), TableCell::Words("refused: a|b \x1b[2J".to_owned(), 3)],
    ];
    Sheet {
        answer: SheetAnswer {
            asked: "kv on the engine.".to_owned(),
            said: vec!["Take suspend20 at 60K/s.".to_owned(), "  faster: fullbusy.".to_owned()],
            next: vec![("napier advise".to_owned(), "your rate".to_owned()), ("more".to_owned(), "all".to_owned())],
        },
        tables: vec![SheetTable { title: "60K/s".to_owned(), heads, rows }],
        notes: vec!["Latency in us.".to_owned()],
    }
}

#[test]
fn text_has_the_answer_first_and_breaks_words_where_there_is_no_room() {
    let wide = "\
kv on the engine.
Take suspend20 at 60K/s.
    faster: fullbusy.
Next  napier advise  your rate
      more           all

60K/s
mode       p50 us     p99 us  verdict
base         20.5    140 ±3%
suspend20     9.5  84.1 ±12%  lowest p99: p99 0.60x, CPU as base
busy-read  refused: a|b [2J

Latency in us.
";
    assert_eq!(text(&sample(), 80), wide);
    let narrow = text(&sample(), 36);
    assert!(narrow.lines().all(|line| line.chars().count() <= 36), "{narrow}");
    assert!(narrow.contains("\nmode          p99 us  verdict\n") && narrow.contains("Not shown at 36"), "{narrow}");
}

#[test]
fn markdown_and_csv_obey_nothing_from_outside() {
    let text = markdown(&sample());
    assert!(
        text.starts_with("Take suspend20 at 60K/s.\n\nfaster: fullbusy.\n\nkv on the engine.\n\n### 60K/s\n\n"),
        "{text}"
    );
    assert!(text.contains("| mode | p50 us | p99 us | verdict |\n|:---|---:|---:|:---|\n"), "{text}");
    assert!(text.contains("| busy-read | refused: a\\|b  \\[2J |  |  |\n"), "{text}");
    assert_eq!(
        csv(&sample().tables[0]).lines().nth(2),
        Some("suspend20,9.5,84.1 ±12%,\"lowest p99: p99 0.60x, CPU as base\"")
    );
}

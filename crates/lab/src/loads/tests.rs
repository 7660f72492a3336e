use super::*;

#[test]
fn loads_are_read() {
    for (text, rps) in [
        ("1", 1),
        ("800", 800),
        ("50k", 50_000),
        ("1.5m", 1_500_000),
        ("2M", 2_000_000),
        ("0.5K", 500),
        ("50K/s", 50_000),
        ("800 /s", 800),
        ("50 k", 50_000),
    ] {
        assert_eq!(Load::parse(text), Ok(Load::Rps(rps)), "{text}");
    }
    assert_eq!(Load::parse("max"), Ok(Load::Max));
    assert_eq!(Load::parse("MAX"), Ok(Load::Max));
    assert_eq!(
        Load::parse_list("50k, 100k,1.5m,max"),
        Ok(vec![Load::Rps(50_000), Load::Rps(100_000), Load::Rps(1_500_000), Load::Max])
    );
}

#[test]
fn what_is_no_load_is_refused_with_what_is() {
    for text in ["", "k", "fast", "-5", "1e3", "inf", "nan", "5kk", "1.2.3", ".", "5g", "/s", "5/ms"] {
        let error = Load::parse(text).unwrap_err();
        assert_eq!(error, LoadError::Unknown { text: text.to_owned() });
        assert!(error.to_string().contains("50k or 1.5m, or `max`"));
    }
    for text in ["0", "0k", "0.1", "101m", "999999999999999999999m"] {
        assert_eq!(Load::parse(text), Err(LoadError::Range { text: text.to_owned() }));
    }
    for list in ["", ",", "1k,,2k", "1k,"] {
        assert_eq!(Load::parse_list(list), Err(LoadError::Empty), "{list:?}");
    }
    let error = Load::parse_list("10,000").unwrap_err().to_string();
    assert!(error.contains("`10,000` is two loads") && error.ends_with("give 10000, or 10k"), "{error}");
    assert_eq!(Load::parse_list("1k,1000"), Err(LoadError::Twice { text: "1000".to_owned() }));
}

#[test]
fn loads_are_shown_as_in_a_cover_letter() {
    let shown: Vec<String> = [Load::Rps(800), Load::Rps(200_000), Load::Rps(37_500), Load::Rps(1_500_000), Load::Max]
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(shown, ["800", "200K", "37.5K", "1500K", "MAX"]);
}

#[test]
fn ladder_climbs_to_what_base_sustains() {
    let rps = |loads: &[Load]| loads.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    assert_eq!(rps(&Load::ladder(187_341)), "37.4K 74.9K 112K 149K 187K MAX");
    assert_eq!(rps(&Load::ladder(2)), "1 2 MAX");
    assert_eq!(rps(&Load::ladder(0)), "MAX");
    assert_eq!(Load::ladder(u64::MAX).len(), 2, "no overflow");
}

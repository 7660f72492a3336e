use super::*;

#[test]
fn what_was_meant_is_suggested() {
    for said in [parse("suspnd20").unwrap_err(), parse_list("base,suspnd20").unwrap_err()] {
        let said = said.to_string();
        assert!(said.starts_with("`suspnd20` is no mode (did you mean suspend20?); give one of base, "), "{said}");
    }
    assert_eq!(parse_list("base,base").unwrap_err().to_string(), "`base` is given twice; each mode is one row");
}

#[test]
fn lists() {
    assert_eq!(parse_list(DEFAULT_MODES).unwrap().len(), 12);
    assert_eq!(parse_list(QUICK_MODES).unwrap().len(), 4);
}

#[test]
fn one_of_them_is_for_blocking_receives() {
    for mode in parse_list(DEFAULT_MODES).unwrap() {
        let blocks = ServerStyle::of(&mode.plan()) == ServerStyle::BlockingReceive;
        assert_eq!(blocks, mode == Mode::BusyRead, "{mode}");
    }
}

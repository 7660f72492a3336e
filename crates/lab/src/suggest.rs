//! What was meant by a name that was mistyped.

/// How alike two names have to be, from 0 to 1, before one is suggested for the other: clap's own bound for options.
const ALIKE: f64 = 0.7;

/// ` (did you mean suspend20?)` if one of the names is near the one that was given, else nothing.
///
/// A name that ends in a number stands for all numbers: digits at the end of what was given are kept.
#[must_use]
pub fn did_you_mean<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let given = given.to_lowercase();
    let (word, number) = given.split_at(given.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    let number = number.trim_start_matches('0');
    let alike = |name: &str| {
        let stem = name.strip_suffix('X');
        let likeness = strsim::jaro_winkler(stem.map_or(&*given, |_| word), stem.unwrap_or(name));
        let name = stem.filter(|_| !number.is_empty()).map_or(name.to_owned(), |stem| format!("{stem}{number}"));
        (likeness, name)
    };
    let nearest = names.into_iter().map(alike).max_by(|one, other| one.0.total_cmp(&other.0));
    nearest
        .filter(|(likeness, _)| *likeness > ALIKE)
        .map_or_else(String::new, |(_, name)| format!(" (did you mean {name}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_with_the_number_that_was_given() {
        let names = ["base", "deferX", "napibusy", "fullbusy", "suspend0", "suspendX", "threaded"];
        for (given, meant) in [
            ("suspnd20", "suspend20"),
            ("Suspend20", "suspend20"),
            ("defr50", "defer50"),
            ("defer020", "defer20"),
            ("suspend00", "suspendX"),
            ("defer", "deferX"),
            ("fulbusy", "fullbusy"),
            ("threadd", "threaded"),
        ] {
            assert_eq!(did_you_mean(given, names), format!(" (did you mean {meant}?)"), "{given}");
        }
    }

    #[test]
    fn nothing_is_suggested_for_what_is_like_nothing() {
        assert_eq!(did_you_mean("xyzzy", ["base", "threaded"]), "");
        assert_eq!(did_you_mean("", ["base"]), "");
        assert_eq!(did_you_mean("base", []), "");
    }
}

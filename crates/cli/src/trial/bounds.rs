//! Bounds on figures, as they are typed: `cpu<+10%` of what base has, `p99<2ms` for the guard.

use anyhow::anyhow;
use napier_trial::{Better, JudgedFigure, Limit, LimitSide, Unit, Within};

use crate::{Usage, units};

/// A figure against base.
pub(super) fn bound(text: &str, figures: &[JudgedFigure]) -> Result<Within, Usage> {
    let example =
        "give one such as 'cpu<+10%': its figure must not become worse than under base by more than that share";
    let (figure, side, value) = parts(text, figures, example)?;
    let share = match (side, figures[figure].better, value.split_at_checked(1)) {
        ('<', Better::Less, Some(("+", share))) | ('>', Better::More, Some(("-", share))) => units::percent(share).ok(),
        _ => None,
    };
    let share = share.filter(|share| *share >= 0.0).ok_or_else(|| {
        let name = &figures[figure].name;
        let how = match figures[figure].better {
            Better::Less => format!("less of {name} is better: '{name}<+10%'"),
            Better::More => format!("more of {name} is better: '{name}>-10%'"),
        };
        Usage(anyhow!("`{text}` is no bound: {how}; a limit that is a value is --guard's"))
    })?;
    Ok(Within { figure, share: share / 100.0 })
}

/// A figure against a value.
pub(super) fn limit(text: &str, figures: &[JudgedFigure]) -> Result<Limit, Usage> {
    let example = "give one such as 'p99<2ms': a figure, < or >, and the value that it has to stay below or above";
    let (figure, side, value) = parts(text, figures, example)?;
    if value.starts_with('+') {
        return Err(Usage(anyhow!(
            "--guard {text}: a limit is a value, such as 'p99<2ms'; a share beyond what base has is a --bound"
        )));
    }
    let value = of_unit(value, figures[figure].unit).map_err(|error| Usage(anyhow!("--guard {text}: {error}")))?;
    let side = if side == '<' { LimitSide::Below(value) } else { LimitSide::Above(value) };
    Ok(Limit { figure, side })
}

/// A figure by its name.
pub(super) fn figure(name: &str, figures: &[JudgedFigure]) -> Result<usize, Usage> {
    figures.iter().position(|figure| figure.name == name).ok_or_else(|| {
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        Usage(anyhow!("no judge gives {name}; there are {}", names.join(", ")))
    })
}

fn parts<'a>(text: &'a str, figures: &[JudgedFigure], example: &str) -> Result<(usize, char, &'a str), Usage> {
    let at = text.find(['<', '>']).ok_or_else(|| Usage(anyhow!("`{text}` has no < or >: {example}")))?;
    let (name, rest) = text.split_at(at);
    let name = name.trim();
    let (side, value) = (rest.chars().next().unwrap_or('<'), rest[1..].trim());
    Ok((self::figure(name, figures)?, side, value))
}

fn of_unit(text: &str, unit: Unit) -> Result<f64, String> {
    match unit {
        Unit::Seconds => units::seconds(text),
        Unit::Share => units::percent(text).map(|percent| percent / 100.0),
        Unit::PerSecond | Unit::BytesPerSecond | Unit::Plain => plain(text),
    }
}

/// A number, with k, M or G behind it.
fn plain(text: &str) -> Result<f64, String> {
    let factors = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9)];
    let found = factors.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (digits, factor) = found.unwrap_or((text, 1.0));
    let value: Option<f64> = digits.trim_end().parse().ok().filter(|value: &f64| value.is_finite());
    value.map(|value| value * factor).ok_or_else(|| format!("`{text}` is no number; give one such as 0.5, 1200 or 50k"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Vec<JudgedFigure> {
        let of = |name: &str, unit, better| JudgedFigure { name: name.to_owned(), unit, better };
        vec![
            of("p99", Unit::Seconds, Better::Less),
            of("cpu", Unit::Share, Better::Less),
            of("qps", Unit::PerSecond, Better::More),
        ]
    }

    #[test]
    fn bounds_are_shares_and_limits_are_values() {
        let all = figures();
        assert_eq!(bound("cpu<+10%", &all).expect("a bound"), Within { figure: 1, share: 0.1 });
        assert_eq!(bound("qps > -5%", &all).expect("a bound"), Within { figure: 2, share: 0.05 });
        for (text, figure, side) in [
            ("p99<2ms", 0, LimitSide::Below(0.002)),
            ("cpu < 50%", 1, LimitSide::Below(0.5)),
            ("qps>50k", 2, LimitSide::Above(50_000.0)),
        ] {
            assert_eq!(limit(text, &all).expect(text), Limit { figure, side });
        }
    }

    #[test]
    fn what_is_none_is_refused_with_what_to_give() {
        let all = figures();
        let said = |text: &str| bound(text, &all).expect_err(text).to_string();
        assert!(said("cpu<10%").contains("'cpu<+10%'") && said("qps<+10%").contains("'qps>-10%'"));
        assert!(said("cpu").contains("no < or >") && said("p50<+1%").contains("there are p99, cpu, qps"));
        let said = |text: &str| limit(text, &all).expect_err(text).to_string();
        assert!(said("cpu<+10%").contains("is a --bound"));
        assert!(
            said("p99<fast").contains("2 (s)") && said("qps>many").contains("50k") && said("p99=1").contains("2ms")
        );
    }
}

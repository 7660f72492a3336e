//! What is offered to a server: a rate, or a closed loop. One type for those that offer it, engine, kernel and simulator, and for
//! those that say it: options, plans, reports.

use std::fmt;

/// What is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Load {
    /// Open loop: this many requests per second, sent whatever comes back; at random times but where it says otherwise.
    Rps(u64),
    /// Closed loop: every flow has its window of requests out, always; one, but where it says otherwise.
    Max,
}

/// A number, or `"max"`.
impl serde::Serialize for Load {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Rps(rps) => serializer.serialize_u64(*rps),
            Self::Max => serializer.serialize_str("max"),
        }
    }
}

/// The same.
impl<'de> serde::Deserialize<'de> for Load {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Written {
            Rps(u64),
            Name(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Rps(rps) => Ok(Self::Rps(rps)),
            Written::Name(name) if name == "max" => Ok(Self::Max),
            Written::Name(name) => Err(serde::de::Error::custom(format!("`{name}` is no load"))),
        }
    }
}

/// A load that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Not a load.
    #[error("`{text}` is no load; give requests per second such as 800, 50k or 1.5m, or `max`")]
    Unknown {
        /// As given.
        text: String,
    },
    /// A comma within a number.
    #[error("`{before},{after}` is two loads, for a comma stands between loads; give {before}{after}, or {before}k")]
    Thousands {
        /// What stands before the comma.
        before: String,
        /// What stands behind it.
        after: String,
    },
    /// Zero or beyond anything that can be sent.
    #[error("a load of `{text}` cannot be offered; give 1 to 100m requests per second, or `max`")]
    Range {
        /// As given.
        text: String,
    },
    /// An item of the list is empty, or all of it.
    #[error("no load given, or nothing between two commas; give a list such as `50k,100k,max`")]
    Empty,
    /// The list names a load twice.
    #[error("the load `{text}` is given twice; each load is one block of the report")]
    Twice {
        /// As given.
        text: String,
    },
}

const RPS_MAX: u64 = 100_000_000;

impl Load {
    /// Reads a load: `800`, `50k`, `1.5m`, `50k/s` (requests per second; k and m in either case) or `max`.
    ///
    /// # Errors
    /// [`LoadError`] says what is accepted.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        let plain = text.trim();
        if plain.eq_ignore_ascii_case("max") {
            return Ok(Self::Max);
        }
        let unknown = || LoadError::Unknown { text: text.to_owned() };
        let plain = plain.strip_suffix("/s").unwrap_or(plain).trim_end();
        let (number, unit) = match plain.strip_suffix(['k', 'K']) {
            Some(number) => (number.trim_end(), 1e3),
            None => plain.strip_suffix(['m', 'M']).map_or((plain, 1.0), |number| (number.trim_end(), 1e6)),
        };
        // Digits and at most one point: `1e3`, `inf` and `-1` would also be numbers to `parse`.
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Err(unknown());
        }
        let rps = (number.parse::<f64>().map_err(|_| unknown())? * unit).round();
        if rps < 1.0 || rps > RPS_MAX as f64 {
            return Err(LoadError::Range { text: text.to_owned() });
        }
        Ok(Self::Rps(rps as u64))
    }

    /// Reads a list of loads with commas between them; spaces around a load do not matter.
    ///
    /// # Errors
    /// [`LoadError`] for the first load that is wrong or given twice, or missing between two commas.
    pub fn parse_list(texts: &str) -> Result<Vec<Self>, LoadError> {
        let mut loads = Vec::new();
        let mut before = "";
        for text in texts.split(',').map(str::trim) {
            if text.is_empty() {
                return Err(LoadError::Empty);
            }
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if text.len() == 3 && text.starts_with('0') && digits(text) && digits(before) {
                return Err(LoadError::Thousands { before: before.to_owned(), after: text.to_owned() });
            }
            before = text;
            let load = Self::parse(text)?;
            if loads.contains(&load) {
                return Err(LoadError::Twice { text: text.to_owned() });
            }
            loads.push(load);
        }
        Ok(loads)
    }

    /// The loads if none are asked for: 20, 40, 60, 80 and 100 % of what `base` sustains, in three digits, then MAX.
    /// A base that sustains almost nothing gives fewer steps.
    #[must_use]
    pub fn ladder(base_sustains_rps: u64) -> Vec<Self> {
        let mut loads: Vec<Self> = [20, 40, 60, 80, 100]
            .iter()
            .map(|pct| three_digits(base_sustains_rps.saturating_mul(*pct) / 100))
            .filter(|rps| *rps > 0)
            .map(|rps| Self::Rps(rps.min(RPS_MAX)))
            .collect();
        loads.dedup();
        loads.push(Self::Max);
        loads
    }
}

impl Load {
    /// As the column of a table has it: as [`Display`](fmt::Display), but a closed loop is called what it is.
    #[must_use]
    pub fn column(self) -> String {
        match self {
            Self::Max => "closed".to_owned(),
            Self::Rps(_) => self.to_string(),
        }
    }
}

/// As a column of a cover letter: `200K`, `37.5K`, `800`, `MAX`.
impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.pad("MAX"),
            Self::Rps(rps @ 0..1000) => f.pad(&rps.to_string()),
            Self::Rps(rps) => f.pad(&format!("{}K", *rps as f64 / 1e3)),
        }
    }
}

/// Rounds down to three digits that count.
fn three_digits(number: u64) -> u64 {
    let step = 10_u64.pow(number.checked_ilog10().unwrap_or(0).saturating_sub(2));
    number / step * step
}

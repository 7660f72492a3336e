//! What is asked for: how many records, how long, how often set, how unevenly popular. All from one seed.

use std::sync::Arc;

use rand_distr::{Distribution, Zipf};

use super::sizes::Sizes;
use super::store::{How, NEVER_MS, Put, Store};
use super::{KEY_BYTES_MAX, value, value_bytes_max};
use napier_rng::{self as rng, Xoshiro256PlusPlus};

/// Digits at the start of each key that make it unlike all others.
const KEY_BYTES_MIN: usize = 8;

/// The shape of the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileConfig {
    /// Records in the store; every one is there before the run, so every get finds its key.
    pub records: u32,
    /// Share of sets among the requests, 0 to 1.
    pub set_share: f64,
    /// Which records are asked for.
    pub popularity: Popularity,
    /// Sizes of keys; bounded to 8 to 250 bytes, of which the first 8 number the record.
    pub key_sizes: Sizes,
    /// Sizes of values; bounded so that the reply fits one datagram.
    pub value_sizes: Sizes,
}

/// Which records are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// Each as often as any other (what mutilate does).
    Uniform,
    /// Record of rank r with a probability proportional to r^-exponent.
    Zipf {
        /// 0 or more; 0.99 is a usual choice for caches.
        exponent: f64,
    },
}

/// As a report names it: `uniform` or `zipf:S`.
impl std::fmt::Display for Popularity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { exponent } => write!(f, "zipf:{exponent}"),
        }
    }
}

/// The shape cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// No records, or more than the digits of a key can number.
    #[error("{records} records cannot be used; give 1 to 16777216")]
    Records {
        /// As given.
        records: u32,
    },
    /// Not a share.
    #[error("a share of sets of {set_share} is none; give 0 to 1 (0.03 is mutilate's Facebook profile)")]
    SetShare {
        /// As given.
        set_share: f64,
    },
    /// Not an exponent.
    #[error("a Zipf exponent of {exponent} cannot be used; give a number from 0 up, such as 0.99")]
    Exponent {
        /// As given.
        exponent: f64,
    },
}

impl Default for ProfileConfig {
    /// mutilate's Facebook profile: `-K fb_key -V fb_value -u 0.03`, over 16384 records.
    fn default() -> Self {
        Self {
            records: 16_384,
            set_share: 0.03,
            popularity: Popularity::Uniform,
            key_sizes: Sizes::FacebookKey,
            value_sizes: Sizes::FacebookValue,
        }
    }
}

/// The keys of a run and its shape. Made once, shared by all clients; cloning shares.
#[derive(Clone, Debug)]
pub struct Profile {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: ProfileConfig,
    seed: u64,
    keys: Vec<u8>,
    /// Key n is `keys[ends[n - 1]..ends[n]]`.
    ends: Vec<u32>,
}

/// One request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Which record; [`Profile::key`] gives its key.
    pub record: u32,
    /// What to do with it.
    pub operation: Operation,
}

/// What to do with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Ask for it.
    Get,
    /// Overwrite it.
    Set {
        /// Length of the new value in bytes.
        value_bytes: u16,
    },
}

impl Profile {
    /// Draws the keys.
    ///
    /// # Errors
    /// [`ProfileError`] if the shape cannot be used.
    pub fn new(config: ProfileConfig, seed: u64) -> Result<Self, ProfileError> {
        // 2^24 keys of 250 bytes still end below 2^32.
        if !(1..=1 << 24).contains(&config.records) {
            return Err(ProfileError::Records { records: config.records });
        }
        if !(0.0..=1.0).contains(&config.set_share) {
            return Err(ProfileError::SetShare { set_share: config.set_share });
        }
        if let Popularity::Zipf { exponent } = config.popularity
            && !(exponent.is_finite() && exponent >= 0.0)
        {
            return Err(ProfileError::Exponent { exponent });
        }
        let (keys, ends) = draw_keys(&config, seed);
        Ok(Self { shared: Arc::new(Shared { config, seed, keys, ends }) })
    }

    /// As given to [`Profile::new`].
    pub fn config(&self) -> &ProfileConfig {
        &self.shared.config
    }

    /// Key of `record`.
    ///
    /// # Panics
    /// If there is no such record.
    pub fn key(&self, record: u32) -> &[u8] {
        let record = record as usize;
        let start = if record == 0 { 0 } else { self.shared.ends[record - 1] };
        &self.shared.keys[start as usize..self.shared.ends[record] as usize]
    }

    /// Stores every record once, with a value of drawn length. A store without room for all forgets some.
    pub fn fill(&self, store: &Store, now_ms: u64) {
        let mut rng = rng::stream(self.shared.seed, "kv/fill");
        let mut value = [0; value_bytes_max(0)];
        for record in 0..self.shared.config.records {
            let key = self.key(record);
            let value = &mut value[..usize::from(self.value_bytes(key, &mut rng))];
            let flags = value::fill_value(key, value);
            let put = Put { how: How::Set, cas: 0, flags, expires_ms: NEVER_MS, value };
            store.put(now_ms, key, &put).expect("values are bounded to what fits one datagram");
        }
    }

    /// The endless stream of requests of the client called `name`; one name, one stream.
    pub fn requests(&self, name: &str) -> Requests {
        let stream = |what: &str| rng::stream(self.shared.seed, &format!("kv/{name}/{what}"));
        let popularity = match self.shared.config.popularity {
            Popularity::Uniform => None,
            Popularity::Zipf { exponent } => {
                let records = f64::from(self.shared.config.records);
                Some(Zipf::new(records, exponent).expect("records and exponent were checked"))
            }
        };
        Requests {
            profile: self.clone(),
            zipf: popularity,
            records: stream("records"),
            operations: stream("operations"),
            sizes: stream("sizes"),
        }
    }

    fn value_bytes(&self, key: &[u8], rng: &mut Xoshiro256PlusPlus) -> u16 {
        self.shared.config.value_sizes.draw(rng, 0, value_bytes_max(key.len()) as u16)
    }
}

/// Requests of one client, drawn one by one; see [`Profile::requests`].
#[derive(Clone, Debug)]
pub struct Requests {
    profile: Profile,
    zipf: Option<Zipf<f64>>,
    // One stream each: another share of sets leaves the sequence of records as it is.
    records: Xoshiro256PlusPlus,
    operations: Xoshiro256PlusPlus,
    sizes: Xoshiro256PlusPlus,
}

impl Requests {
    /// Draws a length for a value of `record`, in bytes.
    ///
    /// # Panics
    /// If there is no such record.
    pub fn value_bytes(&mut self, record: u32) -> u16 {
        self.profile.value_bytes(self.profile.key(record), &mut self.sizes)
    }

    /// Draws the next request.
    pub fn draw(&mut self) -> Draw {
        let config = self.profile.config();
        let record = match &self.zipf {
            None => rng::below(&mut self.records, config.records),
            // Ranks start at 1.
            Some(zipf) => (zipf.sample(&mut self.records) as u32).clamp(1, config.records) - 1,
        };
        if rng::open_unit(&mut self.operations) >= config.set_share {
            return Draw { record, operation: Operation::Get };
        }
        let value_bytes = self.profile.value_bytes(self.profile.key(record), &mut self.sizes);
        Draw { record, operation: Operation::Set { value_bytes } }
    }
}

fn draw_keys(config: &ProfileConfig, seed: u64) -> (Vec<u8>, Vec<u32>) {
    let mut rng = rng::stream(seed, "kv/keys");
    let mut keys = Vec::with_capacity(config.records as usize * 37);
    let mut ends = Vec::with_capacity(config.records as usize);
    for record in 0..config.records {
        let key_bytes = config.key_sizes.draw(&mut rng, KEY_BYTES_MIN as u16, KEY_BYTES_MAX as u16);
        keys.extend_from_slice(format!("{record:08x}").as_bytes());
        for _ in KEY_BYTES_MIN..usize::from(key_bytes) {
            keys.push(b'a' + rng::below(&mut rng, 26) as u8);
        }
        ends.push(keys.len() as u32);
    }
    (keys, ends)
}

#[cfg(test)]
mod tests;

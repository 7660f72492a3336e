//! Figures with names and labels, as an engine answers them and as the kernel's are walked over.

use std::collections::{HashMap, HashSet};

use napier_control::metrics::{Family, Sample};
use napier_core::metric::{Metric, Sink};

use super::snapshot::Count;

/// Labels, in the order of their names there.
pub(super) type Key = Vec<String>;

/// Figures by name, and by name and one label.
pub(super) struct Figures<'a> {
    by_name: HashMap<&'a str, &'a [Sample]>,
    by_label: HashMap<(&'a str, &'a str, &'a str), Vec<&'a Sample>>,
}

impl<'a> Figures<'a> {
    pub(super) fn new(families: &'a [Family]) -> Self {
        let mut by_label = HashMap::<_, Vec<&Sample>>::new();
        for family in families {
            for sample in &family.samples {
                for (label, value) in &sample.labels {
                    by_label.entry((&*family.name, &**label, &**value)).or_default().push(sample);
                }
            }
        }
        Self { by_name: families.iter().map(|family| (&*family.name, &*family.samples)).collect(), by_label }
    }

    pub(super) fn samples(&self, name: &str) -> &'a [Sample] {
        self.by_name.get(name).copied().unwrap_or_default()
    }

    /// The figures of the object that has all these labels. The first of them is best one that few have.
    pub(super) fn of<'b>(
        &'b self,
        name: &'b str,
        labels: &'b [(&'b str, &'b str)],
    ) -> impl Iterator<Item = &'b Sample> {
        let (label, value) = labels[0];
        let some = self.by_label.get(&(name, label, value)).map(Vec::as_slice).unwrap_or_default();
        some.iter().copied().filter(|sample| labels.iter().all(|(label, value)| label_of(sample, label) == *value))
    }

    /// The sum of these, if there are some.
    pub(super) fn get(&self, name: &str, labels: &[(&str, &str)]) -> Count {
        let mut found = self.of(name, labels).map(|sample| sample.value).peekable();
        found.peek()?;
        Some(found.fold(0, u64::wrapping_add))
    }

    /// The objects that have a sample of this name, by these labels, each once.
    pub(super) fn objects(&self, name: &str, labels: &[&str]) -> Vec<Key> {
        let mut seen = HashSet::new();
        let of = |sample: &Sample| labels.iter().map(|label| label_of(sample, label).to_owned()).collect();
        self.samples(name).iter().map(of).filter(|key: &Key| seen.insert(key.clone())).collect()
    }
}

pub(super) fn label_of<'a>(sample: &'a Sample, label: &str) -> &'a str {
    sample.labels.get(label).map_or("", String::as_str)
}

/// A walk's figures, to be looked at as those of an engine are.
#[derive(Default)]
pub(super) struct Collected {
    families: Vec<Family>,
    by_name: HashMap<&'static str, usize>,
}

impl Collected {
    pub(super) fn families(&self) -> &[Family] {
        &self.families
    }
}

impl Sink for Collected {
    fn sample(&mut self, metric: &'static Metric, labels: &[&str], value: u64) {
        let place = *self.by_name.entry(metric.name).or_insert_with(|| {
            // Kind, unit and help are for others.
            self.families.push(Family { name: metric.name.to_owned(), ..Family::default() });
            self.families.len() - 1
        });
        let labels = metric.labels.iter().zip(labels).map(|(name, label)| ((*name).to_owned(), (*label).to_owned()));
        self.families[place].samples.push(Sample { labels: labels.collect(), value });
    }
}

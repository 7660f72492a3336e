//! The same finding on many interfaces is one finding with a list: a host of containers has hundreds of veth pairs.

use super::{Finding, some};

/// Findings that say the same but for the interface and its numbers, as one each.
pub(super) fn merge(all: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<(Option<String>, Finding)> = Vec::new();
    for finding in all {
        let shape = finding.device.as_ref().map(|device| shape(&finding.what, device));
        let known = merged.iter_mut().find(|(known, first)| {
            shape.is_some() && *known == shape && first.id == finding.id && first.severity == finding.severity
        });
        match known {
            Some((_, first)) => {
                first.also.extend(finding.device);
                first.mend.extend(finding.mend);
            }
            None => merged.push((shape, finding)),
        }
    }
    merged.into_iter().map(|(_, finding)| with_list(finding)).collect()
}

fn with_list(mut finding: Finding) -> Finding {
    if !finding.also.is_empty() {
        let word = if finding.also.len() == 1 { "interface" } else { "interfaces" };
        finding.what += &format!(" So it is on {} more {word}: {}.", finding.also.len(), some(&finding.also));
    }
    finding
}

/// What is said, without the interface and without numbers.
fn shape(what: &str, device: &str) -> String {
    let mut shape = String::new();
    for c in what.replace(device, "@").chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        if c != '#' || !shape.ends_with('#') {
            shape.push(c);
        }
    }
    shape
}

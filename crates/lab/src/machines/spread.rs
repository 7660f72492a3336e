//! How connections fall on the receive queues of a card: as the hash of their addresses lets them, so that some queues have more than others.
//!
//! A hash takes each connection to each queue alike, whatever the others do: the connections of a queue have a binomial distribution. It is
//! taken as it is and nothing is drawn, so that the same plan has the same queues.

/// Weights below this part of the largest are none.
const NOTHING: f64 = 1e-15;

/// Connections of queues that stand for all `queues` of a server, from the emptiest to the fullest: the queues are taken in order, in
/// `looked_at` equal parts, and the middle of each. A queue has one connection at least.
#[must_use]
pub fn queue_connections(connections: u16, queues: u16, looked_at: u16) -> Vec<u16> {
    let part = |nth: u16| (f64::from(nth) + 0.5) / f64::from(looked_at);
    (0..looked_at).map(|nth| quantile(connections, queues, part(nth))).collect()
}

/// Connections of the fullest queue, in the mean of many such servers. Source: G. Blom, "Statistical Estimates and Transformed
/// Beta-Variables", 1958: what part of a distribution lies below the largest of so many.
#[must_use]
pub fn fullest_queue(connections: u16, queues: u16) -> u16 {
    let queues_f = f64::from(queues);
    quantile(connections, queues, (queues_f - 0.375) / (queues_f + 0.25))
}

/// The least number of connections that `part` of all queues do not exceed.
fn quantile(connections: u16, queues: u16, part: f64) -> u16 {
    if queues <= 1 {
        return connections;
    }
    let mean = connections / queues;
    // How much likelier one more connection is than so many.
    let more = |than: u16| f64::from(connections - than) / (f64::from(than + 1) * f64::from(queues - 1));
    let mut below = vec![(mean, 1.0)];
    let mut weight = 1.0;
    for count in (0..mean).rev() {
        weight /= more(count);
        if weight < NOTHING {
            break;
        }
        below.push((count, weight));
    }
    let mut weights: Vec<(u16, f64)> = below.into_iter().rev().collect();
    weight = 1.0;
    for count in mean + 1..=connections {
        weight *= more(count - 1);
        if weight < NOTHING {
            break;
        }
        weights.push((count, weight));
    }
    let wanted = weights.iter().map(|(_, weight)| weight).sum::<f64>() * part;
    let mut sum = 0.0;
    let found = weights.iter().find(|(_, weight)| {
        sum += weight;
        sum >= wanted
    });
    found.map_or(mean, |(count, _)| *count).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_gives_some_queues_more_than_others() {
        // 560 each, with a standard deviation of 22.
        let eight = queue_connections(4480, 8, 8);
        assert!(eight.is_sorted() && eight.len() == 8, "{eight:?}");
        assert!((4474..=4486).contains(&eight.iter().sum::<u16>()), "{eight:?}");
        assert!((588..=598).contains(&eight[7]) && (522..=532).contains(&eight[0]), "{eight:?}");
        assert!((588..=596).contains(&fullest_queue(4480, 8)), "{}", fullest_queue(4480, 8));
        // More queues have a fuller one among them.
        assert!(fullest_queue(560 * 64, 64) > fullest_queue(4480, 8) + 10);
        assert_eq!(queue_connections(4480, 8, 1), [560]);
    }

    #[test]
    fn the_distribution_is_the_binomial_one() {
        // Two throws of a coin: 0 of a quarter, 1 of a half, 2 of a quarter; but a queue has one at least.
        assert_eq!([0.2, 0.3, 0.7, 0.8].map(|part| quantile(2, 2, part)), [1, 1, 1, 2]);
        // 64 on 8 queues: 0.1731 of the queues have five or fewer.
        assert_eq!([0.173, 0.174].map(|part| quantile(64, 8, part)), [5, 6]);
        for queues in [1, 2, 3, 100, 1024] {
            let few = queue_connections(60_000, queues, 4);
            assert!(few.iter().all(|count| (1..=60_000).contains(count)), "{few:?}");
        }
        assert_eq!((queue_connections(700, 1, 3), fullest_queue(700, 1)), (vec![700; 3], 700));
    }
}

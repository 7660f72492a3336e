//! Answers as JSON, with the keys and words that `ynl --family netdev` prints. Flags are a list of words there.

use napier_core::control::{
    DevInfo, NapiInfo, QStats, QueueInfo, XDP_FEATURES, XDP_RX_METADATA_FEATURES, XSK_FEATURES,
};
use serde_json::{Map, Value, json};

/// An instance.
#[must_use]
pub fn napi(info: &NapiInfo) -> Map<String, Value> {
    let numbers = info.attributes().filter(|(name, _)| *name != "threaded");
    let mut record: Map<_, _> = numbers.map(|(name, value)| (name.to_owned(), value.into())).collect();
    record.extend(info.threaded.map(|setting| ("threaded".to_owned(), setting.name().into())));
    record
}

/// A queue.
#[must_use]
pub fn queue(info: &QueueInfo) -> Map<String, Value> {
    let mut record = Map::new();
    record.insert("id".to_owned(), info.id.into());
    record.insert("ifindex".to_owned(), info.ifindex.into());
    record.insert("type".to_owned(), info.kind.name().into());
    record.extend(info.napi_id.map(|id| ("napi-id".to_owned(), id.into())));
    record
}

/// A device.
#[must_use]
pub fn device(info: &DevInfo) -> Map<String, Value> {
    let mut record = Map::new();
    record.insert("ifindex".to_owned(), info.ifindex.into());
    let flags = [
        ("xdp-features", info.xdp_features, &XDP_FEATURES[..]),
        ("xdp-rx-metadata-features", info.xdp_rx_metadata_features, &XDP_RX_METADATA_FEATURES),
        ("xsk-features", info.xsk_features, &XSK_FEATURES),
    ];
    for (name, bits, words) in flags {
        record.extend(bits.map(|bits| (name.to_owned(), flags_of(bits, words))));
    }
    record.extend(info.xdp_zc_max_segs.map(|segments| ("xdp-zc-max-segs".to_owned(), segments.into())));
    record
}

/// Words of the bits that are set; a bit without a word is said by its number.
fn flags_of(bits: u64, words: &[&str]) -> Value {
    let set = (0..64).filter(|bit| bits >> bit & 1 == 1);
    set.map(|bit| words.get(bit).map_or_else(|| json!(format!("bit {bit}")), |word| json!(word))).collect()
}

/// Counters.
#[must_use]
pub fn qstats(stats: &QStats) -> Map<String, Value> {
    let mut record = Map::new();
    record.insert("ifindex".to_owned(), stats.ifindex.into());
    if let Some((kind, id)) = stats.queue {
        record.insert("queue-type".to_owned(), kind.name().into());
        record.insert("queue-id".to_owned(), id.into());
    }
    record.extend(stats.counted().map(|(name, value)| (name.to_owned(), value.into())));
    record
}

/// A list of records.
#[must_use]
pub fn all<T>(infos: &[T], record: fn(&T) -> Map<String, Value>) -> Value {
    infos.iter().map(|info| Value::Object(record(info))).collect()
}

#[cfg(test)]
mod tests {
    use napier_core::control::{QueueKind, ThreadedSetting};
    use napier_core::time::Span;

    use super::*;

    #[test]
    fn keys_words_and_numbers_are_those_of_ynl() {
        let info = NapiInfo {
            ifindex: 2,
            id: 8,
            irq: Some(27),
            pid: None,
            defer_hard_irqs: Some(0),
            gro_flush_timeout: Some(Span::from_secs(5)),
            irq_suspend_timeout: Some(Span::ZERO),
            threaded: Some(ThreadedSetting::BusyPoll),
        };
        let want = json!({"ifindex": 2, "id": 8, "irq": 27, "defer-hard-irqs": 0, "gro-flush-timeout": 5_000_000_000_u64,
                          "irq-suspend-timeout": 0, "threaded": "busy-poll"});
        assert_eq!(Value::Object(napi(&info)), want);
        let info = QueueInfo { id: 1, ifindex: 2, kind: QueueKind::Rx, napi_id: Some(8) };
        assert_eq!(Value::Object(queue(&info)), json!({"id": 1, "ifindex": 2, "type": "rx", "napi-id": 8}));
        let info =
            DevInfo { ifindex: 2, xdp_features: Some(0b1_0000_0011), xsk_features: Some(0), ..DevInfo::default() };
        let want = json!({"ifindex": 2, "xdp-features": ["basic", "redirect", "bit 8"], "xsk-features": []});
        assert_eq!(Value::Object(device(&info)), want);
        let mut stats = QStats::new(2, Some((QueueKind::Tx, 0)));
        stats.set("tx-packets", 3);
        let want = json!([{"ifindex": 2, "queue-type": "tx", "queue-id": 0, "tx-packets": 3}]);
        assert_eq!(all(&[stats], qstats), want);
    }
}

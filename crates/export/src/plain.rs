//! From OpenMetrics to the text format 0.0.4, which tools without OpenMetrics read: node_exporter's textfile collector,
//! `promtool check metrics`. There a counter's head has the counter's whole name, and there is neither unit nor end.
//!
//! Source: prometheus.io, "Exposition formats", "Text-based format"; OpenMetrics 1.0, "Counter".

/// Of a text that `prometheus-client` wrote, with counters and gauges only, behind what is in `plain`.
pub(crate) fn from_open_metrics(text: &str, plain: &mut String) {
    plain.reserve(text.len());
    // Written before the type is known, which decides the name.
    let mut help = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let end = if kind == "counter" { "_total" } else { "" };
            if let Some((_, help)) = help.take() {
                plain.extend(["# HELP ", name, end, " ", help, "\n"]);
            }
            plain.extend(["# TYPE ", name, end, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            plain.extend([line, "\n"]);
        }
    }
}

use super::*;

/// What a walk gives, as `name{labels} figure`.
fn seen(walk: impl FnOnce(&mut dyn Sink)) -> Vec<String> {
    let mut seen = Vec::new();
    walk(&mut |metric: &'static Metric, labels: &[&str], figure: u64| {
        let name = metric.name.strip_prefix("napier_kernel_").expect("a kernel's");
        seen.push(format!("{name}{labels:?} {figure}"));
    });
    seen
}

#[test]
fn counts_go_with_the_cpus_of_the_head() {
    // CPU 1 is offline.
    let table = "                    CPU0       CPU2\n          HI:          1          2\n      NET_TX:  \
                 5          1\n      NET_RX:       3621       5163\n";
    let expected = ["softirqs[\"0\", \"NET_RX\"] 3621", "softirqs[\"2\", \"NET_RX\"] 5163"];
    assert_eq!(seen(|sink| softirqs(table, sink))[..2], expected);
    assert_eq!(seen(|sink| softirqs("", sink)), [""; 0]);
}

#[test]
fn an_interrupt_may_have_fewer_columns_than_cpus() {
    let table = "           CPU0       CPU1\n 24:   7   0  IO-APIC   5-edge      ACPI:Ged\nERR:  3\nLOC:  11 22   Local timer\n";
    let rows = Interrupts::parse(table);
    assert_eq!(rows.of("24").collect::<Vec<_>>(), [(0, 7), (1, 0)]);
    assert_eq!(rows.of("ERR").collect::<Vec<_>>(), [(0, 3)]);
    assert_eq!(rows.of("25").count(), 0);
    assert_eq!(
        seen(|sink| timer_interrupts(table, sink)),
        ["timer_interrupts[\"0\"] 11", "timer_interrupts[\"1\"] 22"]
    );
}

#[test]
fn a_cpu_of_softnet_stat_is_the_one_that_the_line_names() {
    let line = "000021bf 00000001 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000003 00000004 \
                00000005 00000007 00000000 00000000\n";
    let expected = [
        "softnet_processed[\"7\"] 8639",
        "softnet_dropped[\"7\"] 1",
        "softnet_time_squeeze[\"7\"] 2",
        "softnet_received_rps[\"7\"] 3",
        "softnet_flow_limit[\"7\"] 4",
        "softnet_backlog[\"7\"] 5",
    ];
    assert_eq!(seen(|sink| softnet(line, sink)), expected);
    // Before Linux 5.10.
    assert_eq!(
        seen(|sink| softnet("1 2 3 0 0 0 0 0 0 4 5\n6 0 0\n", sink))[5..],
        ["softnet_processed[\"1\"] 6", "softnet_dropped[\"1\"] 0", "softnet_time_squeeze[\"1\"] 0"]
    );
    assert_eq!(seen(|sink| softnet("not hexadecimal\n", sink)), [""; 0]);
}

#[test]
fn time_is_told_by_cpu_in_ns() {
    let table = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\nintr 5\nctxt 6\n";
    let found = seen(|sink| spent(table, 100, sink));
    assert_eq!(found.len(), 8, "{found:?}");
    assert_eq!(
        (found[0].as_str(), found[7].as_str()),
        ("cpu[\"0\", \"user\"] 10000000", "cpu[\"0\", \"steal\"] 80000000")
    );
}

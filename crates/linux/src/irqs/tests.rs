use super::role::{Named, Role, roles};
use super::table::IrqTable;
use crate::drivers::Numbers;

#[test]
fn a_row_is_a_number_a_chip_and_all_words_behind_it() {
    let table = "           CPU0       CPU1\n  0:  1  0  IO-APIC   2-edge      timer\n \
                 16:  5  6  IR-IO-APIC   16-fasteoi   ehci_hcd:usb1, eth0\n \
                 75:  0  9  IR-PCI-MSI 2629669-edge      eth0 (queue 3)\n \
                 30:  0  9  GICv3  27 Level     arch_timer\n 31:  0  9  PCI-MSI 3-edge\n \
                 60:  3  4  xen-dyn    -event     eth0-q0-tx\n 61: 3 4 Dove PMU 3  Edge      eth0\nNMI: 1 2 Non-maskable\n \
                 62: 3\n";
    let found = IrqTable::parse(table);
    let rows: Vec<(u32, &str, &str)> = found.rows().map(|row| (row.number, row.chip, row.name)).collect();
    let wanted = [
        (0, "IO-APIC", "timer"),
        (16, "IR-IO-APIC", "ehci_hcd:usb1, eth0"),
        (75, "IR-PCI-MSI", "eth0 (queue 3)"),
        (30, "GICv3", "arch_timer"),
        (31, "PCI-MSI", ""),
        (60, "xen-dyn", "eth0-q0-tx"),
        (61, "Dove", "eth0"),
    ];
    assert_eq!(rows, wanted);
}

#[test]
fn a_name_is_borne_by_itself_only() {
    let rows = [
        ("eth0", true),
        ("eth0-TxRx-0", true),
        ("i40e-eth0-TxRx-0", true),
        ("eth0:rx", true),
        ("ehci_hcd:usb1, eth0", true),
        ("eth0 (queue 3)", true),
        ("eth01-TxRx-0", false),
        ("veth0-q0", false),
        ("eth0.100-x", false),
        ("", false),
    ];
    for (name, is_borne) in rows {
        assert_eq!(super::table::has_apart(name, "eth0"), is_borne, "{name}");
    }
    assert!(!super::table::has_apart("eth0", ""));
}

/// Names that drivers give, and what they are: with the interface `eth0` at `0000:81:00.0`.
#[test]
fn each_drivers_names_are_known() {
    use Role::{Both, Control, Receive, Transmit};
    let rows: [(&str, Role, Option<u32>); 38] = [
        ("mlx5_async0@pci:0000:81:00.0", Control, None),
        ("mlx5_comp13@pci:0000:81:00.0", Both, Some(13)),
        ("mlx5_cmd_eq@pci:0000:81:00.0", Control, None),
        ("mlx5_page_fault_eq@pci:0000:81:00.0", Control, None),
        ("mlx4-async@pci:0000:81:00.0", Control, None),
        ("ice-0000:81:00.0:misc", Control, None),
        ("ice-eth0-TxRx-7", Both, Some(7)),
        ("ice-0000:81:00.0:ctrl-TxRx-0", Control, None),
        // Intel's own driver, with two queues a vector.
        ("ice-eth0-TxRx-8-9", Both, Some(8)),
        ("iavf-0000:81:00.0:mbx", Control, None),
        ("i40e-0000:81:00.0:fdir-TxRx-0", Control, None),
        ("idpf-eth0-TxRx-2", Both, Some(2)),
        ("idpf-0000:81:00.0-Mailbox-0", Control, None),
        ("ena-mgmnt@pci:0000:81:00.0", Control, None),
        ("eth0-Tx-Rx-3", Both, Some(3)),
        ("gve-mgmnt@pci:0000:81:00.0", Control, None),
        ("mana_hwc@pci:0000:81:00.0", Control, None),
        ("mana_q2@pci:0000:81:00.0", Both, Some(2)),
        ("virtio0-config", Control, None),
        ("virtio0-control", Control, None),
        ("virtio0-input.1", Receive, Some(1)),
        ("virtio0-output.1", Transmit, Some(1)),
        ("eth0-rx-4", Receive, Some(4)),
        ("eth0-tx-4", Transmit, Some(4)),
        ("eth0-rxtx-1", Both, Some(1)),
        ("eth0-event-4", Control, None),
        ("eth0-fp-3", Both, Some(3)),
        ("eth0-sp-0", Control, None),
        ("eth0 (queue 3)", Both, Some(3)),
        ("eth0-FWeventq", Control, None),
        ("eth0-Rx2 (queue 2)", Receive, Some(2)),
        ("hns3-eth0-TxRx-5", Both, Some(5)),
        ("hclge-misc-0000:81:00.0-00000", Control, None),
        ("ice-0000:81:00.0:ll_ts", Control, None),
        ("eth0-unused", Control, None),
        ("eth0-rbdr-0", Control, None),
        ("eth0-qset-err-0", Control, None),
        ("eth0", Control, None),
    ];
    for (name, role, queue) in rows {
        // Beside one of a queue that no row has.
        let named = [name, "eth0-TxRx-99"].map(|name| Named::of(name, &["eth0", "0000:81:00.0"]));
        assert_eq!(roles(&named, Numbers::Queue)[0], (role, queue), "{name}");
    }
    let of = |names: &[&str], strip: &str, numbers| {
        let named: Vec<Named> = names.iter().map(|name| Named::of(name, &[strip])).collect();
        roles(&named, numbers)
    };
    // Alone, or under an old name, it is the queue's.
    assert_eq!(of(&["eth0"], "eth0", Numbers::Queue), [(Both, None)]);
    assert_eq!(of(&["eth0"], "enp1s0", Numbers::Queue), [(Both, None)]);
    assert_eq!(of(&["eth0", "eth0-TxRx-0"], "eno1", Numbers::Queue)[0], (Control, None));
    // Two numbers behind an old name are not two queues.
    assert_eq!(of(&["eth0-3"], "eno1", Numbers::Queue), [(Both, Some(3))]);
}

/// What the number in a name is depends on the driver.
#[test]
fn a_number_in_a_name_is_not_always_a_queues() {
    use Role::{Both, Receive, Transmit};
    let of = |names: &[&str], numbers| {
        let named: Vec<Named> = names.iter().map(|name| Named::of(name, &["eth0"])).collect();
        roles(&named, numbers)
    };
    let tg3 = of(&["eth0-tx-0", "eth0-rx-1", "eth0-rx-2"], Numbers::OneMore);
    assert_eq!(tg3, [(Transmit, Some(0)), (Receive, Some(0)), (Receive, Some(1))]);
    // idpf before and since its names have the queue's number.
    let old = of(&["idpf-eth0-TxRx-1", "idpf-eth0-TxRx-3", "idpf-eth0-Tx-4"], Numbers::Vector);
    assert_eq!(old, [(Both, None), (Both, None), (Transmit, None)]);
    let new = of(&["idpf-eth0-TxRx-0", "idpf-eth0-TxRx-1", "idpf-eth0-Tx-2"], Numbers::Vector);
    assert_eq!(new, [(Both, Some(0)), (Both, Some(1)), (Transmit, Some(2))]);
    // bnxt before Linux 6.12 has room for 17 letters: queue 1, and 10 with the 0 cut off. Longer names lose all of the number.
    let named = |name| Named::of(name, &["enp4s0f0p0"]);
    let cut =
        roles(&[named("enp4s0f0p0-TxRx-0"), named("enp4s0f0p0-TxRx-1"), named("enp4s0f0p0-TxRx-1")], Numbers::Queue);
    assert_eq!(cut, [(Both, Some(0)), (Both, None), (Both, None)]);
    let cut = roles(&[Named::of("enp4s0f0np0-TxRx-", &["enp4s0f0np0"])], Numbers::Queue);
    assert_eq!(cut, [(Both, None)]);
    // One block for each direction.
    let gve = of(&["eth%d-ntfy-block.0", "eth%d-ntfy-block.1"], Numbers::Queue);
    assert_eq!(gve, [(Transmit, Some(0)), (Receive, Some(0))]);
}

//! Programs on one engine reach each other, and themselves, by its address.

use std::io::Read as _;

use napier_testkit::eventually;

use crate::Stand;

#[test]
fn programs_on_one_engine_reach_each_other_by_its_address() {
    let Some(stand) = Stand::new("programs_on_one_engine_reach_each_other_by_its_address", None) else { return };
    let expected = "names True True True\necho True\nEINPROGRESS True 0 True\nECONNRESET\nECONNREFUSED\nTrue ::ffff:10.79.0.9\nTrue\n";
    assert_eq!(stand.ended(&["near", "7012"]), expected);
    assert_eq!(stand.ended(&["small_buffer", "7013"]), "True 8192\n".repeat(2));
    let (server, _said) = stand.server(&["serve", "7001"]);
    assert_eq!(stand.ended(&["asks_near", "7001"]), "got 300000\n".repeat(20));
    let (_client, mut said) = stand.server(&["near_until_the_end", "7001"]);
    drop(server);
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("it speaks");
    assert_eq!(rest, "b''\n");
    eventually("nothing is left", || stand.sockets().is_empty());
    // Bytes that were on their way, and what waited at a listener, are gone as well: the port is free.
    let (_server, _said) = stand.server(&["serve", "7001"]);
}

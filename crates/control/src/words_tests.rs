use serde_json::json;

use super::*;

fn ask(operation: Operation, how: How, attributes: &Value) -> Result<Call, CallError> {
    call(operation, how, attributes.as_object().expect("an object"))
}

#[test]
fn what_ynl_takes_is_taken() {
    let set = ask(
        Operation::NapiSet,
        How::Do,
        &json!({"id": 8, "defer-hard-irqs": "100", "irq-suspend-timeout": 5_000_000_000_u64, "threaded": "busy-poll"}),
    );
    let want = NapiSet {
        id: Some(8),
        defer_hard_irqs: Some(100),
        irq_suspend_timeout: Some(5_000_000_000),
        threaded: Some(2),
        ..NapiSet::default()
    };
    assert_eq!(set, Ok(Call::NapiSet(want)));
    let pool = ask(Operation::NapiSet, How::Do, &json!({"id": 8, "threaded": "workqueue"}));
    let want = NapiSet { id: Some(8), workqueue: true, ..NapiSet::default() };
    assert_eq!(pool, Ok(Call::NapiSet(want)));
    for kind in [json!("tx"), json!(1), json!("1")] {
        let queue = ask(Operation::QueueGet, How::Do, &json!({"ifindex": 2, "type": kind, "id": 3}));
        assert_eq!(queue, Ok(Call::QueueGet(QueueGet { id: Some(3), kind: Some(1), ifindex: Some(2) })));
    }
    for (scope, by_queue) in
        [(json!("queue"), true), (json!(["queue"]), true), (json!(1), true), (json!(0), false), (json!([]), false)]
    {
        let stats = ask(Operation::QstatsGet, How::Dump, &json!({"scope": scope}));
        assert_eq!(stats, Ok(Call::QstatsDump { ifindex: None, by_queue }), "{scope}");
    }
    assert_eq!(ask(Operation::DevGet, How::Dump, &json!({})), Ok(Call::DevDump));
}

#[test]
fn what_is_not_accepted_is_said_with_what_is() {
    let refused = |operation, how, attributes| ask(operation, how, &attributes).expect_err("refused").to_string();
    let said = refused(Operation::NapiSet, How::Do, json!({"id": 8, "irq": 3}));
    assert_eq!(
        said,
        "EINVAL: napi-set (do) does not accept irq: it takes id, defer-hard-irqs, gro-flush-timeout, irq-suspend-timeout \
         and threaded"
    );
    let said = refused(Operation::DevGet, How::Dump, json!({"ifindex": 1}));
    assert_eq!(said, "EINVAL: dev-get (dump) does not accept ifindex: it takes no attributes");
    let said = refused(Operation::QstatsGet, How::Do, json!({}));
    assert_eq!(said, "EOPNOTSUPP: qstats-get has no do: give dump");
    for value in [json!(-1), json!(1.5), json!("x"), json!(null), json!([1]), json!(true)] {
        let said = refused(Operation::NapiGet, How::Do, json!({"id": value}));
        assert!(said.starts_with("EINVAL: id must be a whole number"), "{said}");
    }
    let said = refused(Operation::NapiSet, How::Do, json!({"threaded": "busypoll"}));
    assert!(said.contains("disabled, enabled or busy-poll"), "{said}");
    assert!(refused(Operation::QueueGet, How::Do, json!({"type": "xdp"})).contains("rx or tx"));
    assert!(refused(Operation::QstatsGet, How::Dump, json!({"scope": ["queue", "x"]})).contains("queue, or 0"));
}

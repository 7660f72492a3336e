use super::*;

const SEQUENCE: u32 = 7;

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(((HEAD + body.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(SEQUENCE.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// napi-set of instance 9 with a `threaded` that is out of range.
fn set() -> Vec<u8> {
    let mut attributes = Vec::new();
    wire::push_id(&mut attributes, 9);
    wire::push(&mut attributes, 8, &2_u32.to_ne_bytes());
    request(33, NLM_F_REQUEST | NLM_F_ACK, SEQUENCE, 14, &attributes)
}

fn words() -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::push(&mut bytes, SAID, b"integer out of range\0");
    wire::push(&mut bytes, OFFSET, &28_u32.to_ne_bytes());
    let mut policy = Vec::new();
    wire::push(&mut policy, 1, &4_u32.to_ne_bytes());
    wire::push(&mut policy, 4, &0_u64.to_ne_bytes());
    wire::push(&mut policy, MAX_UNSIGNED, &1_u64.to_ne_bytes());
    wire::push(&mut bytes, POLICY | 0x8000, &policy);
    bytes
}

fn verdict(bytes: &[u8], request: &[u8]) -> Option<Option<NetlinkRefusal>> {
    let (message, rest) = NetlinkMessage::first(bytes).expect("a message");
    assert!(rest.is_empty());
    message.verdict(request)
}

#[test]
fn a_refusal_has_its_number_words_attribute_and_bound_with_and_without_the_request() {
    let request = set();
    let want =
        NetlinkRefusal { errno: 34, said: Some("integer out of range".to_owned()), attribute: Some(8), max: Some(1) };
    let capped = [&(-34_i32).to_ne_bytes()[..], &request[..HEAD], &words()].concat();
    let whole = [&(-34_i32).to_ne_bytes()[..], &request, &words()].concat();
    let done = [&(-34_i32).to_ne_bytes()[..], &words()].concat();
    let rows = [
        message(NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS, &capped),
        message(NLMSG_ERROR, NLM_F_ACK_TLVS, &whole),
        message(NLMSG_DONE, NLM_F_ACK_TLVS, &done),
    ];
    for bytes in rows {
        assert_eq!(verdict(&bytes, &request), Some(Some(want.clone())));
    }
    let bare = NetlinkRefusal { errno: 19, ..NetlinkRefusal::default() };
    let body = (-19_i32).to_ne_bytes();
    assert_eq!(verdict(&message(NLMSG_DONE, 0, &body), &request), Some(Some(bare.clone())), "a dump that ended early");
    assert_eq!(
        verdict(&message(NLMSG_ERROR, NLM_F_ACK_TLVS, &[&body[..], &request[..HEAD]].concat()), &request).map(|_| ()),
        Some(())
    );
    assert_eq!(verdict(&message(NLMSG_DONE, 0, &0_i32.to_ne_bytes()), &request), Some(None));
}

#[test]
fn what_is_cut_short_is_no_message() {
    let bytes = message(NLMSG_DONE, 0, &0_i32.to_ne_bytes());
    for length in 0..bytes.len() {
        assert!(NetlinkMessage::first(&bytes[..length]).is_none(), "{length}");
    }
    let (short, _) = NetlinkMessage::first(&message(NLMSG_ERROR, 0, &[1, 2]))
        .map(|(m, r)| (m.verdict(&[]), r.len()))
        .expect("a head");
    assert_eq!(short, None);
    // An offset that points nowhere names no attribute.
    let mut words = Vec::new();
    wire::push(&mut words, OFFSET, &4000_u32.to_ne_bytes());
    wire::push(&mut words, SAID, b"\0");
    let body = [&(-22_i32).to_ne_bytes()[..], &words].concat();
    let refused = verdict(&message(NLMSG_DONE, NLM_F_ACK_TLVS, &body), &set()).flatten().expect("refused");
    assert_eq!((refused.attribute, refused.said, refused.max), (None, None, None));
}

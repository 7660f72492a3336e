use alloc::format;

use super::*;

const FIRST: u32 = 9;
const PLAIN: SocketBusy = SocketBusy { busy_poll_usecs: 0, prefer: false, budget: 0, napi_id: 0 };

#[test]
fn numbers_and_names() {
    let options = [
        (46, BusyOption::BusyPoll, "SO_BUSY_POLL"),
        (56, BusyOption::IncomingNapiId, "SO_INCOMING_NAPI_ID"),
        (69, BusyOption::PreferBusyPoll, "SO_PREFER_BUSY_POLL"),
        (70, BusyOption::BusyPollBudget, "SO_BUSY_POLL_BUDGET"),
    ];
    for (number, option, name) in options {
        assert_eq!(BusyOption::from_number(number), Some(option));
        assert_eq!(option as i32, number);
        assert_eq!(option.name(), name);
    }
    assert_eq!(BusyOption::from_number(1), None);
}

/// Each row: value, capability, what it comes to, and the settings after it when starting from `before`.
#[test]
fn set_rules() {
    use BusyOption::{BusyPoll, BusyPollBudget, IncomingNapiId, PreferBusyPoll};
    let budget = |budget| SocketBusy { budget, ..PLAIN };
    let prefer = SocketBusy { prefer: true, ..PLAIN };
    let usecs = |busy_poll_usecs| SocketBusy { busy_poll_usecs, ..PLAIN };
    let perm = |option| Err(SockOptError::NotPermitted(option));
    let inval = |option| Err(SockOptError::Invalid(option));
    let rows = [
        (PLAIN, BusyPoll, -1, true, inval(BusyPoll)),
        (PLAIN, BusyPoll, i32::MIN, true, inval(BusyPoll)),
        (PLAIN, BusyPoll, i32::MAX, false, Ok(usecs(i32::MAX as u32))),
        (usecs(9), BusyPoll, 0, false, Ok(PLAIN)),
        (PLAIN, IncomingNapiId, 0, true, Err(SockOptError::ReadOnly(IncomingNapiId))),
        (PLAIN, PreferBusyPoll, 1, false, perm(PreferBusyPoll)),
        (PLAIN, PreferBusyPoll, -7, false, perm(PreferBusyPoll)),
        (PLAIN, PreferBusyPoll, 7, true, Ok(prefer)),
        (prefer, PreferBusyPoll, 0, false, Ok(PLAIN)),
        (PLAIN, BusyPollBudget, 1, false, perm(BusyPollBudget)),
        (budget(10), BusyPollBudget, 10, false, Ok(budget(10))),
        (budget(10), BusyPollBudget, 9, false, Ok(budget(9))),
        (budget(10), BusyPollBudget, 11, false, perm(BusyPollBudget)),
        (budget(u16::MAX), BusyPollBudget, 65535, false, Ok(budget(u16::MAX))),
        (budget(u16::MAX), BusyPollBudget, 70000, false, perm(BusyPollBudget)),
        (PLAIN, BusyPollBudget, 65535, true, Ok(budget(u16::MAX))),
        (PLAIN, BusyPollBudget, 65536, true, inval(BusyPollBudget)),
        (PLAIN, BusyPollBudget, -1, true, inval(BusyPollBudget)),
        (PLAIN, BusyPollBudget, -1, false, inval(BusyPollBudget)),
    ];
    for (before, option, value, cap, want) in rows {
        let mut socket = before;
        let got = socket.set(option, value, cap).map(|()| socket);
        assert_eq!(got, want, "{option:?} {value} cap={cap}");
        if got.is_err() {
            assert_eq!(socket, before, "a refused option changes nothing");
        }
    }
}

#[test]
fn get_rules() {
    let socket = SocketBusy { busy_poll_usecs: 77, prefer: true, budget: 5, napi_id: FIRST };
    assert_eq!(socket.get(BusyOption::BusyPoll, FIRST), Ok(77));
    assert_eq!(socket.get(BusyOption::PreferBusyPoll, FIRST), Ok(1));
    assert_eq!(PLAIN.get(BusyOption::PreferBusyPoll, FIRST), Ok(0));
    assert_eq!(socket.get(BusyOption::IncomingNapiId, FIRST), Ok(9));
    assert_eq!(socket.get(BusyOption::IncomingNapiId, FIRST + 1), Ok(0), "not a NAPI id");
    let budget = socket.get(BusyOption::BusyPollBudget, FIRST);
    assert_eq!(budget, Err(SockOptError::WriteOnly(BusyOption::BusyPollBudget)));
}

#[test]
fn errors_carry_the_kernels_number() {
    let errors = [
        (SockOptError::NotPermitted(BusyOption::BusyPollBudget), Errno::EPERM),
        (SockOptError::NotPermitted(BusyOption::PreferBusyPoll), Errno::EPERM),
        (SockOptError::Invalid(BusyOption::BusyPoll), Errno::EINVAL),
        (SockOptError::TooShort, Errno::EINVAL),
        (SockOptError::ReadOnly(BusyOption::IncomingNapiId), Errno::ENOPROTOOPT),
        (SockOptError::WriteOnly(BusyOption::BusyPollBudget), Errno::ENOPROTOOPT),
    ];
    for (error, errno) in errors {
        assert_eq!(error.errno(), errno);
        assert!(format!("{error}").starts_with(errno.name()));
    }
}

#[test]
fn an_option_value_is_an_int() {
    assert_eq!(option_value(&[1, 0]), Err(SockOptError::TooShort));
    assert_eq!(option_value(&(-5i32).to_ne_bytes()), Ok(-5));
    let mut longer = [0; 8];
    longer[..4].copy_from_slice(&7i32.to_ne_bytes());
    assert_eq!(option_value(&longer), Ok(7));
}

#[test]
fn a_new_socket_takes_the_sysctl() {
    let socket = SocketBusy::new(77);
    assert_eq!(socket, SocketBusy { busy_poll_usecs: 77, ..PLAIN });
    assert_eq!(SocketBusy::default(), PLAIN);
}

#[test]
fn which_receive_calls_busy_poll() {
    let socket = SocketBusy { busy_poll_usecs: 200, prefer: true, budget: 64, napi_id: FIRST };
    let params = BusyParams { prefer: true, budget_pkts: 64, limit: BusyLimit::For(200) };
    assert_eq!(socket.busy_params(false, FIRST), Some(params));
    assert_eq!(socket.busy_params(true, FIRST), Some(BusyParams { limit: BusyLimit::Once, ..params }));
    assert_eq!(SocketBusy { busy_poll_usecs: 0, ..socket }.busy_params(false, FIRST), None);
    assert_eq!(SocketBusy { napi_id: FIRST - 1, ..socket }.busy_params(false, FIRST), None);
    let plain = SocketBusy { prefer: false, budget: 0, ..socket }.busy_params(true, FIRST).unwrap();
    assert_eq!((plain.prefer, plain.budget_pkts()), (false, 8));
}

#[test]
fn recording_the_id() {
    // Connected: follows every packet, even one without an id.
    assert_eq!(record_napi_id(20, 21, true), 21);
    assert_eq!(record_napi_id(20, 0, true), 0);
    // Unconnected: the first number other than 0 stays, be it an id or not.
    assert_eq!(record_napi_id(0, 0, false), 0);
    assert_eq!(record_napi_id(0, 21, false), 21);
    assert_eq!(record_napi_id(21, 20, false), 21);
    assert_eq!(record_napi_id(3, 20, false), 3);
}

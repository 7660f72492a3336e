//! What is changed on a live machine, as one list: shown, noted, written, read back, and put back.
//!
//! ```text
//! Line (what shall be) --apply--> read, note in the journal and sync, write, read again --> Entry (what was there)
//! Entry --undo, newest first--> is it still what was written? put back : leave it and say so
//! ```
//!
//! A [`Key`] names one value of this machine: an attribute of a NAPI instance, a file of an interface, a sysctl. Every value
//! is text, as the tool that people set it with shows it. The journal ([`Journal`]) is on disk before the first write, so
//! that the next run of any command can put back what one that was killed has left ([`recover`]).

mod apply;
mod begin;
mod device_file;
mod each;
mod ethtool;
mod file;
mod flow_rule;
mod header;
mod implied;
mod instances;
mod journal;
mod key;
mod ledger;
mod line;
mod machine;
mod napi;
mod places;
mod plan;
mod queues;
mod read;
mod recover;
mod show;
mod sum;
pub(crate) mod thread;
mod trial;
mod undo;

pub use crate::descriptors::{AS_MADE, IN_FORCE};
pub use crate::setting::text::{quoted, shown};
pub use crate::setting::{DeviceRef, KeyError};
pub use apply::{ApplyError, NotApplied, Preview, apply, preview};
pub use device_file::DeviceFileKey;
pub use each::{Each, Journals, apply_each};
pub use ethtool::EthtoolKey;
pub use file::{FileKey, SysctlKey};
pub use flow_rule::FlowRuleKey;
pub use header::{Keep, Scope, called};
pub use journal::{Journal, JournalError};
pub use key::Key;
pub use ledger::Ledger;
pub use line::{Entry, Line};
pub use napi::{NapiAttribute, NapiKey};
pub use napier_core::control::cpu_list;
pub use places::{STATE_VARIABLE, state_dir};
pub use plan::{lines_for_xdp, lines_of, lines_of_queues};
pub use queues::{NoQueues, Queues};
pub use recover::{Recovered, pending, recover, undo_kept, undo_one};
pub use show::{ChangeState, Changed, found, unseen};
pub use thread::{ThreadKey, ThreadSetting};
pub use trial::{Trial, TrialEnd, confirm_all, is_remote, overdue};
pub use undo::{Undone, undo};

/// The former name, for one version.
#[deprecated(note = "it is `ChangeState`")]
pub type State = ChangeState;

/// The former name, for one version.
#[deprecated(note = "it is `TrialEnd`")]
pub type Outcome = TrialEnd;

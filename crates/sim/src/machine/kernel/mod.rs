//! The kernel's code, step by step: `async fn`s that a context carries out on the machine, by the handle `K`.
//!
//! | file | holds |
//! |---|---|
//! | `schedule`, `poll` | who is handed an instance, one poll and its completion |
//! | `softirq`, `kthread`, `busy`, `group` | who polls: the levels of a CPU, the thread of an instance, a program, a CPU of a group |
//! | `lifecycle`, `control` | add, enable, disable, delete, settings |
//! | `epoll`, `recv`, `app` | the calls of a program |
//! | `tx` | the way of a packet from a program to a device |

pub(crate) mod app;
pub(crate) mod busy;
pub(crate) mod control;
pub(crate) mod epoll;
pub(crate) mod group;
pub(crate) mod kthread;
pub(crate) mod lifecycle;
pub(crate) mod poll;
pub(crate) mod recv;
pub(crate) mod schedule;
pub(crate) mod softirq;
pub(crate) mod tx;

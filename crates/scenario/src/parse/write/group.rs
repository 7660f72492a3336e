//! Groups, and what is done to them.

use napier_core::group::Settings;

use super::{Fields, Out, cpus, quote, quotes, span};
use crate::{Group, GroupCall, GroupCheck, GroupDeed};

fn settings(settings: &Settings) -> [(&'static str, String); 5] {
    [
        ("policy", quote(settings.policy.name())),
        ("delay-target", span(settings.delay_target)),
        ("min-active", settings.min_active.to_string()),
        ("shrink-after", span(settings.shrink_after)),
        ("stall-after", span(settings.stall_after)),
    ]
}

impl Out<'_> {
    pub(super) fn group(&mut self, group: &Group) {
        self.text.push_str("\n[[group]]\n");
        self.line("name", quote(&group.name));
        self.line("cpus", cpus(&group.cpus));
        let members: Vec<_> = group.members.iter().map(|napi| self.machine.napi_name(*napi)).collect();
        self.line("members", quotes(&members));
        self.line("thread-policy", quote(group.policy.name()));
        for (key, value) in settings(&group.settings) {
            self.line(key, value);
        }
    }

    pub(super) fn group_call(&self, call: &GroupCall, to: &mut Fields) {
        to.add("group", quote(&self.machine.groups[call.group.at()].name));
        match &call.deed {
            GroupDeed::Attach(napi) | GroupDeed::Detach(napi) => to.add("napi", self.napi(*napi)),
            GroupDeed::AttachCpu(cpu) | GroupDeed::DetachCpu(cpu) => to.add("cpu", cpu.0),
            GroupDeed::Set(new) => settings(new).into_iter().for_each(|(key, value)| to.add(key, value)),
            GroupDeed::Delete => {}
        }
    }

    pub(super) fn check_group(&self, check: &GroupCheck, to: &mut Fields) {
        to.add("check", quote(&self.machine.groups[check.group.at()].name));
        to.add_if("active", check.active, |active| active.to_string());
        if let Some((napi, cpu)) = check.member {
            to.add("member", self.napi(napi));
            to.add("cpu", cpu.0);
        }
    }
}

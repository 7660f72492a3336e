//! `napi-get --everywhere`: all places where the settings of an interface live.

use std::fmt::Write as _;
use std::io::Write as _;

use napier_control::record;
use napier_linux::Netns;
use napier_linux::irqs::Role;
use napier_linux::netdev::places::{self, Instance, Irq, NamedIrq, Places, Values};
use serde_json::{Map, Value, json};

use super::kernel::plain;
use super::output::{self, Form};

pub(super) fn show(dev: &str, netns: Option<&Netns>, form: Form) -> anyhow::Result<()> {
    // Not inside: busy_poll and busy_read hold everywhere and are shown in the first namespace only.
    let sysctls = places::sysctls();
    let found = match netns {
        Some(netns) => netns.run(|| places::of(dev))?,
        None => places::of(dev),
    };
    let found = found.map_err(plain)?;
    match form {
        Form::Json => output::print(&as_json(&found, &sysctls), form),
        Form::Python => {
            let mut out = std::io::stdout().lock();
            out.write_all(as_text(&found, &sysctls).as_bytes())?;
            Ok(out.flush()?)
        }
    }
}

fn values(values: &Values) -> Value {
    let number = |text: &String| text.parse::<i64>().map_or_else(|_| json!(text), Value::from);
    values.iter().map(|(name, value)| ((*name).to_owned(), value.as_ref().map_or(Value::Null, number))).collect()
}

fn as_json(places: &Places, sysctls: &Values) -> Value {
    let instances: Vec<Value> = places.instances.iter().map(instance).collect();
    let interrupts = places.interrupts.iter().map(|NamedIrq { name, role, irq }| {
        json!({"irq": irq.number, "name": name, "role": role, "smp_affinity_list": irq.affinity, "effective_affinity_list": irq.effective})
    });
    let interrupts: Vec<Value> = interrupts.collect();
    json!({
        "device": places.device,
        "ifindex": places.ifindex,
        "sysfs": values(&places.files),
        "sysctl": values(sysctls),
        "interrupts": interrupts,
        "instances": instances,
    })
}

fn instance(instance: &Instance) -> Value {
    let mut shown: Map<String, Value> = record::napi(&instance.napi);
    if let Some(irq) = &instance.irq {
        shown.insert("smp_affinity_list".to_owned(), json!(irq.affinity));
        shown.insert("effective_affinity_list".to_owned(), json!(irq.effective));
    }
    if let Some(thread) = &instance.thread {
        let thread = json!({"name": thread.name, "cpus": thread.cpus, "class": thread.class, "priority": thread.priority,
                            "nice": thread.nice});
        shown.insert("thread".to_owned(), thread);
    }
    shown.into()
}

fn as_text(places: &Places, sysctls: &Values) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (file, value) in &places.files {
        let _ = writeln!(text, "/sys/class/net/{}/{file}: {}", places.device, shown(value));
    }
    for (name, value) in sysctls {
        let _ = writeln!(text, "{name}: {}", shown(value));
    }
    for NamedIrq { name, role, irq } in &places.interrupts {
        let control = if *role == Role::Control { ", of no queue" } else { "" };
        let _ = writeln!(text, "{} ({name}{control})", of_irq(irq));
    }
    if places.instances.is_empty() {
        let _ = writeln!(text, "{}", napier_linux::netdev::why_no_instance(&places.device));
    }
    for Instance { napi, irq, thread } in &places.instances {
        let own: Vec<String> =
            record::napi(napi).iter().filter(|(name, _)| *name != "id" && *name != "ifindex").map(pair).collect();
        let _ = writeln!(text, "instance {}: {}", napi.id, own.join(", "));
        if let Some(irq) = irq {
            let _ = writeln!(text, "  {}", of_irq(irq));
        }
        if let Some(thread) = thread {
            let cpus = shown(&thread.cpus);
            let (class, priority, nice) = (thread.class, thread.priority, thread.nice);
            let (name, pid) = (&thread.name, thread.pid);
            let _ = writeln!(text, "  thread {pid} {name}: CPUs {cpus}, {class} priority {priority}, nice {nice}");
        }
    }
    text
}

fn shown(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("not shown here")
}

fn of_irq(irq: &Irq) -> String {
    let (may, does) = (shown(&irq.affinity), shown(&irq.effective));
    format!("interrupt {}: may go to CPUs {may}, goes to {does}", irq.number)
}

fn pair((name, value): (&String, &Value)) -> String {
    format!("{name} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

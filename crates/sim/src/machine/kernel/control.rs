//! The control plane: netlink requests and device files that change something.

use napier_core::control::{
    DevAttribute, DevSet, DevSetting, Errno, NapiChange, NapiSet, ThreadedSetting, device_threaded_in_force,
    parse_number,
};

use crate::machine::kernel::lifecycle::{create_thread, dev_lock, dev_unlock, napi_set_threaded};
use crate::machine::vm::K;
use napier_scenario::NapiRef;

/// napi-set.
pub(crate) async fn napi_set(k: &K, napi: NapiRef, attributes: &[(String, u64)], capable: bool) -> Result<(), Errno> {
    let mut request = NapiSet { id: k.w().id_of(napi), ..NapiSet::default() };
    for (name, value) in attributes {
        request.attribute(name, *value).map_err(|error| error.errno())?;
    }
    let checked = request.check(capable).map_err(|error| error.errno())?;
    let dev = {
        let w = k.w();
        let found = w.by_id(checked.id()).ok_or_else(|| checked.no_such_napi().errno())?;
        w.napis[found].dev
    };
    dev_lock(k, dev).await;
    let result = apply_changes(k, checked).await;
    dev_unlock(k, dev);
    result
}

async fn apply_changes(k: &K, checked: napier_core::control::CheckedNapiSet) -> Result<(), Errno> {
    // Looked up again under the lock: the device may have gone down meanwhile.
    let napi = k.w().by_id(checked.id()).ok_or_else(|| checked.no_such_napi().errno())?;
    for change in checked.changes() {
        apply(k, napi, change).await?;
    }
    Ok(())
}

async fn apply(k: &K, napi: usize, change: NapiChange) -> Result<(), Errno> {
    if let NapiChange::Threaded(setting) = change {
        return napi_set_threaded(k, napi, setting).await;
    }
    let applied = change.apply(&mut k.w().napis[napi].tunables);
    assert!(applied, "threaded was handled above");
    k.op().await;
    Ok(())
}

/// Writes a device file.
pub(crate) async fn write_file(
    k: &K,
    dev: usize,
    attribute: DevAttribute,
    value: &str,
    capable: bool,
) -> Result<(), Errno> {
    let listed = k.w().listed(dev).count();
    // The kernel asks for the capability before it parses.
    let value = if capable { parse_number(value).map_err(|error| error.errno())? } else { 0 };
    let setting = DevSet { attribute, value }.check(capable, listed).map_err(|error| error.errno())?;
    dev_lock(k, dev).await;
    let result = write_all(k, dev, setting).await;
    dev_unlock(k, dev);
    result
}

/// A device setting reaches every listed instance and every configuration slot.
async fn write_all(k: &K, dev: usize, setting: DevSetting) -> Result<(), Errno> {
    let napis: Vec<usize> = k.w().listed(dev).collect();
    let mut setting = setting;
    let mut failed = None;
    if let DevSetting::Threaded(wanted) = setting
        && wanted != ThreadedSetting::Disabled
    {
        // All threads first: if one fails no instance is threaded.
        failed = napis.iter().find_map(|napi| create_thread(k, *napi).err());
        setting = DevSetting::Threaded(device_threaded_in_force(wanted, failed.is_none()));
    }
    {
        let mut w = k.w();
        w.devs[dev].settings.apply(setting);
        w.devs[dev].config.write_all(setting);
    }
    for napi in napis {
        // Threads exist or are being stopped, so this cannot fail.
        let _ = apply(k, napi, setting.as_napi_change()).await;
    }
    failed.map_or(Ok(()), Err)
}

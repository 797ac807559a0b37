//! Journals that are too large for the client. The store keeps them encrypted, and the client carries a
//! handle.

use std::time::SystemTime;

use antiphon_replay::Journal;
use antiphon_store::Pieces;
use bytes::Bytes;

use super::Runtime;
use crate::{
    durable::unavailable,
    error::Result,
    seal::{Binding, Handle, OpenError, TooLarge},
};

/// Seals `journal`. If it is too large, stores it and seals a handle to it.
///
/// Every round stores a new journal and changes no earlier one. After a lost connection, a client can send an
/// earlier sealed state again, which must still open.
pub(crate) async fn seal(
    runtime: &Runtime,
    journal: &Journal,
    binding: &Binding,
) -> Result<std::result::Result<String, TooLarge>> {
    let sealed = runtime.seal.seal(journal, binding, SystemTime::now());
    let (Err(_), Some(store)) = (&sealed, runtime.store()) else { return Ok(sealed) };
    let now = SystemTime::now();
    let (handle, sealed) = match runtime.seal.seal_apart(journal, binding, now) {
        Ok(sealed) => sealed,
        Err(too_large) => return Ok(Err(too_large)),
    };
    let sealed = Bytes::from(sealed);
    pieces(&handle).write(store, &sealed, runtime.seals_last()).await.map_err(unavailable)?;
    Ok(Ok(runtime.seal.seal_handle(&handle, binding, now)))
}

/// Returns the journal that a handle refers to.
pub(crate) async fn load(
    runtime: &Runtime,
    handle: &Handle,
    binding: &Binding,
) -> Result<std::result::Result<Journal, OpenError>> {
    let Some(store) = runtime.store() else { return Ok(Err(OpenError::Spilled)) };
    match pieces(handle).get(store).await.map_err(unavailable)? {
        Some(sealed) => Ok(runtime.seal.open_apart(handle, &sealed, binding)),
        None => Ok(Err(OpenError::Spilled)),
    }
}

fn pieces(handle: &Handle) -> Pieces {
    Pieces::named(format!("{:032x}", u128::from_le_bytes(handle.name)), handle.bytes as usize)
}

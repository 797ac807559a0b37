//! Reads rows from a snapshot.

mod columns;
mod decode;
mod export;
#[cfg(feature = "sql")]
mod file;
pub(crate) mod guard;
pub(crate) mod json;
mod moment;
mod page;
mod stats;

#[cfg(feature = "sql")]
pub(crate) use self::file::StoredFile;
pub(crate) use self::{export::export, json::rows, page::page, stats::stats};

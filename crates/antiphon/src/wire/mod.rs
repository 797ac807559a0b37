//! Where Antiphon meets the SDK: the only room that names `rmcp` types, but for the few re-exported
//! in [`model`](crate::model).

mod handler;
mod inner;
mod invoke;
mod link;
mod reply;

pub(crate) use handler::{Handler, execute};
pub(crate) use inner::{DynHandler, Wrapped};
pub(crate) use link::{Link, Note, Revision, fits};

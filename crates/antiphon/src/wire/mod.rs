//! Where Antiphon meets the SDK: the only room that names `rmcp` types, but for the few re-exported
//! in [`model`](crate::model).

mod apps;
mod describe;
mod handler;
mod inner;
mod invoke;
mod legacy;
mod link;
mod local;
mod once;
mod promote;
mod reply;
mod session;
mod tasks;

#[cfg(feature = "results")]
pub(crate) use apps::{APP_MEDIA_TYPE, UI_META};
pub(crate) use handler::Handler;
pub(crate) use inner::{DynHandler, Wrapped};
pub(crate) use legacy::Asking;
pub(crate) use link::{Link, Note, Revision, fits};
pub(crate) use local::execute;
pub(crate) use reply::ended;
#[cfg(feature = "http")]
pub(crate) use session::{Setting, Settings};
pub(crate) use tasks::timestamp;

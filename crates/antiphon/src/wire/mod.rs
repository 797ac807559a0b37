//! Where Antiphon meets the SDK: the only room that names `rmcp` types, but for the few re-exported
//! in [`model`](crate::model).

mod apps;
mod describe;
mod handler;
mod inner;
mod invoke;
mod legacy;
mod letting_in;
mod link;
mod local;
#[cfg(feature = "telemetry")]
mod observed;
mod once;
mod permit;
mod promote;
mod reply;
mod session;
mod tasks;

#[cfg(feature = "results")]
pub(crate) use apps::{APP_MEDIA_TYPE, UI_META};
pub(crate) use handler::Handler;
#[cfg(not(feature = "telemetry"))]
pub(crate) use handler::Handler as Served;
pub(crate) use inner::{DynHandler, Wrapped};
pub(crate) use legacy::Asking;
pub(crate) use link::{Link, Note, Revision, fits};
pub(crate) use local::execute;
#[cfg(feature = "telemetry")]
pub(crate) use observed::Observed as Served;
pub(crate) use reply::ended;
#[cfg(feature = "http")]
pub(crate) use session::{Elicitations, Setting, Settings, add_elicitation};
pub(crate) use tasks::timestamp;

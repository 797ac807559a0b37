//! Support for tests of your tools.
//!
//! [`Client`] is a test client with scripted answers, for both protocol revisions. [`HostProfile`] describes hosts
//! whose behavior the test client can imitate. [`Replicas`] is a test harness that continues a run on a new replica
//! after every question.
//!
//! ```
//! use antiphon::{prelude::*, testing::{Answers, Client, Revision}};
//! use serde_json::json;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Name { name: String }
//!
//! async fn greet(ctx: &Ctx, _: ()) -> Result<String> {
//!     let Name { name } = ctx.elicit("Who are you?").await?.accepted()?;
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = Server::builder("greeter", "1.0.0").tool(Tool::new("greet", "Greets you", greet)).build()?;
//! for revision in Revision::BOTH {
//!     let mut client = Client::connect(&server, revision).await?.with_answers(Answers::new().accept("name", json!({"name": "Ada"})));
//!     let talk = client.call("greet", json!({})).await?;
//!     assert_eq!(talk.text(), "Hello, Ada!");
//! }
//! # Ok::<(), antiphon::Error>(())
//! # }).unwrap();
//! ```

// The CLI enables only the private feature `__profiles`, because the CLI needs only the host profiles.
#[cfg(feature = "testing")]
mod client;
mod host;
mod revision;

#[cfg(feature = "testing")]
pub use self::client::{Answers, Client, Failed, Frame, Question, Replicas, Report, Talk};
pub use self::{
    host::{FormBehavior, HostProfile, ModelReads},
    revision::Revision,
};

//! Which model a request goes to: the client's, or a provider's.
//!
//! A policy says where to begin. A provider is asked when the client has no model, refuses or fails, or when its rounds are needed for questions only a person can answer. What was chosen is
//! in the journal with the reply, so a run that is replayed never chooses again.

use std::{fmt, sync::Arc};

use antiphon_llm::{Model, Request};
use antiphon_replay::Failure;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Run, client::Client};
use crate::{
    error::{Capability, Error, ErrorKind, Result},
    protocol::Revision,
};

/// Which model is asked first, and which else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SamplingPolicy {
    /// The client's; a provider's where the client has none, refuses or fails, or where the rounds
    /// run out. What is asked is then told to the provider, and the operator pays.
    #[default]
    ClientFirst,
    /// A provider's; the client's where the provider fails.
    ProviderFirst,
    /// The client's and no other: nothing leaves for a provider.
    ClientOnly,
    /// A provider's and no other: the client is never asked to sample.
    ProviderOnly,
}

/// Where a reply's `_meta` says which way it came. What came from the client says nothing.
pub const VIA_META: &str = "antiphon/via";

/// The way a reply came: what [`VIA_META`] holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Via {
    /// The provider's model, as the operator named it.
    pub provider: String,
    /// Why it was asked.
    pub because: String,
}

/// A server's models, and when they are asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Models {
    pub(crate) policy: SamplingPolicy,
    pub(crate) model: Option<Arc<dyn Model>>,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answerer {
    Client,
    Provider,
}

/// Why a provider is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FallbackReason {
    /// The operator says so.
    Policy,
    /// The client has not declared what it takes.
    Capability(Capability),
    /// The client refused or failed.
    Failed,
    /// The client left the question unanswered. A round has no other way to refuse.
    Unanswered,
    /// The client's rounds are running out.
    Rounds,
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy => f.write_str("the policy says so"),
            Self::Capability(Capability::Session) => {
                f.write_str("the client cannot be asked outside a session")
            }
            Self::Capability(missing) => write!(f, "the client has not declared `{}`", missing.name()),
            Self::Failed => f.write_str("the client refused or failed"),
            Self::Unanswered => f.write_str("the client left it unanswered"),
            Self::Rounds => f.write_str("the client's rounds are running out"),
        }
    }
}

/// What to do about a request.
#[derive(Debug)]
pub(crate) enum Route {
    Client,
    Provider(Arc<dyn Model>, FallbackReason),
    /// Nobody can be asked.
    Nobody(Capability),
    /// Everybody was, and failed.
    Failed(Failure),
}

/// What is known when a way is chosen.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) client: &'a Client,
    /// How many rounds are left, and whether this one is needed anyway.
    pub(crate) rounds_left: u32,
    pub(crate) round_is_made: bool,
    /// Whether the client was asked in the round before, and left it at that.
    pub(crate) unanswered: bool,
    /// What was tried, and what came of it.
    pub(crate) tried: &'a [(Answerer, Failure)],
}

/// Rounds that are kept for people while there is a provider to ask instead.
const KEPT_FOR_PEOPLE: u32 = 3;

impl Models {
    /// Which way `request` goes.
    pub(crate) fn route(&self, request: &Value, situation: &Situation<'_>) -> Route {
        let Situation { client, tried, .. } = *situation;
        let missing = client.lacks(request);
        if !is_sampling(request) {
            return match (tried, missing) {
                ([(_, failure), ..], _) => Route::Failed(failure.clone()),
                ([], Some(missing)) => Route::Nobody(missing),
                ([], None) => Route::Client,
            };
        }
        let was_tried = |answerer: Answerer| tried.iter().any(|(tried, _)| *tried == answerer);
        let asks_client = !matches!(self.policy, SamplingPolicy::ProviderOnly)
            && missing.is_none()
            && !was_tried(Answerer::Client);
        let model = match self.policy {
            SamplingPolicy::ClientOnly => None,
            _ => self.model.as_ref().filter(|_| !was_tried(Answerer::Provider)),
        };
        let spent = client.revision() == Revision::Rounds
            && !situation.round_is_made
            && situation.rounds_left <= KEPT_FOR_PEOPLE;
        match (asks_client, model) {
            (true, Some(model)) if self.policy == SamplingPolicy::ProviderFirst => {
                Route::Provider(Arc::clone(model), FallbackReason::Policy)
            }
            (true, Some(model)) if situation.unanswered => {
                Route::Provider(Arc::clone(model), FallbackReason::Unanswered)
            }
            (true, Some(model)) if spent => Route::Provider(Arc::clone(model), FallbackReason::Rounds),
            (true, _) => Route::Client,
            (false, Some(model)) => Route::Provider(
                Arc::clone(model),
                match (self.policy, missing) {
                    (SamplingPolicy::ClientFirst, Some(missing)) => FallbackReason::Capability(missing),
                    (SamplingPolicy::ClientFirst, None) => FallbackReason::Failed,
                    _ => FallbackReason::Policy,
                },
            ),
            (false, None) => match (tried, missing) {
                ([], Some(missing)) => Route::Nobody(missing),
                (tried, missing) => Route::Failed(nobody_left(tried, missing)),
            },
        }
    }
}

/// Why nobody replied. Where only the client was asked, what it answered.
fn nobody_left(tried: &[(Answerer, Failure)], missing: Option<Capability>) -> Failure {
    if let [(Answerer::Client, failure)] = tried {
        return failure.clone();
    }
    let mut said: Vec<String> = tried
        .iter()
        .map(|(answerer, failure)| match answerer {
            Answerer::Client => format!("the client answered: {}", failure.message),
            Answerer::Provider => failure.message.clone(),
        })
        .collect();
    if let Some(missing) = missing {
        said.push(format!("the client has not declared `{}`", missing.name()));
    }
    if said.is_empty() {
        said.push("the policy allows none".into());
    }
    Error::new(ErrorKind::Model(said.join("; "))).to_failure()
}

pub(crate) fn is_sampling(request: &Value) -> bool {
    request["method"] == "sampling/createMessage"
}

/// Asks a provider what a client would have been asked, if the caller may have it cost that.
pub(crate) async fn ask(
    run: &Run,
    model: Arc<dyn Model>,
    request: Value,
    because: FallbackReason,
) -> Result<Value> {
    let request: Request = serde_json::from_value(request["params"].clone())?;
    let asking = model.reply(&request);
    let mut reply = run.runtime.spend.within(run.principal.as_deref(), &request, asking).await?;
    let via = Via { provider: model.name().to_owned(), because: because.to_string() };
    reply.meta.insert(VIA_META.into(), json!(via));
    Ok(serde_json::to_value(reply)?)
}

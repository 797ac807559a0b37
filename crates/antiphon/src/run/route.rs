//! Model routing: sends a sampling request to the client's model or to a provider's.
//!
//! The policy decides which one is asked first. A provider is asked if the client has no model, refuses or
//! fails. It is also asked when the remaining rounds are reserved for questions that only a user can answer.
//! The journal contains the reply, so replay never chooses again.

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

/// Which model answers a sampling request: the client's model or the server's model (a provider), and in which order
/// they are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SamplingPolicy {
    /// Asks the client's model first. Asks the provider if the client has no model, refuses or fails, or if the run has
    /// few rounds left. If the provider is asked, it receives the prompts, and the operator pays for them.
    #[default]
    ClientFirst,
    /// Asks the provider first. Asks the client's model if the provider fails.
    ProviderFirst,
    /// Asks only the client's model. No prompt is sent to a provider.
    ClientOnly,
    /// Asks only the provider. The client never receives a sampling request.
    ProviderOnly,
}

/// The `_meta` key under which a provider's reply contains a [`Via`]. Replies of the client's model do not have this
/// key.
pub const VIA_META: &str = "antiphon/via";

/// Which provider replied to a sampling request, and why the provider was asked. Stored under [`VIA_META`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Via {
    /// The name of the provider's model, as the operator configured it.
    pub provider: String,
    /// The reason why the provider was asked.
    pub because: String,
}

/// A server's model and its sampling policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Models {
    pub(crate) policy: SamplingPolicy,
    pub(crate) model: Option<Arc<dyn Model>>,
}

/// The side that answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answerer {
    Client,
    Provider,
}

/// The reason why a provider is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FallbackReason {
    /// The operator's policy requires it.
    Policy,
    /// The client has not declared the required capability.
    Capability(Capability),
    /// The client refused or failed.
    Failed,
    /// The client did not answer the question. In a round, a client cannot refuse in another way.
    Unanswered,
    /// The client has few rounds left.
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

/// The decision about a request.
#[derive(Debug)]
pub(crate) enum Route {
    Client,
    Provider(Arc<dyn Model>, FallbackReason),
    /// Neither the client nor a provider can be asked.
    Nobody(Capability),
    /// Every possible answerer was asked, and failed.
    Failed(Failure),
}

/// The facts that the decision depends on.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) client: &'a Client,
    /// How many rounds are left, and whether other questions need this round in any case.
    pub(crate) rounds_left: u32,
    pub(crate) round_is_made: bool,
    /// Whether the client received the question in the previous round and did not answer it.
    pub(crate) unanswered: bool,
    /// The answerers that were tried, and their failures.
    pub(crate) tried: &'a [(Answerer, Failure)],
}

/// The number of rounds that are reserved for users, if a provider can be asked instead.
const KEPT_FOR_PEOPLE: u32 = 3;

impl Models {
    /// Decides who answers `request`.
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

/// Returns the error for a question without an answer. If only the client was asked, it is the client's
/// error.
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
        said.push("the sampling policy allows neither the client nor the server's model".into());
    }
    Error::new(ErrorKind::Model(said.join("; "))).to_failure()
}

pub(crate) fn is_sampling(request: &Value) -> bool {
    request["method"] == "sampling/createMessage"
}

/// Sends a sampling request to a provider, within the caller's spending limit.
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

//! Steps that are taken at most once, whoever submits what how often.

use std::{future::Future, sync::Arc};

use antiphon_replay::Failure;
use antiphon_store::{Error as StoreError, Pieces};
use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Claimed, Run, Runtime, Stop};
use crate::{
    base::random_id,
    durable::{Held, STEPS, Watched, key, unavailable, watch},
    error::{Error, ErrorKind, Result},
};

/// What the store knows of a step.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Claim {
    /// Somebody has begun it: nobody else may.
    Begun(String),
    Done(Value),
    /// It is done, and what came of it is elsewhere, because it is large.
    DoneApart(Pieces),
    Failed(Failure),
    /// It was begun, and whoever began it has fallen silent.
    Indeterminate,
}

impl Claim {
    fn write(&self) -> Result<Bytes> {
        Ok(serde_json::to_vec(self)?.into())
    }

    /// What is known of it, once it is more than that it was begun.
    fn settled(bytes: &Bytes) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|claim| !matches!(claim, Self::Begun(_)))
    }
}

/// What fits in the record itself.
const INLINE: usize = 64 * 1024;

/// Takes a step unless it was taken before, in which case what came of it is given.
///
/// The claim is there before the effect, and what came of the effect is there before anybody goes on. Between
/// the two nobody can know: whoever finds a claim whose holder is silent says so and does nothing.
///
/// In a task the run's own record holds the claim as well, for as long as there is a record: the claim in the store lasts
/// only as long as a `requestState`.
pub(crate) async fn at_most_once<T, F, Fut>(
    run: Arc<Run>,
    step: String,
    idempotency_key: String,
    body: F,
) -> Result<T>
where
    T: Serialize + DeserializeOwned,
    F: FnOnce(String) -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let runtime = &run.runtime;
    let Some(store) = runtime.store() else {
        return Err(Error::misuse(format!(
            "the step `{step}` is to be taken at most once, and there is no store to claim it in; give the server one with `ServerBuilder::with_backend`"
        ))
        .terminal());
    };
    let key = key(STEPS, idempotency_key.as_bytes());
    let ttl = runtime.seals_last();
    let _claiming = match run.persistence() {
        Some(persistence) => {
            match persistence.claim(&idempotency_key, &step).await.map_err(stopped)? {
                None => {}
                Some(Claimed { failed: Some(failure), .. }) => return Err(Error::from_failure(failure)),
                Some(Claimed { failed: None, .. }) => return another_took(runtime, store, &key, &step).await,
            }
            None
        }
        // If the run becomes a task meanwhile, its record says that the step was begun.
        None => Some(run.claiming(&idempotency_key, &step)),
    };
    let claim = Claim::Begun(random_id()).write()?;
    let revision = match store.create(&key, claim.clone(), Some(ttl)).await {
        Ok(revision) => revision,
        Err(StoreError::Conflict { .. }) => {
            return another_took(runtime, store, &key, &step).await;
        }
        Err(error) => return Err(unavailable(error)),
    };
    let mut held = Held { store, key: &key, claim, revision, ttl };
    let result = held.beating(runtime.limits.claim_heartbeat, body(idempotency_key.clone())).await;
    let settled = match &result {
        Ok(value) => done(store, serde_json::to_value(value)?, ttl).await,
        Err(error) => Ok(Claim::Failed(error.to_failure())),
    };
    let told = match settled {
        // A verdict of "nobody can know" gives way to somebody who knows.
        Ok(claim) => {
            held.settle(claim.write()?, ttl, |found| {
                matches!(Claim::settled(found), Some(Claim::Indeterminate))
            })
            .await
        }
        Err(error) => Err(error),
    };
    if let (Err(error), Some(persistence)) = (&result, run.persistence())
        && let Err(stop) = persistence.claim_failed(&idempotency_key, &error.to_failure()).await
    {
        tracing::warn!(?stop, step, "how a step failed could not be kept with its run");
    }
    match told {
        Ok(true) => {}
        Ok(false) => tracing::warn!(step, "a claim was gone before its step had ended"),
        // The effect has happened and we know what came of it; others will find that they cannot.
        Err(error) => tracing::error!(step, %error, "what came of a step could not be kept"),
    }
    result
}

/// The leg is over: its driver sees that, too.
fn stopped(stop: Stop) -> Error {
    match stop {
        Stop::Lost => Error::new(ErrorKind::Cancelled),
        Stop::Failed(error) => error,
    }
}

async fn done(
    store: &dyn antiphon_store::Store,
    value: Value,
    ttl: std::time::Duration,
) -> antiphon_store::Result<Claim> {
    let json = value.to_string();
    if json.len() <= INLINE {
        return Ok(Claim::Done(value));
    }
    Ok(Claim::DoneApart(Pieces::put(store, &json.into(), ttl).await?))
}

/// What came of a step that somebody else has begun.
async fn another_took<T: DeserializeOwned>(
    runtime: &Runtime,
    store: &dyn antiphon_store::Store,
    key: &str,
    step: &str,
) -> Result<T> {
    let indeterminate = || Error::new(ErrorKind::Indeterminate(step.to_owned())).terminal();
    let watched =
        watch(store, key, runtime.limits.claim_heartbeat, Claim::settled).await.map_err(unavailable)?;
    match watched {
        Watched::Settled(Claim::Done(value)) => Ok(serde_json::from_value(value)?),
        Watched::Settled(Claim::DoneApart(pieces)) => match pieces.get(store).await.map_err(unavailable)? {
            Some(json) => Ok(serde_json::from_slice(&json[..])?),
            None => Err(indeterminate()),
        },
        Watched::Settled(Claim::Failed(failure)) => Err(Error::from_failure(failure)),
        Watched::Settled(Claim::Begun(_) | Claim::Indeterminate) | Watched::Gone => Err(indeterminate()),
        Watched::Silent(revision) => {
            // So that the next one need not wait for the silence again. Whoever lives after all writes over it.
            let verdict = Claim::Indeterminate.write()?;
            if let Err(error) = store.update(key, verdict, Some(runtime.seals_last()), revision).await {
                tracing::debug!(%error, "a verdict was not written");
            }
            Err(indeterminate())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What earlier versions wrote, word for word.
    const STORED: [&str; 5] = [
        r#"{"begun":"9f3c"}"#,
        r#"{"done":null}"#,
        r#"{"done_apart":{"name":"9f3c","count":2}}"#,
        r#"{"failed":{"m":"no such account","t":true}}"#,
        r#""indeterminate""#,
    ];

    #[test]
    fn stored_claims_of_the_first_format_are_read() {
        let claims = STORED.map(|text| serde_json::from_str::<Claim>(text).unwrap());
        assert!(matches!(
            &claims,
            [
                Claim::Begun(_),
                Claim::Done(Value::Null),
                Claim::DoneApart(_),
                Claim::Failed(Failure { terminal: true, code: None, kind: None, .. }),
                Claim::Indeterminate
            ]
        ));
        for (claim, text) in claims.iter().zip(STORED) {
            assert_eq!(claim.write().unwrap(), text, "another version must read what this one writes");
        }
    }

    #[test]
    fn claims_in_the_sample_are_settled() {
        use base64::Engine as _;
        let records = include_str!("../../tests/it/golden/stored-1/records.jsonl").lines();
        let claims = records.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut read = 0;
        for record in claims.filter(|record| record["key"].as_str().unwrap().starts_with(STEPS)) {
            let value = record["value"].as_str().unwrap();
            let value = base64::engine::general_purpose::STANDARD.decode(value).unwrap();
            // Every value in a store begins with the number of its write.
            let claim = Claim::settled(&Bytes::from(value).slice(16..));
            assert!(matches!(claim, Some(Claim::Done(_))), "{claim:?}");
            read += 1;
        }
        assert_eq!(read, 2);
    }
}

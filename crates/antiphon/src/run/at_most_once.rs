//! At-most-once steps: a step runs at most once, even if a client sends the request several times.

use std::{future::Future, sync::Arc};

use antiphon_replay::Failure;
use antiphon_store::Pieces;
use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Claimed, Run, Runtime, Stop};
use crate::{
    base::random_id,
    durable::{Held, STEPS, Watched, key, take, unavailable, watch},
    error::{Error, ErrorKind, Result},
};

/// The stored state of an at-most-once step.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Claim {
    /// A process has started the step. No other process is allowed to start the step.
    Begun(String),
    Done(Value),
    /// The step has completed. The result of the step is large, so the store contains the result in separate records.
    DoneApart(Pieces),
    Failed(Failure),
    /// A process started the step and then stopped sending heartbeats. So the server cannot determine whether the step
    /// has completed.
    Indeterminate,
}

impl Claim {
    fn write(&self) -> Result<Bytes> {
        Ok(serde_json::to_vec(self)?.into())
    }

    /// Parses the stored state of a step. Returns `None` if another process is still running the step.
    fn settled(bytes: &Bytes) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|claim| !matches!(claim, Self::Begun(_)))
    }
}

/// The maximum size in bytes of a result that the record itself contains. Larger results are stored in separate
/// records.
const INLINE: usize = 64 * 1024;

/// Runs a step. If the step has already run, returns the recorded result instead.
///
/// The process stores the claim before the side effect, and stores the result before the run continues. If the process
/// stops between these two writes, the server cannot determine whether the side effect has happened. In this case, the
/// step does not run again, and a later attempt returns `ErrorKind::Indeterminate`.
///
/// In a task, the record of the task also contains the claim, for as long as the record exists. The separate claim in
/// the store expires at the same time as a `requestState`.
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
            "the step `{step}` uses `.at_most_once()`, which needs a backend; configure one with `ServerBuilder::with_backend`"
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
        // If the run becomes a task during the step, `claiming` ensures that the task's record contains the started
        // step.
        None => Some(run.claiming(&idempotency_key, &step)),
    };
    let claim = Claim::Begun(random_id()).write()?;
    let Some(revision) = take(store, &key, &claim, ttl).await.map_err(unavailable)? else {
        return another_took(runtime, store, &key, &step).await;
    };
    let mut held = Held { store, key: &key, claim, revision, ttl };
    let result = held.beating(runtime.limits.claim_heartbeat, body(idempotency_key.clone())).await;
    let settled = match &result {
        Ok(value) => done(store, serde_json::to_value(value)?, ttl).await,
        Err(error) => Ok(Claim::Failed(error.to_failure())),
    };
    let told = match settled {
        // This process has the result. If another process has written the state `Indeterminate`, this process replaces
        // that state with the result.
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
        tracing::warn!(
            ?stop,
            step,
            "the failure of an at-most-once step could not be stored in its task record"
        );
    }
    match told {
        Ok(true) => {}
        Ok(false) => tracing::warn!(
            step,
            "the claim on an at-most-once step was lost before the step ended; other attempts cannot read its result"
        ),
        // This process has the result of the side effect but could not store the result. So other processes cannot
        // determine the result of the step.
        Err(error) => {
            tracing::error!(step, %error, "the result of an at-most-once step could not be stored; other attempts report an unknown outcome");
        }
    }
    result
}

/// Converts the reason why the leg must stop into an error for the tool. The driver checks this reason too, and ends
/// the leg.
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

/// Waits for the result of a step that another process has started.
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
            // With this stored state, the next attempt does not wait for heartbeats. If the process that holds the
            // claim is still alive, that process overwrites this state with the result.
            let verdict = Claim::Indeterminate.write()?;
            if let Err(error) = store.update(key, verdict, Some(runtime.seals_last()), revision).await {
                tracing::debug!(%error, "the unknown outcome of an at-most-once step could not be stored");
            }
            Err(indeterminate())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records that earlier versions of Antiphon have written. The current version must be able to read all these
    /// records.
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
            // Every stored value begins with a 16-byte write number. This code skips the write number.
            let claim = Claim::settled(&Bytes::from(value).slice(16..));
            assert!(matches!(claim, Some(Claim::Done(_))), "{claim:?}");
            read += 1;
        }
        assert_eq!(read, 2);
    }
}

//! What callers have the server's own model cost.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use antiphon_llm::{Budget, Error, Reply, Request, Result};
use antiphon_store::{Error as StoreError, Revision, Store};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    keep::{self, SPENT},
    run::now_millis,
    server::Shared,
};

/// From so many on, those are forgotten whose time is over.
const MANY: usize = 1024;

/// How many bytes of JSON are about a token, where a provider does not say what it counted.
const TOKEN: usize = 4;

/// What each caller has spent of its [`Budget`], where replicas share nothing.
#[derive(Debug, Default)]
pub(crate) struct Spend {
    accounts: Mutex<HashMap<String, Account>>,
}

/// What a caller has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Account {
    /// Since when, in milliseconds since 1970.
    since: u64,
    requests: u64,
    tokens: u64,
}

impl Account {
    fn is_over(&self, budget: &Budget, now: u64) -> bool {
        budget.window.is_some_and(|window| now.saturating_sub(self.since) >= millis(window))
    }

    /// The account as it is now: a new one where its time is over.
    fn at(self, budget: &Budget, now: u64) -> Self {
        let is_new = self.since == 0 || self.is_over(budget, now);
        if is_new { Self { since: now, ..Self::default() } } else { self }
    }

    /// Counts one more request, or says why there can be none.
    fn ask(mut self, budget: &Budget, now: u64) -> Result<Self> {
        let over = |most: u64, what: &str| {
            let left =
                budget.window.map(|window| self.since.saturating_add(millis(window)).saturating_sub(now));
            let when =
                left.map_or(String::new(), |left| format!("; try again in {} s", left.div_ceil(1000).max(1)));
            Err(Error::Limit(format!("the caller's limit of {most} {what} is reached{when}")))
        };
        match (budget.max_requests, budget.max_tokens) {
            (Some(most), _) if self.requests >= most => over(most, "requests to the model"),
            (_, Some(most)) if self.tokens >= most => over(most, "tokens"),
            _ => {
                self.requests += 1;
                Ok(self)
            }
        }
    }
}

impl Spend {
    fn accounts(&self) -> MutexGuard<'_, HashMap<String, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the model for a caller, within what the caller may have it cost.
    ///
    /// What a request costs is known when it is over, so the one that crosses the bound is still answered, with those
    /// on their way beside it.
    pub(crate) async fn within(
        shared: &Shared,
        principal: Option<&str>,
        request: &Request,
        reply: impl Future<Output = Result<Reply>>,
    ) -> Result<Reply> {
        let Some(budget) = &shared.limits.model else { return reply.await };
        let name = [shared.audience(), principal.unwrap_or_default()].join("\0");
        let name = keep::key(SPENT, name.as_bytes());
        shared.spend.change(shared, budget, &name, |account, now| account.ask(budget, now)).await?;
        let reply = reply.await?;
        let tokens = tokens(request, &reply);
        let paid = shared.spend.change(shared, budget, &name, |account, _| {
            Ok(Account { tokens: account.tokens.saturating_add(tokens), ..account })
        });
        if let Err(error) = paid.await {
            tracing::error!(%error, tokens, "what a model cost could not be written down");
        }
        Ok(reply)
    }

    async fn change(
        &self,
        shared: &Shared,
        budget: &Budget,
        name: &str,
        change: impl Fn(Account, u64) -> Result<Account>,
    ) -> Result<()> {
        if let Some(backend) = &shared.backend {
            return change_shared(&*backend.store, budget, name, change).await;
        }
        let now = now_millis();
        let mut accounts = self.accounts();
        if accounts.len() >= MANY {
            accounts.retain(|_, account| !account.is_over(budget, now));
        }
        let account = accounts.entry(name.to_owned()).or_default();
        *account = change(account.at(budget, now), now)?;
        Ok(())
    }
}

/// Changes an account that replicas share, however often another gets there first.
async fn change_shared(
    store: &dyn Store,
    budget: &Budget,
    name: &str,
    change: impl Fn(Account, u64) -> Result<Account>,
) -> Result<()> {
    // Nobody spends what nobody can count.
    let unknown = |error: StoreError| {
        tracing::error!(%error, "what callers have spent cannot be reached");
        Error::Unavailable("what callers have spent cannot be looked up; try again later".into())
    };
    loop {
        let now = now_millis();
        let found = store.get(name).await.map_err(unknown)?;
        let account: Account =
            found.as_ref().and_then(|record| serde_json::from_slice(&record.value).ok()).unwrap_or_default();
        let account = change(account.at(budget, now), now)?;
        let value = Bytes::from(serde_json::to_vec(&account).unwrap_or_default());
        let written = put(store, name, value, budget.window, found.map(|record| record.revision)).await;
        match written {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(unknown(error)),
        }
    }
}

async fn put(
    store: &dyn Store,
    name: &str,
    value: Bytes,
    life: Option<Duration>,
    over: Option<Revision>,
) -> std::result::Result<Revision, StoreError> {
    match over {
        Some(revision) => store.update(name, value, life, revision).await,
        None => store.create(name, value, life).await,
    }
}

/// What a reply cost: as its provider says, or about.
fn tokens(request: &Request, reply: &Reply) -> u64 {
    if let Some(usage) = reply.usage() {
        return usage.input_tokens.saturating_add(usage.output_tokens);
    }
    let bytes = |json: serde_json::Result<Vec<u8>>| json.map_or(0, |json| json.len());
    let bytes = bytes(serde_json::to_vec(request)) + bytes(serde_json::to_vec(&reply.content));
    bytes.div_ceil(TOKEN) as u64
}

fn millis(window: Duration) -> u64 {
    window.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn the_request_that_crosses_the_bound_is_the_last_of_its_window() {
        let budget = Budget::per(HOUR).with_max_tokens(100);
        let account = Account::default().at(&budget, 1_000).ask(&budget, 1_000).unwrap();
        let account = Account { tokens: 150, ..account };
        let later = 1_000 + 1_000 * 60 * 30;
        let error = account.at(&budget, later).ask(&budget, later).unwrap_err();
        let expected = "the caller's limit of 100 tokens is reached; try again in 1800 s";
        assert_eq!(error, Error::Limit(expected.into()));
        let after = 1_000 + millis(HOUR);
        assert_eq!(account.at(&budget, after), Account { since: after, ..Account::default() });
    }

    #[test]
    fn a_model_that_does_not_say_what_it_cost_is_not_free() {
        let request = Request::prompt("How many stars are there in the sky tonight?");
        let reply = Reply::new("m", "More than I can count.");
        let about = tokens(&request, &reply);
        assert!(about > 10, "{about}");
    }
}

//! Counts how much each caller uses the server's model.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use antiphon_llm::{Budget, Error, Reply, Request, Result};
use antiphon_store::{Error as StoreError, Revision, Store};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::base::{millis, now_millis, sha256};

/// When this number of callers has an account, the expired accounts are removed.
const SWEEP_THRESHOLD: usize = 1024;

/// The maximum number of accounts in memory, for servers without a shared store. If more callers have an account, the
/// least recently used accounts are removed. Without this maximum, accounts whose budget has no time window would never
/// be removed.
const MOST: usize = 65_536;

/// The maximum number of attempts to change an account while other replicas change the same account. The constant
/// `LONGEST_PAUSE` is the longest pause between two attempts.
const TRIES: u32 = 64;
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Counts how much of its [`Budget`] each caller has used for the server's model.
#[derive(Debug)]
pub(crate) struct Spend {
    /// The budget of each caller. If the value is `None`, the use of the model is not limited.
    budget: Option<Budget>,
    audience: String,
    /// The store in which all replicas together count the use of the model. The value is `None` if the server has no
    /// backend.
    store: Option<Arc<dyn Store>>,
    /// The accounts in memory. The server uses these accounts only if it has no shared store.
    accounts: Mutex<Accounts>,
}

#[derive(Debug, Default)]
struct Accounts {
    of: HashMap<String, Used>,
    /// When this number of callers has an account, the expired accounts are removed again.
    sweep: usize,
}

/// An account, and the time at which the account was last used, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    account: Account,
    at: u64,
}

impl Accounts {
    /// Returns the account of the caller `name`. If there are too many accounts, this method first removes expired
    /// accounts.
    fn of(&mut self, name: &str, budget: &Budget, now: u64) -> &mut Used {
        if !self.of.contains_key(name) && self.of.len() >= self.sweep.max(SWEEP_THRESHOLD) {
            self.of.retain(|_, used| !used.account.is_over(budget, now));
            if self.of.len() > MOST {
                let mut times: Vec<u64> = self.of.values().map(|used| used.at).collect();
                let (_, median, _) = times.select_nth_unstable(self.of.len() / 2);
                let median = *median;
                self.of.retain(|_, used| used.at > median);
            }
            // The next removal of expired accounts happens when the number of accounts has doubled. So the average cost
            // of an insertion is constant.
            self.sweep = (2 * self.of.len()).min(MOST);
        }
        let used = self.of.entry(name.to_owned()).or_default();
        used.at = now;
        used
    }
}

/// Counts how much one caller has used the server's model in the current time window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Account {
    /// The start of the current time window, in milliseconds since 1970.
    since: u64,
    requests: u64,
    tokens: u64,
}

impl Account {
    fn is_over(&self, budget: &Budget, now: u64) -> bool {
        budget.window.is_some_and(|window| now.saturating_sub(self.since) >= millis(window))
    }

    /// Returns the account as of the time `now`. If the time window of the account has ended, returns a new account.
    fn at(self, budget: &Budget, now: u64) -> Self {
        let is_new = self.since == 0 || self.is_over(budget, now);
        if is_new { Self { since: now, ..Self::default() } } else { self }
    }

    /// Counts one more request to the model in this account. Returns an error if the caller has used up the budget.
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
    pub(crate) fn new(budget: Option<Budget>, audience: &str, store: Option<Arc<dyn Store>>) -> Self {
        Self { budget, audience: audience.to_owned(), store, accounts: Mutex::default() }
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to the model if the caller has not used up the budget.
    ///
    /// The server can count the cost of a request only after the model has replied. So one request can exceed the
    /// budget and still get a reply. Several requests that run at the same time can also exceed the budget.
    pub(crate) async fn within(
        &self,
        principal: Option<&str>,
        request: &Request,
        reply: impl Future<Output = Result<Reply>>,
    ) -> Result<Reply> {
        let Some(budget) = &self.budget else { return reply.await };
        let name = [&self.audience, principal.unwrap_or_default()].join("\0");
        let name = format!("spent/{}", sha256(name.as_bytes()));
        self.change(budget, &name, |account, now| account.ask(budget, now)).await?;
        let reply = reply.await?;
        let tokens = reply.tokens(request);
        let paid = self.change(budget, &name, |account, _| {
            Ok(Account { tokens: account.tokens.saturating_add(tokens), ..account })
        });
        if let Err(error) = paid.await {
            tracing::error!(%error, tokens, "the tokens of a model request could not be recorded; the caller's budget (`Limits::with_model`) counts too few");
        }
        Ok(reply)
    }

    async fn change(
        &self,
        budget: &Budget,
        name: &str,
        change: impl Fn(Account, u64) -> Result<Account>,
    ) -> Result<()> {
        if let Some(store) = &self.store {
            return change_shared(&**store, budget, name, change).await;
        }
        let now = now_millis();
        let mut accounts = self.accounts();
        let used = accounts.of(name, budget, now);
        used.account = change(used.account.at(budget, now), now)?;
        Ok(())
    }
}

/// Changes an account in the shared store. If another replica has changed the account at the same time, this function
/// tries again.
async fn change_shared(
    store: &dyn Store,
    budget: &Budget,
    name: &str,
    change: impl Fn(Account, u64) -> Result<Account>,
) -> Result<()> {
    // If the server cannot read or write the account, the server rejects the request.
    let unknown = |error: StoreError| {
        tracing::error!(%error, "the callers' budgets (`Limits::with_model`) cannot be read or written in the store");
        Error::Unavailable(
            "the caller's budget for the server's model cannot be read; try again later".into(),
        )
    };
    for tried in 0..TRIES {
        let now = now_millis();
        let found = store.get(name).await.map_err(unknown)?;
        let account: Account =
            found.as_ref().and_then(|record| serde_json::from_slice(&record.value).ok()).unwrap_or_default();
        let account = change(account.at(budget, now), now)?;
        let value = Bytes::from(serde_json::to_vec(&account).unwrap_or_default());
        let written = put(store, name, value, budget.window, found.map(|record| record.revision)).await;
        match written {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict { .. }) => tokio::time::sleep(pause(tried)).await,
            Err(error) => return Err(unknown(error)),
        }
    }
    Err(Error::Unavailable("the caller's budget for the server's model could not be updated because of concurrent requests; try again later".into()))
}

/// Returns the pause before the next attempt. The pause before a later attempt is longer. The pause is random, so that
/// replicas do not try again at the same time.
fn pause(tried: u32) -> Duration {
    let longest = Duration::from_millis(1 << tried.min(10)).min(LONGEST_PAUSE);
    let mut random = [0];
    // If the system cannot provide random numbers, all replicas use the same pause. Attempts to change the same account
    // are then slower.
    let _ = getrandom::fill(&mut random);
    longest / 2 + longest.mul_f64(f64::from(random[0]) / 512.0)
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
    fn accounts_are_forgotten_with_and_without_a_window() {
        let forever = Budget::default().with_max_tokens(100);
        let mut accounts = Accounts::default();
        for n in 0..(3 * MOST as u64) {
            accounts.of(&n.to_string(), &forever, n + 1).account.tokens = 1;
            // The server must not remove an account that is in use.
            accounts.of("busy", &forever, n + 1).account.tokens = 7;
        }
        assert!(accounts.of.len() <= MOST + 1, "{}", accounts.of.len());
        assert_eq!(accounts.of["busy"].account.tokens, 7);
        let hour = Budget::per(HOUR).with_max_tokens(100);
        let mut accounts = Accounts::default();
        for n in 0..10 * SWEEP_THRESHOLD as u64 {
            let now = n * millis(HOUR) / 100;
            accounts.of(&n.to_string(), &hour, now).account.since = now;
        }
        assert!(accounts.of.len() <= 2 * SWEEP_THRESHOLD, "{}", accounts.of.len());
    }

    #[test]
    fn pause_grows_and_stays_short() {
        assert!(pause(0) <= Duration::from_millis(1));
        for tried in 0..TRIES {
            assert!(pause(tried) <= LONGEST_PAUSE, "{tried}");
        }
        assert!(pause(20) >= LONGEST_PAUSE / 2);
    }

    #[test]
    fn a_model_that_does_not_say_what_it_cost_is_not_free() {
        let request = Request::prompt("How many stars are there in the sky tonight?");
        let reply = Reply::new("m", "More than I can count.");
        let about = reply.tokens(&request);
        assert!(about > 10, "{about}");
    }
}

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    error::{Error, Result},
    model::{BoxFuture, Model},
    reply::Reply,
    request::Request,
};

type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// A wrapper that limits the requests and tokens of a model.
///
/// The number of tokens of a request is known only after the model has replied. So the request that exceeds the token
/// limit still gets a reply. The requests that are in flight when the limit is exceeded also get a reply. All later
/// requests fail with an [`Error::Limit`] that names the limit. If a provider does not send the number of tokens, the
/// number is [estimated](Reply::tokens).
///
/// ```
/// # use std::time::Duration;
/// # use antiphon_llm::{Budget, Budgeted, Model};
/// # fn limit(model: impl Model) {
/// let hourly = Budget::per(Duration::from_secs(3600)).with_max_requests(100).with_max_tokens(50_000);
/// let model = Budgeted::new(model, hourly);
/// # }
/// ```
pub struct Budgeted<M> {
    model: M,
    budget: Budget,
    clock: Clock,
    spent: Mutex<Spent>,
}

/// A limit on the requests and tokens of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// The time after which the counts of requests and tokens start again from zero. Default: the counts never start
    /// again while the process runs.
    pub window: Option<Duration>,
    /// The maximum number of requests. Default: no limit.
    pub max_requests: Option<u64>,
    /// The maximum number of input and output tokens. Default: no limit.
    pub max_tokens: Option<u64>,
}

impl Budget {
    /// Creates a budget (a limit on requests and tokens) for the whole lifetime of the process.
    pub fn total() -> Self {
        Self::default()
    }

    /// Creates a budget (a limit on requests and tokens) whose counts start again from zero after each `window`.
    pub fn per(window: Duration) -> Self {
        Self { window: Some(window), ..Self::default() }
    }

    /// Sets the maximum number of requests. Default: no limit.
    #[must_use]
    pub fn with_max_requests(mut self, requests: u64) -> Self {
        self.max_requests = Some(requests);
        self
    }

    /// Sets the maximum number of input and output tokens together. Default: no limit.
    #[must_use]
    pub fn with_max_tokens(mut self, tokens: u64) -> Self {
        self.max_tokens = Some(tokens);
        self
    }
}

#[derive(Default)]
struct Spent {
    since: Option<Instant>,
    requests: u64,
    tokens: u64,
}

impl<M: Model> Budgeted<M> {
    /// Wraps `model`, and limits the requests and tokens of this model to `budget`.
    pub fn new(model: M, budget: Budget) -> Self {
        Self { model, budget, clock: Arc::new(Instant::now), spent: Mutex::default() }
    }

    /// Counts a request, or returns [`Error::Limit`] if the budget is used up.
    fn take(&self) -> Result<()> {
        let Budget { window, max_requests, max_tokens } = self.budget;
        let now = (self.clock)();
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *spent.since.get_or_insert(now);
        if window.is_some_and(|window| now.duration_since(since) >= window) {
            *spent = Spent { since: Some(now), ..Spent::default() };
        }
        let while_it_lasts = window.map(|window| format!(" in {window:?}")).unwrap_or_default();
        let over = |most: u64, what: &str| {
            Err(Error::Limit(format!("the operator's limit of {most} {what}{while_it_lasts} is reached")))
        };
        match (max_requests, max_tokens) {
            (Some(most), _) if spent.requests >= most => over(most, "requests"),
            (_, Some(most)) if spent.tokens >= most => over(most, "tokens"),
            _ => {
                spent.requests += 1;
                Ok(())
            }
        }
    }
}

impl<M: Model> Model for Budgeted<M> {
    fn reply<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            self.take()?;
            let reply = self.model.reply(request).await?;
            let tokens = reply.tokens(request);
            let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
            spent.tokens = spent.tokens.saturating_add(tokens);
            drop(spent);
            Ok(reply)
        })
    }

    fn name(&self) -> &str {
        self.model.name()
    }
}

impl<M: fmt::Debug> fmt::Debug for Budgeted<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budgeted")
            .field("model", &self.model)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "scripted"))]
mod tests {
    use super::*;
    use crate::{reply::Usage, scripted::Scripted};

    fn model() -> Scripted {
        let usage = Usage { input_tokens: 30, output_tokens: 20 };
        Scripted::new().otherwise(move |_| Ok(Reply::new("m", "ok").with_usage(usage)))
    }

    #[tokio::test]
    async fn the_limit_that_is_reached_is_named() {
        let model = Budgeted::new(model(), Budget::total().with_max_requests(1));
        model.reply(&Request::prompt("Hi")).await.unwrap();
        let error = model.reply(&Request::prompt("Hi")).await.unwrap_err();
        assert_eq!(error, Error::Limit("the operator's limit of 1 requests is reached".into()));
    }

    #[tokio::test]
    async fn the_request_that_crosses_the_limit_is_the_last() {
        let model = Budgeted::new(model(), Budget::total().with_max_tokens(60));
        assert!(model.reply(&Request::prompt("Hi")).await.is_ok());
        assert!(model.reply(&Request::prompt("Hi")).await.is_ok());
        let error = model.reply(&Request::prompt("Hi")).await.unwrap_err();
        assert_eq!(error, Error::Limit("the operator's limit of 60 tokens is reached".into()));
    }

    #[tokio::test]
    async fn reply_without_usage_counts_for_an_estimate() {
        let silent = Scripted::new().otherwise(|_| Ok(Reply::new("m", "word ".repeat(40))));
        let model = Budgeted::new(silent, Budget::total().with_max_tokens(60));
        let request = Request::prompt("Count the stars.");
        let reply = model.reply(&request).await.unwrap();
        assert_eq!(reply.usage(), None);
        let about = reply.tokens(&request);
        assert!((60..200).contains(&about), "{about}");
        let error = model.reply(&request).await.unwrap_err();
        assert_eq!(error, Error::Limit("the operator's limit of 60 tokens is reached".into()));
    }

    #[tokio::test]
    async fn a_new_window_is_a_new_budget() {
        let start = Instant::now();
        let passed = Arc::new(Mutex::new(0));
        let mut model = Budgeted::new(model(), Budget::per(Duration::from_secs(60)).with_max_requests(1));
        let seconds = Arc::clone(&passed);
        model.clock = Arc::new(move || start + Duration::from_secs(*seconds.lock().unwrap()));
        assert!(model.reply(&Request::prompt("Hi")).await.is_ok());
        *passed.lock().unwrap() = 59;
        let error = model.reply(&Request::prompt("Hi")).await.unwrap_err();
        assert_eq!(error, Error::Limit("the operator's limit of 1 requests in 60s is reached".into()));
        *passed.lock().unwrap() = 60;
        assert!(model.reply(&Request::prompt("Hi")).await.is_ok());
    }
}

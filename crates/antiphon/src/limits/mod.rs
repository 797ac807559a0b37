//! Limits that apply to the whole server, to each caller and to each tool.

mod limiter;
mod refused;
mod spend;

use std::time::Duration;

use antiphon_llm::Budget;

pub(crate) use self::{
    limiter::{Admission, AdmissionRequest, Limiter},
    refused::Refused,
    spend::Spend,
};

/// The limits of a server. For example, a server can limit concurrent requests, request rates, durations and message
/// sizes.
///
/// ```
/// use std::time::Duration;
///
/// use antiphon::{Limits, limits::{Quota, Rate}, sampling::Budget};
///
/// let limits = Limits::default()
///     .with_principal(Quota::default().with_rate(Rate::per_second(20).with_burst(50)).with_concurrent(16))
///     .with_tool(Quota::default().with_concurrent(64))
///     .with_model(Budget::per(Duration::from_secs(3600)).with_max_tokens(200_000))
///     .with_queue(100, Duration::from_millis(500));
/// # let _ = limits;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(crate) in_flight: usize,
    pub(crate) queue: usize,
    pub(crate) queue_wait: Duration,
    pub(crate) max_waiting: usize,
    pub(crate) answer_timeout: Option<Duration>,
    pub(crate) principal: Quota,
    pub(crate) tool: Quota,
    pub(crate) model: Option<Budget>,
    pub(crate) output_bytes: usize,
    pub(crate) subscriptions: usize,
    pub(crate) tool_timeout: Option<Duration>,
    pub(crate) max_rounds: u32,
    pub(crate) argument_depth: usize,
    pub(crate) branch_depth: u32,
    pub(crate) suspend_grace: Duration,
    pub(crate) claim_heartbeat: Duration,
    pub(crate) list_page_size: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 1024,
            queue: 0,
            queue_wait: Duration::from_secs(1),
            max_waiting: 4096,
            answer_timeout: Some(Duration::from_secs(60 * 60)),
            principal: Quota::default(),
            tool: Quota::default(),
            model: None,
            output_bytes: 16 * 1024 * 1024,
            subscriptions: 1024,
            tool_timeout: Some(Duration::from_secs(5 * 60)),
            max_rounds: 9,
            argument_depth: 64,
            branch_depth: 16,
            suspend_grace: Duration::from_millis(50),
            claim_heartbeat: Duration::from_secs(2),
            list_page_size: 500,
        }
    }
}

impl Limits {
    /// Sets the maximum number of requests that the server processes at the same time. Default: 1024.
    ///
    /// If the server already processes the maximum number of requests, a new request waits in the
    /// [queue](Self::with_queue). If the queue is full, the server rejects the new request. Requests that wait for a
    /// user's answer do not count.
    #[must_use]
    pub fn with_in_flight(mut self, in_flight: usize) -> Self {
        self.in_flight = in_flight;
        self
    }

    /// Sets how many requests can wait in the queue, and how long a request can wait in the queue. Default: 0 requests,
    /// and 1 second. If the queue is full, or if a request has waited too long, the server rejects the request.
    #[must_use]
    pub fn with_queue(mut self, requests: usize, wait: Duration) -> Self {
        self.queue = requests;
        self.queue_wait = wait;
        self
    }

    /// Sets the maximum number of requests that can wait for a user's answer at the same time. Default: 4096.
    ///
    /// This limit counts requests that wait for an answer in an MCP 2025-11-25 session, and requests that wait for the
    /// end of a task. If the limit is reached, further calls that wait for an answer count in the limit of
    /// [`with_in_flight`](Self::with_in_flight).
    #[must_use]
    pub fn with_max_waiting(mut self, max_waiting: usize) -> Self {
        self.max_waiting = max_waiting;
        self
    }

    /// Sets how long the server waits for the answer to a question in an MCP 2025-11-25 session. Default: 1 hour.
    ///
    /// If no answer arrives before this timeout, the question fails with
    /// [`ErrorKind::Unanswered`](crate::ErrorKind::Unanswered). On MCP 2026-07-28,
    /// [`SealConfig::with_ttl`](crate::seal::SealConfig::with_ttl) limits the time for an answer instead.
    #[must_use]
    pub fn with_answer_timeout(mut self, answer_timeout: impl Into<Option<Duration>>) -> Self {
        self.answer_timeout = answer_timeout.into();
        self
    }

    /// Sets the quota of each principal (each authenticated caller). Default: no limit.
    ///
    /// All unauthenticated callers share one quota.
    #[must_use]
    pub fn with_principal(mut self, principal: Quota) -> Self {
        self.principal = principal;
        self
    }

    /// Sets the quota of each tool. The calls of all callers count in the quota of a tool. Default: no limit.
    ///
    /// To set a different quota for one tool, use [`Tool::with_quota`](crate::Tool::with_quota).
    #[must_use]
    pub fn with_tool(mut self, tool: Quota) -> Self {
        self.tool = tool;
        self
    }

    /// Sets how many requests each principal can send to the server's model, and how many tokens these requests can
    /// use. Default: no limit.
    ///
    /// If the server has a [backend](crate::ServerBuilder::with_backend), all replicas together count the use of this
    /// budget.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<Option<Budget>>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the approximate maximum size of the output of a tool, prompt or resource, in bytes. Default: 16 MiB, which
    /// is the maximum length of a message that the SDK reads.
    #[must_use]
    pub fn with_output_bytes(mut self, output_bytes: usize) -> Self {
        self.output_bytes = output_bytes;
        self
    }

    /// Sets the maximum number of resources to which an MCP 2025-11-25 session can subscribe. Default: 1024.
    #[must_use]
    pub fn with_subscriptions(mut self, subscriptions: usize) -> Self {
        self.subscriptions = subscriptions;
        self
    }

    /// Sets how long a tool can work. The time in which the tool waits for users does not count. Default: 5 minutes.
    #[must_use]
    pub fn with_tool_timeout(mut self, tool_timeout: impl Into<Option<Duration>>) -> Self {
        self.tool_timeout = tool_timeout.into();
        self
    }

    /// Sets the maximum number of rounds of a run on MCP 2026-07-28. A round is one request and its response. Default:
    /// 9, because clients stop at the tenth request.
    #[must_use]
    pub fn with_max_rounds(mut self, max_rounds: u32) -> Self {
        self.max_rounds = max_rounds;
        self
    }

    /// Sets the maximum nesting depth of the JSON arguments of a call. Default: 64.
    #[must_use]
    pub fn with_argument_depth(mut self, argument_depth: usize) -> Self {
        self.argument_depth = argument_depth;
        self
    }

    /// Sets the maximum nesting depth of [branches](crate::Ctx::branch). Default: 16.
    #[must_use]
    pub fn with_branch_depth(mut self, branch_depth: u32) -> Self {
        self.branch_depth = branch_depth;
        self
    }

    /// Sets how long the server waits before it sends a question on MCP 2026-07-28. The server waits only if the tool
    /// also awaits I/O outside of a step. Default: 50 ms.
    #[must_use]
    pub fn with_suspend_grace(mut self, suspend_grace: Duration) -> Self {
        self.suspend_grace = suspend_grace;
        self
    }

    /// Sets the interval at which a server renews its claims in the store. A claim reserves a record for one process.
    /// Default: 2 seconds.
    ///
    /// The server uses claims for [at-most-once](crate::ctx::Step::at_most_once) steps, and for each
    /// [single-use](crate::seal::SealConfig::with_single_use) `requestState`. If a process does not renew its claim for
    /// four intervals, other replicas treat the process as dead.
    #[must_use]
    pub fn with_claim_heartbeat(mut self, claim_heartbeat: Duration) -> Self {
        self.claim_heartbeat = claim_heartbeat;
        self
    }

    /// Sets the maximum number of tools, prompts or resources on one page of a list. Default: 500.
    #[must_use]
    pub fn with_list_page_size(mut self, list_page_size: usize) -> Self {
        self.list_page_size = list_page_size;
        self
    }
}

impl Limits {
    /// Returns one line for each problem of the configuration.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let is_wrong = [
            (
                self.in_flight == 0,
                "`Limits::with_in_flight` is 0, so the server could answer no request; set 1 or more",
            ),
            (
                self.max_rounds == 0,
                "`Limits::with_max_rounds` is 0, so no tool could ask a question; set 1 or more",
            ),
            (
                self.list_page_size == 0,
                "`Limits::with_list_page_size` is 0, so a list would never end; set 1 or more",
            ),
            (
                self.claim_heartbeat < Duration::from_millis(10),
                "`Limits::with_claim_heartbeat` is less than 10 ms; set 10 ms or more",
            ),
        ];
        is_wrong.into_iter().filter(|(is_wrong, _)| *is_wrong).map(|(_, problem)| problem.to_owned())
    }
}

/// The quota of each principal, or the quota of each tool. By default, a quota has no limits.
///
/// Each process counts only its own requests. So three replicas behind a load balancer together can accept up to three
/// times as many requests as the quota allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    pub(crate) rate: Option<Rate>,
    pub(crate) concurrent: Option<usize>,
    pub(crate) bytes: Option<Rate>,
}

impl Quota {
    /// Sets how many requests per unit of time the server accepts from each principal or for each tool. Default: no
    /// limit.
    #[must_use]
    pub fn with_rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Sets the maximum number of calls that run at the same time. Calls that wait for users also count. Default: no
    /// limit.
    #[must_use]
    pub fn with_concurrent(mut self, calls: usize) -> Self {
        self.concurrent = Some(calls);
        self
    }

    /// Sets how many bytes per unit of time the arguments and results of calls can contain. The count of bytes is
    /// approximate. Default: no limit.
    ///
    /// The server still processes the request that exceeds the maximum number of bytes, and rejects the next request.
    #[must_use]
    pub fn with_bytes(mut self, rate: Rate) -> Self {
        self.bytes = Some(rate);
        self
    }

    fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// A rate limit for requests or bytes. The rate limit has two parts: an amount per unit of time, and a burst. The burst
/// is the maximum amount that a caller can use immediately.
///
/// Used amounts become available again at a constant rate. If a caller sends no requests for a sufficiently long time,
/// the complete burst is available again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    amount: u64,
    per: Duration,
    burst: u64,
}

/// The maximum wait that the methods of `Rate` return: 30 days.
const LONG: Duration = Duration::from_secs(30 * 24 * 60 * 60);

impl Rate {
    /// Creates a rate limit of `amount` per duration `per`. The burst is also `amount`.
    pub const fn new(amount: u64, per: Duration) -> Self {
        let amount = if amount == 0 { 1 } else { amount };
        Self { amount, per, burst: amount }
    }

    /// Creates a rate limit of `amount` per second. The burst is also `amount`.
    pub const fn per_second(amount: u64) -> Self {
        Self::new(amount, Duration::from_secs(1))
    }

    /// Creates a rate limit of `amount` per minute. The burst is also `amount`.
    pub const fn per_minute(amount: u64) -> Self {
        Self::new(amount, Duration::from_secs(60))
    }

    /// Sets the burst, which is the maximum amount that a caller can use immediately. Default: the amount of the rate
    /// limit.
    #[must_use]
    pub const fn with_burst(mut self, burst: u64) -> Self {
        self.burst = if burst == 0 { 1 } else { burst };
        self
    }

    /// Returns how long it takes until `count` used units are available again.
    fn time(&self, count: u64) -> Duration {
        let nanos = self.per.as_nanos().saturating_mul(count.into()) / u128::from(self.amount);
        u64::try_from(nanos).map_or(LONG, Duration::from_nanos).min(LONG)
    }

    /// Returns how long it takes until a completely used burst is available again.
    fn burst(&self) -> Duration {
        self.time(self.burst)
    }
}

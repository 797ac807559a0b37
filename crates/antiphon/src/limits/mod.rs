//! What a server's work is bounded by, and who counts.

mod gate;
mod meter;
mod quota;
mod refused;
mod shares;
mod spend;

use std::time::Duration;

use antiphon_llm::Budget;

pub use self::quota::{Quota, Rate};
pub(crate) use self::{
    gate::{Admission, Gate, Visitor},
    refused::Refused,
    spend::Spend,
};

/// What bounds a server's work.
///
/// ```
/// use std::time::Duration;
///
/// use antiphon::{Limits, Quota, Rate, sampling::Budget};
///
/// let limits = Limits::default()
///     .with_principal(Quota::default().with_rate(Rate::per_second(20).with_burst(50)).with_concurrent(16))
///     .with_tool(Quota::default().with_concurrent(64))
///     .with_model(Budget::per(Duration::from_secs(3600)).with_max_tokens(200_000))
///     .with_queue(100, Duration::from_millis(500));
/// # let _ = limits;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How many requests are worked on at once; what comes beyond waits in the queue, or is refused. A request that
    /// waits for people is not worked on. Default: 1024.
    pub in_flight: usize,
    /// How many requests wait for a place among those; what comes beyond is refused. Default: none.
    pub queue: usize,
    /// How long they wait before they are refused. Default: 1 second.
    pub queue_wait: Duration,
    /// How many requests may wait for people at once: for an answer in a 2025-11-25 session, or for a task to end.
    /// Beyond that a call that asks keeps its place among those that are worked on. Default: 4096.
    pub waiting: usize,
    /// How long a question to a 2025-11-25 client may stay unanswered; then the tool is told
    /// ([`ErrorKind::Unanswered`](crate::ErrorKind::Unanswered)). On 2026-07-28
    /// [`SealConfig::ttl`](crate::SealConfig::ttl) says. Default: 1 hour.
    pub answer_timeout: Option<Duration>,
    /// What each caller may take. Those of whom nothing is known are one caller. Default: anything.
    pub principal: Quota,
    /// What each tool may take, all callers together, unless it says otherwise
    /// ([`Tool::with_quota`](crate::Tool::with_quota)). Default: anything.
    pub tool: Quota,
    /// What each caller may have the server's own model cost. With a
    /// [backend](crate::ServerBuilder::with_backend) all replicas count together. Default: anything.
    pub model: Option<Budget>,
    /// The most bytes a tool, prompt or resource may answer with, about. Default: 16 MiB, the longest message that the
    /// SDK reads.
    pub output_bytes: usize,
    /// How many resources a 2025-11-25 session may subscribe to. Default: 1024.
    pub subscriptions: usize,
    /// How long a tool may work, not counting the time it waits for people. Default: 5 minutes.
    pub tool_timeout: Option<Duration>,
    /// How many rounds a run may take on 2026-07-28. Default: 9, because clients give up at the
    /// tenth request.
    pub rounds: u32,
    /// How deep arguments may be nested. Default: 64.
    pub argument_depth: usize,
    /// How deep branches may be nested. Default: 16.
    pub branch_depth: u32,
    /// How long I/O outside of a step may hold back a question on 2026-07-28. Default: 50 ms.
    pub grace: Duration,
    /// How often whoever takes a step at most once, or uses a seal that is good for one use, shows that it is
    /// alive; after four beats of silence it counts as dead. Default: 2 seconds.
    pub claim_beat: Duration,
    /// How many tools, prompts or resources one page of a list holds. Default: 500.
    pub page: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 1024,
            queue: 0,
            queue_wait: Duration::from_secs(1),
            waiting: 4096,
            answer_timeout: Some(Duration::from_secs(60 * 60)),
            principal: Quota::default(),
            tool: Quota::default(),
            model: None,
            output_bytes: 16 * 1024 * 1024,
            subscriptions: 1024,
            tool_timeout: Some(Duration::from_secs(5 * 60)),
            rounds: 9,
            argument_depth: 64,
            branch_depth: 16,
            grace: Duration::from_millis(50),
            claim_beat: Duration::from_secs(2),
            page: 500,
        }
    }
}

impl Limits {
    /// Sets how many requests are worked on at once.
    #[must_use]
    pub fn with_in_flight(mut self, in_flight: usize) -> Self {
        self.in_flight = in_flight;
        self
    }

    /// Sets how many requests wait for a place among those, and for how long.
    #[must_use]
    pub fn with_queue(mut self, requests: usize, wait: Duration) -> Self {
        self.queue = requests;
        self.queue_wait = wait;
        self
    }

    /// Sets how many requests may wait for people at once.
    #[must_use]
    pub fn with_waiting(mut self, requests: usize) -> Self {
        self.waiting = requests;
        self
    }

    /// Sets how long a question to a 2025-11-25 client may stay unanswered.
    #[must_use]
    pub fn with_answer_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.answer_timeout = timeout.into();
        self
    }

    /// Sets what each caller may take.
    #[must_use]
    pub fn with_principal(mut self, quota: Quota) -> Self {
        self.principal = quota;
        self
    }

    /// Sets what each tool may take.
    #[must_use]
    pub fn with_tool(mut self, quota: Quota) -> Self {
        self.tool = quota;
        self
    }

    /// Sets what each caller may have the server's own model cost.
    #[must_use]
    pub fn with_model(mut self, budget: impl Into<Option<Budget>>) -> Self {
        self.model = budget.into();
        self
    }

    /// Sets the most bytes of an answer.
    #[must_use]
    pub fn with_output_bytes(mut self, bytes: usize) -> Self {
        self.output_bytes = bytes;
        self
    }

    /// Sets how many resources a session may subscribe to.
    #[must_use]
    pub fn with_subscriptions(mut self, subscriptions: usize) -> Self {
        self.subscriptions = subscriptions;
        self
    }

    /// Sets how long a tool may work.
    #[must_use]
    pub fn with_tool_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.tool_timeout = timeout.into();
        self
    }

    /// Sets how many rounds a run may take on 2026-07-28.
    #[must_use]
    pub fn with_rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets how deep arguments may be nested.
    #[must_use]
    pub fn with_argument_depth(mut self, depth: usize) -> Self {
        self.argument_depth = depth;
        self
    }

    /// Sets how deep branches may be nested.
    #[must_use]
    pub fn with_branch_depth(mut self, depth: u32) -> Self {
        self.branch_depth = depth;
        self
    }

    /// Sets how long I/O outside of a step may hold back a question.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how often the holder of a claim shows that it is alive.
    #[must_use]
    pub fn with_claim_beat(mut self, beat: Duration) -> Self {
        self.claim_beat = beat.max(Duration::from_millis(10));
        self
    }

    /// Sets how much one page of a list holds.
    #[must_use]
    pub fn with_page(mut self, page: usize) -> Self {
        self.page = page.max(1);
        self
    }
}

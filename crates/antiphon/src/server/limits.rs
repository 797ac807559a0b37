use std::time::Duration;

/// What bounds a server's work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How many requests are worked on at once; what comes beyond is refused. Default: 1024.
    pub in_flight: usize,
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

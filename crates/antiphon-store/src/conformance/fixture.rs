use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use crate::{
    Bus, Queue, QueueConfig, Store,
    error::{Error, Result},
    flaky::{Flaky, FlakyConfig},
    retrying::{Retrying, random},
};

type Opening<T> = Pin<Box<dyn Future<Output = Option<Arc<T>>> + Send>>;

/// Opens the same store again and again.
pub struct Stores(Fixture<dyn Store, ()>);

/// Opens the same queue again and again.
pub struct Queues(Fixture<dyn Queue, QueueConfig>);

/// Opens the same bus again and again.
pub struct Buses(Fixture<dyn Bus, ()>);

struct Fixture<T: ?Sized, C> {
    space: String,
    open: Box<dyn Fn(String, C) -> Opening<T> + Send + Sync>,
    faulty: bool,
}

impl<T: ?Sized, C> Fixture<T, C> {
    async fn open(&self, suffix: &str, config: C) -> Arc<T> {
        (self.open)(format!("{}{suffix}", self.space), config).await.expect("it opened before")
    }
}

impl Stores {
    /// Opens the store once more.
    pub async fn open(&self) -> Arc<dyn Store> {
        self.0.open("", ()).await
    }

    /// Opens a store in another space.
    pub async fn open_other(&self) -> Arc<dyn Store> {
        self.0.open("-other", ()).await
    }

    /// Checks that a write was refused because of another. Over a connection that lies it may also be
    /// that nobody can say.
    #[track_caller]
    pub fn assert_conflict<T: fmt::Debug>(&self, result: Result<T>) {
        match result {
            Err(Error::Conflict { .. } | Error::LogConflict { .. }) => {}
            Err(Error::Backend { .. }) if self.0.faulty => {}
            other => panic!("a conflict was expected, not {other:?}"),
        }
    }

    /// Whether every answer can be taken at its word: not over a connection that lies.
    pub fn is_exact(&self) -> bool {
        !self.0.faulty
    }

    /// For how long to claim: longer than the law takes, if a claim cannot be lost on its way.
    pub fn lease(&self) -> Duration {
        if self.0.faulty { SOON_BACK } else { Duration::from_secs(600) }
    }

    /// How many bytes a value, or one append, may have.
    pub fn max_value(&self) -> usize {
        if self.0.faulty { Retrying::MAX_VALUE } else { crate::MAX_VALUE }
    }
}

impl Queues {
    /// Opens the queue once more, with long leases.
    pub async fn open(&self) -> Arc<dyn Queue> {
        let config = QueueConfig::default();
        self.open_with(if self.0.faulty { config.with_lease(SOON_BACK) } else { config }).await
    }

    /// Opens the queue once more.
    pub async fn open_with(&self, config: QueueConfig) -> Arc<dyn Queue> {
        self.0.open("", config).await
    }

    /// Opens a queue in another space.
    pub async fn open_other(&self) -> Arc<dyn Queue> {
        let config = QueueConfig::default();
        self.0.open("-other", if self.0.faulty { config.with_lease(SOON_BACK) } else { config }).await
    }

    /// Whether what counts attempts exactly can be compared: not over a connection that takes jobs and
    /// then says that it failed.
    pub fn is_exact(&self) -> bool {
        !self.0.faulty
    }
}

impl Buses {
    /// Opens the bus once more.
    pub async fn open(&self) -> Arc<dyn Bus> {
        self.0.open("", ()).await
    }

    /// Opens a bus in another space.
    pub async fn open_other(&self) -> Arc<dyn Bus> {
        self.0.open("-other", ()).await
    }

    /// Whether an event may come twice: over a connection that fails after it has done the thing.
    pub fn may_repeat(&self) -> bool {
        self.0.faulty
    }
}

/// When what was taken by a call whose answer was lost comes back, so that a law need not wait for long.
const SOON_BACK: Duration = Duration::from_secs(3);

macro_rules! debug {
    ($($name:ident)*) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("space", &self.0.space).finish_non_exhaustive()
            }
        })*
    };
}
debug!(Stores Queues Buses);

/// The URL of a service that tests need, from the environment.
///
/// Where it is not set, the test says that it does nothing and does nothing; in CI it fails.
///
/// # Panics
///
/// When `CI` is set and `variable` is not.
#[expect(clippy::print_stderr, reason = "tests read the environment and say what they skip")]
pub fn service(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{variable} is not set, and CI tests the real thing");
        eprintln!("skipped: {variable} is not set; `cargo xtask services env` tells what to set");
    }
    url
}

/// Runs a law.
pub fn run(law: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        // A law that hangs has found something, too.
        let ended = tokio::time::timeout(Duration::from_secs(120), law).await;
        assert!(ended.is_ok(), "the law has not ended within two minutes");
    });
}

/// What the macros call.
#[doc(hidden)]
pub mod fixtures {
    use super::{
        Arc, Bus, Buses, Fixture, Flaky, FlakyConfig, Future, Queue, QueueConfig, Queues, Retrying, Store,
        Stores, random,
    };

    fn space(law: &str) -> String {
        // Names are bounded, and two laws whose names begin alike must not meet.
        let law: String = law.chars().take(32).collect();
        format!("{}-{:016x}", law.replace('_', "-"), random())
    }

    async fn fixture<T, C, F>(
        law: &str,
        config: C,
        faulty: bool,
        open: impl Fn(String, C) -> F + Send + Sync + 'static,
    ) -> Option<Fixture<T, C>>
    where
        T: ?Sized + 'static,
        F: Future<Output = Option<Arc<T>>> + Send + 'static,
    {
        let space = space(law);
        open(space.clone(), config).await?;
        Some(Fixture { space, open: Box::new(move |space, config| Box::pin(open(space, config))), faulty })
    }

    pub async fn stores<F>(law: &str, open: fn(String) -> F) -> Option<Stores>
    where
        F: Future<Output = Option<Arc<dyn Store>>> + Send + 'static,
    {
        fixture(law, (), false, move |space, ()| open(space)).await.map(Stores)
    }

    pub async fn flaky_stores<F>(law: &str, open: fn(String) -> F) -> Option<Stores>
    where
        F: Future<Output = Option<Arc<dyn Store>>> + Send + 'static,
    {
        let open = move |space, ()| {
            let opening = open(space);
            async move {
                let flaky = Flaky::new(opening.await?, FlakyConfig::seeded(random()));
                Some(Arc::new(Retrying::new(Arc::new(flaky))) as Arc<dyn Store>)
            }
        };
        fixture(law, (), true, open).await.map(Stores)
    }

    pub async fn queues<F>(law: &str, open: fn(String, QueueConfig) -> F) -> Option<Queues>
    where
        F: Future<Output = Option<Arc<dyn Queue>>> + Send + 'static,
    {
        fixture(law, QueueConfig::default(), false, open).await.map(Queues)
    }

    pub async fn flaky_queues<F>(law: &str, open: fn(String, QueueConfig) -> F) -> Option<Queues>
    where
        F: Future<Output = Option<Arc<dyn Queue>>> + Send + 'static,
    {
        let open = move |space, config| {
            let opening = open(space, config);
            async move {
                let flaky = Flaky::new(opening.await?, FlakyConfig::seeded(random()));
                Some(Arc::new(Retrying::new(Arc::new(flaky))) as Arc<dyn Queue>)
            }
        };
        fixture(law, QueueConfig::default(), true, open).await.map(Queues)
    }

    pub async fn buses<F>(law: &str, open: fn(String) -> F) -> Option<Buses>
    where
        F: Future<Output = Option<Arc<dyn Bus>>> + Send + 'static,
    {
        fixture(law, (), false, move |space, ()| open(space)).await.map(Buses)
    }

    pub async fn flaky_buses<F>(law: &str, open: fn(String) -> F) -> Option<Buses>
    where
        F: Future<Output = Option<Arc<dyn Bus>>> + Send + 'static,
    {
        let open = move |space, ()| {
            let opening = open(space);
            async move {
                let flaky = Flaky::new(opening.await?, FlakyConfig::seeded(random()));
                Some(Arc::new(Retrying::new(Arc::new(flaky))) as Arc<dyn Bus>)
            }
        };
        fixture(law, (), true, open).await.map(Buses)
    }
}

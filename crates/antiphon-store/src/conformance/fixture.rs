use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use crate::{
    Bus, Queue, QueueConfig, Store,
    error::{Error, Result},
    flaky::{Flaky, FlakyConfig},
    retrying::{Retrying, random},
};

type Opening<T> = Pin<Box<dyn Future<Output = Option<Arc<T>>> + Send>>;

/// A test fixture that opens any number of handles to the same store.
pub struct Stores(Fixture<dyn Store, ()>);

/// A test fixture that opens any number of handles to the same queue.
pub struct Queues(Fixture<dyn Queue, QueueConfig>);

/// A test fixture that opens any number of handles to the same bus.
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
    /// Opens another handle to the store.
    pub async fn open(&self) -> Arc<dyn Store> {
        self.0.open("", ()).await
    }

    /// Opens a store in another space (namespace), which shares no data with the first store.
    pub async fn open_other(&self) -> Arc<dyn Store> {
        self.0.open("-other", ()).await
    }

    /// Checks that a write failed with a conflict. If the fixture injects faults, [`Error::Backend`] is also accepted.
    #[track_caller]
    pub fn assert_conflict<T: fmt::Debug>(&self, result: Result<T>) {
        match result {
            Err(Error::Conflict { .. } | Error::LogConflict { .. }) => {}
            Err(Error::Backend { .. }) if self.0.faulty => {}
            other => panic!("a conflict was expected, not {other:?}"),
        }
    }

    /// Returns `true` if the fixture injects no faults. With faults, a call can return an error although the store
    /// has applied the call.
    pub fn is_exact(&self) -> bool {
        !self.0.faulty
    }

    /// Returns the time to live of records that expire during a test: 300 milliseconds. If the fixture injects faults,
    /// the time to live is 2 seconds, because a repeated write must end before its record expires.
    pub fn short(&self) -> Duration {
        if self.0.faulty { Duration::from_secs(2) } else { Duration::from_millis(300) }
    }

    /// Returns the duration that tests use for claims: 10 minutes. If the fixture injects faults, the duration is 3
    /// seconds, because claims can be lost.
    pub fn lease(&self) -> Duration {
        if self.0.faulty { SOON_BACK } else { Duration::from_secs(600) }
    }

    /// Returns the maximum size in bytes of a value and of one append.
    pub fn max_value(&self) -> usize {
        if self.0.faulty { Retrying::MAX_VALUE } else { crate::MAX_VALUE }
    }
}

impl Queues {
    /// Opens another handle to the queue, with the default [`QueueConfig`]. If the fixture injects faults, leases
    /// last only 3 seconds.
    pub async fn open(&self) -> Arc<dyn Queue> {
        let config = QueueConfig::default();
        self.open_with(if self.0.faulty { config.with_lease(SOON_BACK) } else { config }).await
    }

    /// Opens another handle to the queue, with the configuration `config`.
    pub async fn open_with(&self, config: QueueConfig) -> Arc<dyn Queue> {
        self.0.open("", config).await
    }

    /// Opens a queue in another space (namespace), which shares no jobs with the first queue.
    pub async fn open_other(&self) -> Arc<dyn Queue> {
        let config = QueueConfig::default();
        self.0.open("-other", if self.0.faulty { config.with_lease(SOON_BACK) } else { config }).await
    }

    /// Returns `true` if the attempt number of a job is exactly the number of leases that the test received. Returns
    /// `false` if the fixture injects faults, because a call that returns an error can still lease jobs.
    pub fn is_exact(&self) -> bool {
        !self.0.faulty
    }
}

impl Buses {
    /// Opens another handle to the bus.
    pub async fn open(&self) -> Arc<dyn Bus> {
        self.0.open("", ()).await
    }

    /// Opens a bus in another space (namespace), which shares no events with the first bus.
    pub async fn open_other(&self) -> Arc<dyn Bus> {
        self.0.open("-other", ()).await
    }

    /// Returns whether an event can arrive twice. Returns `true` if the fixture injects faults, because a call that
    /// returns an error can still publish its event.
    pub fn may_repeat(&self) -> bool {
        self.0.faulty
    }
}

/// The duration of leases and claims over a faulty backend. The duration is short, so that a test does not wait long
/// for the end of a lost lease or claim.
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

/// Returns the URL of a service that tests need, from an environment variable.
///
/// If the environment variable is not set, `service` prints that the test is skipped, and returns `None`.
///
/// # Panics
///
/// Panics if the environment variable `CI` is set and `variable` is not set.
#[expect(clippy::print_stderr, reason = "tests read the environment and say what they skip")]
pub fn service(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{variable} is not set, and CI tests the real thing");
        eprintln!("skipped: {variable} is not set; `cargo xtask services env` tells what to set");
    }
    url
}

/// Runs one contract test on a new Tokio runtime, with a timeout of two minutes.
///
/// # Panics
///
/// Panics if the test panics or does not end in time.
pub fn run(law: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        // Without this timeout, a test that hangs would never fail.
        let ended = tokio::time::timeout(Duration::from_secs(120), law).await;
        assert!(ended.is_ok(), "the contract test did not end within two minutes");
    });
}

/// The functions that macros such as [`backend_laws!`](crate::backend_laws) call.
#[doc(hidden)]
pub mod fixtures {
    use super::{
        Arc, Bus, Buses, Fixture, Flaky, FlakyConfig, Future, Queue, QueueConfig, Queues, Retrying, Store,
        Stores, random,
    };

    fn space(law: &str) -> String {
        // The name of a space has a maximum length, so this code shortens the name of the test. Tests whose names
        // start with the same characters must not share a space.
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

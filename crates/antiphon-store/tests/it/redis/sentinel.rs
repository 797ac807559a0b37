//! A primary with a replica and three Sentinels.

use std::time::Duration;

use antiphon_store::{
    Bus, Error, Event, NewJob, Queue, QueueConfig, Store,
    redis::{Redis, RedisConfig},
};
use tokio::time::{sleep, timeout};

use super::server::Server;

const PASSWORD: &str = "of-redis";
const SENTINEL_PASSWORD: &str = "of-sentinel";

/// Sentinel needs about four seconds here. It waits for two seconds, so that a busy machine does not cause a failover.
const FAILOVER: Duration = Duration::from_secs(60);

struct Topology {
    primary: Server,
    replica: Server,
    sentinels: Vec<Server>,
}

impl Topology {
    async fn start() -> Self {
        let secrets = ["--requirepass", PASSWORD, "--masterauth", PASSWORD];
        let primary = Server::start(&secrets).await;
        let port = primary.port().to_string();
        let replica = Server::start(&[&secrets[..], &["--replicaof", "127.0.0.1", &port]].concat()).await;
        let settings = format!(
            "requirepass {SENTINEL_PASSWORD}\n\
             sentinel sentinel-pass {SENTINEL_PASSWORD}\n\
             sentinel monitor ours 127.0.0.1 {port} 2\n\
             sentinel auth-pass ours {PASSWORD}\n\
             sentinel down-after-milliseconds ours 2000\n\
             sentinel failover-timeout ours 6000\n"
        );
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(Server::start_sentinel(&settings).await);
        }
        let topology = Self { primary, replica, sentinels };
        topology.until("num-other-sentinels", "2").await;
        topology.until("num-slaves", "1").await;
        topology
    }

    /// Waits until each Sentinel reports this value of the primary.
    async fn until(&self, name: &str, value: &str) {
        for sentinel in &self.sentinels {
            let client =
                redis::Client::open(format!("redis://:{SENTINEL_PASSWORD}@127.0.0.1:{}", sentinel.port()));
            let mut connection = client.unwrap().get_multiplexed_async_connection().await.unwrap();
            let found = timeout(FAILOVER, async {
                loop {
                    let mut cmd = redis::cmd("SENTINEL");
                    let fields: Vec<String> =
                        cmd.arg("MASTER").arg("ours").query_async(&mut connection).await.unwrap();
                    if fields.chunks(2).any(|pair| pair[0] == name && pair[1] == value) {
                        return;
                    }
                    sleep(Duration::from_millis(50)).await;
                }
            });
            found.await.unwrap();
        }
    }

    fn url(&self) -> String {
        let [first, others @ ..] = &self.sentinels[..] else { panic!("there are Sentinels") };
        let nodes: Vec<_> = others.iter().map(|node| format!("&node=127.0.0.1:{}", node.port())).collect();
        format!(
            "redis://:{PASSWORD}@127.0.0.1:{}?sentinel=ours&sentinel_password={SENTINEL_PASSWORD}{}",
            first.port(),
            nodes.concat()
        )
    }

    /// Waits until the replica has all writes.
    async fn replicate(&self) {
        let client = redis::Client::open(format!("redis://:{PASSWORD}@127.0.0.1:{}", self.primary.port()));
        let mut connection = client.unwrap().get_multiplexed_async_connection().await.unwrap();
        // The command waits for the writes of its own connection.
        redis::cmd("SET").arg("mark").arg(1).exec_async(&mut connection).await.unwrap();
        let replicated = timeout(FAILOVER, async {
            let mut replicas = 0;
            while replicas == 0 {
                // The client waits half a second for a reply.
                let mut cmd = redis::cmd("WAIT");
                replicas = cmd.arg(1).arg(300).query_async(&mut connection).await.unwrap();
            }
        });
        replicated.await.unwrap();
    }
}

#[tokio::test]
async fn new_primary_is_found_after_a_failover() {
    let mut topology = Topology::start().await;
    let redis = Redis::connect(RedisConfig::new(topology.url())).await.unwrap();
    let (store, queue, bus) = (redis.store(), redis.queue(QueueConfig::default()), redis.bus());
    let revision = store.create("kept", "1".into(), None).await.unwrap();
    let mut subscription = bus.subscribe("topic").await.unwrap();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            loop {
                match queue.lease("queue", 1, Duration::from_secs(5)).await {
                    Ok(jobs) if jobs.is_empty() => {}
                    Ok(jobs) => return jobs,
                    Err(error) => assert!(error.is_transient(), "{error:?}"),
                }
            }
        }
    });
    topology.replicate().await;

    topology.primary.kill();
    let kept = timeout(FAILOVER, async {
        loop {
            match store.update("kept", "2".into(), None, revision).await {
                Ok(_) => return store.get("kept").await.unwrap().unwrap(),
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        }
    });
    assert_eq!(kept.await.unwrap().value, "2");
    queue.push("queue", NewJob::new("job", "")).await.unwrap();
    assert_eq!(timeout(FAILOVER, worker).await.unwrap().unwrap().len(), 1);
    assert_eq!(timeout(FAILOVER, subscription.next()).await.unwrap(), Some(Event::Gap));
    bus.publish("topic", "again".into()).await.unwrap();
    let mut heard = Some(Event::Gap);
    while heard == Some(Event::Gap) {
        heard = timeout(FAILOVER, subscription.next()).await.unwrap();
    }
    assert_eq!(heard, Some(Event::Message("again".into())));

    // The old primary comes back as a replica.
    topology.primary.resume().await;
    topology.until("num-slaves", "1").await;
    store.create("new", "".into(), None).await.unwrap();
    assert_ne!(topology.replica.port(), topology.primary.port());
}

#[tokio::test]
async fn wrong_name_and_absent_sentinels_are_reported() {
    let topology = Topology::start().await;
    let refused = Redis::connect(RedisConfig::new(topology.url().replace("=ours", "=theirs"))).await;
    assert!(refused.is_err(), "{refused:?}");
    // The first Sentinel is down, and the others answer.
    let url = topology.url().replacen(&format!(":{}?", topology.sentinels[0].port()), ":1?", 1);
    Redis::connect(RedisConfig::new(url)).await.unwrap();
    let absent = Redis::connect(RedisConfig::new("redis://127.0.0.1:1?sentinel=ours")).await;
    assert!(matches!(&absent, Err(Error::Busy { .. })), "{absent:?}");
}

#[tokio::test]
async fn proxy_that_closes_connections_leaves_no_doubt() {
    let server = Server::start(&[]).await;
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", proxy.local_addr().unwrap());
    let target = server.port();
    let gate = tokio::spawn(async move {
        loop {
            let (mut client, _) = proxy.accept().await.unwrap();
            let Ok(mut server) = tokio::net::TcpStream::connect(("127.0.0.1", target)).await else {
                continue;
            };
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    let mut server = server;
    let redis =
        Redis::connect(RedisConfig::new(url).with_connect_timeout(Duration::from_millis(500))).await.unwrap();
    server.kill();
    // The first command can still be sent on the connection that is about to close.
    drop(redis.store().create("first", "".into(), None).await);
    for _ in 0..3 {
        let error = redis.store().create("second", "".into(), None).await.unwrap_err();
        assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    }
    server.resume().await;
    redis.store().create("second", "".into(), None).await.unwrap();
    gate.abort();
}

//! A cluster of two nodes, whose slots move.

use std::time::Duration;

use antiphon_store::{
    Bus, Event, NewJob, Queue, QueueConfig, Store,
    redis::{Redis, RedisConfig},
};
use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

use super::server::Server;

const SOON: Duration = Duration::from_secs(20);

/// A node, and a connection to it alone.
struct Node {
    server: Server,
    connection: MultiplexedConnection,
    id: String,
}

impl Node {
    async fn start() -> Self {
        let server = Server::start(&["--cluster-enabled", "yes"]).await;
        let connection = server.client().get_multiplexed_async_connection().await.unwrap();
        let mut node = Self { server, connection, id: String::new() };
        node.id = node.cluster("MYID", &[]).await;
        node
    }

    async fn cluster(&mut self, command: &str, arguments: &[&str]) -> String {
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg(command).arg(arguments).query_async(&mut self.connection).await.unwrap()
    }
}

/// Two nodes, each with half of the slots.
async fn start() -> [Node; 2] {
    let mut nodes = [Node::start().await, Node::start().await];
    nodes[0].cluster("ADDSLOTSRANGE", &["0", "8191"]).await;
    nodes[1].cluster("ADDSLOTSRANGE", &["8192", "16383"]).await;
    let other = nodes[1].server.port().to_string();
    nodes[0].cluster("MEET", &["127.0.0.1", &other]).await;
    for node in &mut nodes {
        // They tell each other, some times a second.
        while !node.cluster("INFO", &[]).await.contains("cluster_slots_ok:16384\r\n")
            || !node.cluster("INFO", &[]).await.contains("cluster_state:ok")
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    nodes
}

async fn open(nodes: &[Node; 2], space: &str) -> Redis {
    let config = RedisConfig::new(nodes[0].server.url()).with_node(nodes[1].server.url());
    Redis::connect(config.with_space(space)).await.unwrap()
}

#[tokio::test]
async fn all_nodes_are_used_whichever_has_the_slot() {
    let nodes = start().await;
    // Of eight spaces, some have their queue and their topics on either node.
    for space in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let redis = open(&nodes, space).await;
        let (store, queue, bus) = (redis.store(), redis.queue(QueueConfig::default()), redis.bus());
        for key in 0..40 {
            store.create(&format!("key/{key}"), "".into(), None).await.unwrap();
        }
        assert_eq!(store.list("key/", None, 100).await.unwrap().items.len(), 40);

        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.lease("queue", 1, SOON).await.unwrap() }
        });
        let mut subscription = bus.subscribe("topic").await.unwrap();
        bus.publish("topic", "event".into()).await.unwrap();
        assert_eq!(timeout(SOON, subscription.next()).await.unwrap(), Some(Event::Message("event".into())));
        queue.push("queue", NewJob::new("job", "")).await.unwrap();
        assert_eq!(timeout(SOON, waiting).await.unwrap().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn moved_slots_are_found_again() {
    let mut nodes = start().await;
    let redis = open(&nodes, "moving").await;
    let (store, queue, bus) = (redis.store(), redis.queue(QueueConfig::default()), redis.bus());
    let mut subscription = bus.subscribe("topic").await.unwrap();

    // Slots without data move in one step, here each to the other node.
    let buckets = (0..16).map(|bucket| format!("{{moving.{bucket}}}"));
    for key in ["{moving.b}".to_owned(), "{moving.q.queue}".to_owned()].into_iter().chain(buckets) {
        let slot: u16 = nodes[0].cluster("KEYSLOT", &[&key]).await.parse().unwrap();
        let to = usize::from(slot < 8192);
        let (slot, id) = (slot.to_string(), nodes[to].id.clone());
        for node in [to, 1 - to] {
            nodes[node].cluster("SETSLOT", &[&slot, "NODE", &id]).await;
        }
    }
    assert_eq!(timeout(SOON, subscription.next()).await.unwrap(), Some(Event::Gap));
    timeout(SOON, bus.publish("topic", "event".into())).await.unwrap().unwrap();
    let mut heard = timeout(SOON, subscription.next()).await.unwrap();
    while heard == Some(Event::Gap) {
        heard = timeout(SOON, subscription.next()).await.unwrap();
    }
    assert_eq!(heard, Some(Event::Message("event".into())));
    for key in 0..40 {
        store.create(&format!("key/{key}"), "".into(), None).await.unwrap();
    }
    queue.push("queue", NewJob::new("job", "")).await.unwrap();
    assert_eq!(queue.lease("queue", 1, SOON).await.unwrap().len(), 1);
}

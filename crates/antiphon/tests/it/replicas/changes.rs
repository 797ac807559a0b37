//! News of changes, for the clients of all replicas.

use antiphon::{
    Resource,
    http::HttpConfig,
    prelude::*,
    testing::{Frame, Revision},
};
use serde_json::{Value, json};

use super::{
    Opener,
    fleet::{Client, Fleet, check_message, text},
    wire::{self, Response},
};
use crate::checked::check;

/// A 2026-07-28 client that listens at a replica.
pub(crate) async fn subscribe(fleet: &Fleet, replica: usize) -> Result<Response> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://a"]});
    let params = json!({"notifications": wanted, "_meta": meta});
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    let headers = [
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "subscriptions/listen"),
    ];
    let mut stream = wire::send(fleet.addresses[replica], "POST", &headers, Some(&listen)).await?;
    let acknowledged = stream.message().await?;
    assert_eq!(
        acknowledged.message["method"], "notifications/subscriptions/acknowledged",
        "{acknowledged:?}"
    );
    Ok(stream)
}

/// What is heard up to a resource's update, which is announced last.
async fn heard(stream: &mut Response, revision: Revision, until: &str) -> Result<Vec<String>> {
    let mut heard = Vec::new();
    loop {
        let Some(event) = stream.next().await? else { panic!("the stream has ended after {heard:?}") };
        if event.message == Value::Null {
            continue;
        }
        check(revision, &Frame { method: None, message: event.message.clone() });
        if event.message["params"]["uri"] == until {
            return Ok(heard);
        }
        heard.push(event.message["method"].as_str().unwrap_or_default().to_owned());
    }
}

async fn follow(client: &Client, replica: usize, uri: &str) -> Result<()> {
    let (_, mut stream) = client.request(replica, "resources/subscribe", json!({"uri": uri})).await?;
    assert_eq!(stream.message().await?.message["result"], json!({}));
    Ok(())
}

async fn read(_: &Ctx, _: ()) -> Result<String> {
    Ok("a".into())
}

async fn start(open: &Opener) -> Result<Fleet> {
    Fleet::start_with(open, HttpConfig::default(), |builder| {
        builder.resource(Resource::new("test://a", "a", read))
    })
    .await
}

pub(crate) async fn a_change_reaches_every_client_once(open: Opener) -> Result<()> {
    let fleet = start(&open).await?;
    let client = fleet.client().await?;
    // The session is at all replicas, and its client listens at the third.
    follow(&client, 0, "test://a").await?;
    client.call(1, "say", json!({"level": "info", "text": "x"})).await?.1.rest().await?;
    let mut session = client.get(2, None).await?;
    let mut listens = [subscribe(&fleet, 0).await?, subscribe(&fleet, 1).await?];
    for _ in 0..5 {
        fleet.servers[0].changes().tools();
        for stream in &mut listens {
            let told = stream.message().await?;
            assert_eq!(told.message["method"], "notifications/tools/list_changed");
        }
    }
    fleet.servers[0].changes().resource("test://a");
    for stream in &mut listens {
        assert_eq!(heard(stream, Revision::V2026_07_28, "test://a").await?, [""; 0]);
    }
    let mut told = heard(&mut session, Revision::V2025_11_25, "test://a").await?;
    told.retain(|method| method != "notifications/message");
    assert_eq!(told, ["notifications/tools/list_changed"; 5]);
    Ok(())
}

pub(crate) async fn what_changes_often_is_told_once(open: Opener) -> Result<()> {
    let fleet = start(&open).await?;
    let mut listens = [subscribe(&fleet, 0).await?, subscribe(&fleet, 2).await?];
    for _ in 0..1000 {
        fleet.servers[0].changes().tools();
    }
    for stream in &mut listens {
        assert_eq!(stream.message().await?.message["method"], "notifications/tools/list_changed");
    }
    fleet.servers[0].changes().resource("test://a");
    for stream in &mut listens {
        let told = heard(stream, Revision::V2026_07_28, "test://a").await?;
        assert!(told.len() < 20, "{} notifications of one change", told.len());
    }
    Ok(())
}

pub(crate) async fn a_subscription_is_known_at_every_replica(open: Opener) -> Result<()> {
    let fleet = start(&open).await?;
    let client = fleet.client().await?;
    // The client listens where it has not subscribed, and the change is told at yet another replica.
    let mut session = client.get(2, None).await?;
    assert_eq!(session.next().await?.unwrap().message, Value::Null);
    follow(&client, 0, "test://a").await?;
    follow(&client, 1, "test://b").await?;
    let until = async |uri: &str, session: &mut Response| -> Result<()> {
        loop {
            fleet.servers[1].changes().resource(uri);
            let soon = tokio::time::timeout(std::time::Duration::from_millis(500), session.message());
            if let Ok(event) = soon.await {
                let event = event?;
                check_message("", &event);
                if event.message["params"]["uri"] == uri {
                    return Ok(());
                }
            }
        }
    };
    until("test://a", &mut session).await?;
    until("test://b", &mut session).await?;
    let (_, stream) = client.request(1, "resources/unsubscribe", json!({"uri": "test://a"})).await?;
    stream.rest().await?;
    Ok(())
}

pub(crate) async fn who_listens_elsewhere_hears_everything_once(open: Opener) -> Result<()> {
    let fleet = start(&open).await?;
    let client = fleet.client().await?;
    let uris: Vec<_> = (0..30).map(|number| format!("test://{number}")).collect();
    for (number, uri) in uris.iter().enumerate() {
        follow(&client, number % 3, uri).await?;
    }
    let mut told = Vec::new();
    let mut last: Option<String> = None;
    // The client's stream breaks and is resumed at the next replica, while one change follows another: four
    // while it listens, and one while it does not.
    for (round, uris) in uris.chunks(5).enumerate() {
        let replica = round % 3;
        let mut stream = client.get(replica, last.as_deref()).await?;
        for uri in uris {
            fleet.servers[(round + 1) % 3].changes().resource(uri);
        }
        for _ in 0..4 {
            let event = stream.message().await?;
            check_message("", &event);
            last.clone_from(&event.id);
            told.push(event.message["params"]["uri"].as_str().unwrap_or_default().to_owned());
        }
    }
    let mut stream = client.get(1, last.as_deref()).await?;
    while told.len() < uris.len() {
        told.push(stream.message().await?.message["params"]["uri"].as_str().unwrap_or_default().to_owned());
    }
    told.sort();
    let mut expected = uris.clone();
    expected.sort();
    assert_eq!(told, expected);
    // Nothing comes after that but what is new.
    fleet.servers[0].changes().tools();
    assert_eq!(stream.message().await?.message["method"], "notifications/tools/list_changed");
    Ok(())
}

/// Sends the user of `client` to a page, and returns the elicitation's ID. The run is over when it returns.
async fn pay(client: &Client, replica: usize) -> Result<String> {
    let (_, mut call) = client.call(replica, "pay", json!({})).await?;
    let question = call.message().await?;
    check_message("", &question);
    assert_eq!(question.message["params"]["mode"], "url");
    assert_eq!(client.answer((replica + 1) % 3, &question, json!({"action": "accept"})).await?, 202);
    Ok(text(&call.message().await?).to_owned())
}

pub(crate) async fn a_page_completes_at_any_replica(open: Opener) -> Result<()> {
    let fleet = start(&open).await?;
    let (client, other) = (fleet.client().await?, fleet.client().await?);
    let (first, second) = (pay(&client, 0).await?, pay(&client, 1).await?);
    pay(&other, 0).await?;
    // The client listens at a replica that sent it no elicitation, and the pages come back to all replicas.
    let (mut listens, mut others) = (client.get(2, None).await?, other.get(2, None).await?);
    fleet.servers[1].elicitation_complete("an ID of nobody's");
    for (replica, id) in [(1, &first), (2, &second), (0, &first)] {
        fleet.servers[replica].elicitation_complete(id);
        let told = listens.message().await?;
        check_message("", &told);
        assert_eq!(told.message["method"], "notifications/elicitation/complete");
        assert_eq!(told.message["params"], json!({"elicitationId": id}), "each is told once");
    }
    fleet.servers[0].changes().tools();
    let told = others.message().await?.message;
    assert_eq!(told["method"], "notifications/tools/list_changed", "no page of the other's is complete");
    Ok(())
}

//! Groups of tools, which a session or a caller has at every replica.

use antiphon::{Resource, http::HttpConfig, prelude::*};
use serde_json::{Value, json};

use super::{
    Opener,
    fleet::{Client, Fleet, check_message, text},
    wire::{self, Response},
};

async fn unlock(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.enable_group("admin").await?;
    Ok("unlocked".into())
}

async fn lock(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.disable_group("admin").await?;
    Ok("locked".into())
}

async fn done(_: &Ctx, _: ()) -> Result<String> {
    Ok("done".into())
}

async fn start(open: &Opener) -> Result<Fleet> {
    Fleet::start_with(open, HttpConfig::default(), |builder| {
        builder
            .tool(Tool::new("unlock", "Shows the administration tools", unlock))
            .tool(Tool::new("lock", "Hides the administration tools", lock))
            .tool(Tool::new("erase", "Erases everything", done).in_group("admin"))
            .resource(Resource::new("test://a", "a", done))
            .with_principal(|parts| Some(parts.headers.get("x-caller")?.to_str().ok()?.to_owned()))
    })
    .await
}

fn has_erase(listed: &Value) -> bool {
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().any(|tool| tool["name"] == "erase")
}

async fn sees(client: &Client, replica: usize) -> Result<bool> {
    let (_, mut listed) = client.request(replica, "tools/list", json!({})).await?;
    let listed = listed.message().await?;
    check_message("tools/list", &listed);
    Ok(has_erase(&listed.message))
}

async fn called(client: &Client, replica: usize, tool: &str) -> Result<String> {
    Ok(text(&client.call(replica, tool, json!({})).await?.1.message().await?).to_owned())
}

/// How often the list of tools has changed, up to the update of the resource, which is announced last.
async fn changes(fleet: &Fleet, stream: &mut Response) -> Result<usize> {
    fleet.servers[0].changes().resource("test://a");
    let mut changes = 0;
    loop {
        let event = stream.message().await?;
        if event.message["params"]["uri"] == "test://a" {
            return Ok(changes);
        }
        changes += usize::from(event.message["method"] == "notifications/tools/list_changed");
    }
}

pub(crate) async fn a_group_of_a_session_is_enabled_at_every_replica(open: Opener) -> Result<()> {
    let fleet = start(&open).await?;
    let (client, other) = (fleet.client().await?, fleet.client().await?);
    let mut streams = Vec::new();
    for client in [&client, &other] {
        let (_, mut followed) = client.request(1, "resources/subscribe", json!({"uri": "test://a"})).await?;
        assert_eq!(followed.message().await?.message["result"], json!({}));
        streams.push(client.get(2, None).await?);
    }
    for (round, tool) in ["unlock", "lock", "unlock"].into_iter().enumerate() {
        called(&client, round, tool).await?;
        for replica in 0..3 {
            assert_eq!(
                sees(&client, replica).await?,
                tool == "unlock",
                "{tool} at {round}, seen at {replica}"
            );
            assert!(!sees(&other, replica).await?);
        }
        // The client is notified by the replica of its stream, wherever the group was changed.
        let told = streams[0].message().await?;
        check_message("", &told);
        assert_eq!(told.message["method"], "notifications/tools/list_changed");
    }
    for replica in 0..3 {
        assert_eq!(called(&client, replica, "erase").await?, "done");
    }
    assert_eq!(changes(&fleet, &mut streams[0]).await?, 0, "each change is told once");
    assert_eq!(changes(&fleet, &mut streams[1]).await?, 0, "the other session has no change");
    Ok(())
}

/// Sends a 2026-07-28 request of a caller to a replica.
async fn send(
    fleet: &Fleet,
    replica: usize,
    caller: &str,
    (method, name): (&str, Option<&str>),
    mut params: Value,
) -> Result<Response> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let mut headers = vec![
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
        ("x-caller", caller),
    ];
    headers.extend(name.map(|name| ("mcp-name", name)));
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    wire::send(fleet.addresses[replica], "POST", &headers, Some(&message)).await
}

pub(crate) async fn a_group_of_a_caller_is_enabled_at_every_replica(open: Opener) -> Result<()> {
    let fleet = start(&open).await?;
    let mut streams = Vec::new();
    for caller in ["ada", "eve"] {
        let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://a"]});
        let params = json!({"notifications": wanted});
        let mut stream = send(&fleet, 2, caller, ("subscriptions/listen", None), params).await?;
        let acknowledged = stream.message().await?.message;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        streams.push(stream);
    }
    for (round, tool) in ["unlock", "lock", "unlock"].into_iter().enumerate() {
        let params = json!({"name": tool, "arguments": {}});
        let called = send(&fleet, round, "ada", ("tools/call", Some(tool)), params).await?;
        assert_eq!(called.status(), 200);
        called.rest().await?;
        for (caller, expected) in [("ada", tool == "unlock"), ("eve", false)] {
            for replica in 0..3 {
                let listed = send(&fleet, replica, caller, ("tools/list", None), json!({})).await?;
                assert_eq!(has_erase(&listed.json().await?), expected, "{caller} at {replica}");
            }
        }
        let told = streams[0].message().await?.message;
        assert_eq!(told["method"], "notifications/tools/list_changed");
    }
    assert_eq!(changes(&fleet, &mut streams[0]).await?, 0, "each change is told once");
    assert_eq!(changes(&fleet, &mut streams[1]).await?, 0, "the other caller has no change");
    Ok(())
}

//! Tools, prompts and resources that change while the server runs.

use std::sync::Arc;

use antiphon::{
    Prompt, Resource, ResourceTemplate,
    prelude::*,
    testing::{Client, Revision},
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{checked::connect, tasks::refused};

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

async fn old(_: &Ctx, _: ()) -> Result<String> {
    Ok("old".into())
}

async fn new(_: &Ctx, _: ()) -> Result<String> {
    Ok("new".into())
}

async fn ask(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.elicit::<Word>("Word?").await?.accepted()?.word)
}

#[derive(Deserialize, JsonSchema)]
struct Page {
    page: String,
}

async fn page(_: &Ctx, Page { page }: Page) -> Result<String> {
    Ok(page)
}

fn server() -> Result<Server> {
    Ok(Server::builder("changing", "1.0.0")
        .tool(Tool::new("tool", "Is old", old))
        .tool(Tool::new("ask", "Asks", ask))
        .prompt(Prompt::new("prompt", "Is old", old))
        .resource(Resource::new("test://resource", "resource", old))
        .resource_template(ResourceTemplate::new("test://pages/{page}", "pages", page))
        .build()?)
}

/// Connects a client that is notified of every list. On MCP 2026-07-28, it has to ask for that.
async fn listener(server: &Server, revision: Revision) -> Result<Client> {
    let mut client = Client::connect(server, revision).await?;
    if revision == Revision::V2025_11_25 {
        client.request("ping", json!({})).await?;
        return Ok(client);
    }
    let filter = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    client.start("subscriptions/listen", json!({"notifications": filter})).await?;
    let first = client.notification().await?;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    Ok(client)
}

async fn list(client: &mut Client, method: &str, key: &str) -> Result<Vec<String>> {
    let listed = client.request(method, json!({})).await?;
    let list = listed.as_object().unwrap().values().find_map(Value::as_array).unwrap();
    Ok(list.iter().map(|item| item[key].as_str().unwrap().to_owned()).collect())
}

#[tokio::test]
async fn update_changes_every_list_and_notifies_clients() -> Result<()> {
    for revision in Revision::BOTH {
        let server = server()?;
        let mut heard = listener(&server, revision).await?;
        let removed = server.update(|items| {
            assert_eq!(items.tools().collect::<Vec<_>>(), ["tool", "ask"]);
            assert_eq!(items.resource_templates().collect::<Vec<_>>(), ["test://pages/{page}"]);
            items.add_tool(Tool::new("late", "Is new", new));
            items.add_prompt(Prompt::new("late", "Is new", new));
            items.add_resource(Resource::new("test://late", "late", new));
            items.add_resource_template(ResourceTemplate::new("test://late/{page}", "late", page));
            [
                items.remove_tool("tool"),
                items.remove_prompt("prompt"),
                items.remove_resource("test://resource"),
                items.remove_resource_template("test://pages/{page}"),
                items.remove_tool("nothing"),
                items.remove_prompt("nothing"),
                items.remove_resource("nothing"),
                items.remove_resource_template("nothing"),
            ]
        })?;
        assert_eq!(removed, [true, true, true, true, false, false, false, false]);
        for method in ["tools", "prompts", "resources"] {
            let told = heard.notification().await?;
            assert_eq!(told["method"], format!("notifications/{method}/list_changed"));
        }
        let mut client = connect(&server, revision).await?;
        assert_eq!(list(&mut client, "tools/list", "name").await?, ["ask", "late"]);
        assert_eq!(list(&mut client, "prompts/list", "name").await?, ["late"]);
        assert_eq!(list(&mut client, "resources/list", "uri").await?, ["test://late"]);
        let templates = list(&mut client, "resources/templates/list", "uriTemplate").await?;
        assert_eq!(templates, ["test://late/{page}"]);
        assert_eq!(client.call("late", json!({})).await?.text(), "new");
        let error = refused(&mut client, "tools/call", json!({"name": "tool", "arguments": {}})).await;
        assert_eq!(error.message, "there is no tool `tool`");
        // Clients are notified only of the list that has changed.
        server.update(|items| items.add_prompt(Prompt::new("other", "Is new", new)))?;
        assert_eq!(heard.notification().await?["method"], "notifications/prompts/list_changed");
    }
    Ok(())
}

#[tokio::test]
async fn update_with_a_problem_changes_nothing() -> Result<()> {
    async fn stateful(_: &Ctx, _: State<u8>, _: ()) -> Result<String> {
        Ok(String::new())
    }
    let server = server()?;
    let mut heard = listener(&server, Revision::V2025_11_25).await?;
    let error = server
        .update(|items| {
            items.remove_tool("tool");
            items.add_tool(Tool::new("ask", "Has a used name", new));
            items.add_tool(Tool::new("stateful", "Takes a state", stateful));
            items.add_tool(Tool::new("stored", "Needs a store", new).needs_backend());
            items.mount("a", Server::builder("a", "1.0.0").with_instructions("Read.").with_traces(true));
        })
        .unwrap_err();
    let said = error.problems();
    let expected = [
        "tool `ask` is defined twice",
        "mounted server `a`: `ServerBuilder::with_traces` has no effect",
        "mounted server `a`: a running server cannot add instructions",
        "tool `stateful` takes `State<u8>`",
        "the tool `stored` needs a backend",
    ];
    assert_eq!(said.len(), expected.len(), "{said:?}");
    for (problem, expected) in said.iter().zip(expected) {
        assert!(problem.starts_with(expected), "{problem}");
    }
    server.changes().prompts();
    assert_eq!(heard.notification().await?["method"], "notifications/prompts/list_changed");
    assert_eq!(list(&mut heard, "tools/list", "name").await?, ["tool", "ask"]);
    Ok(())
}

#[cfg(feature = "results")]
#[tokio::test]
async fn tool_with_a_viewer_is_not_added_to_a_server_without_one() -> Result<()> {
    let error = server()?.add_tool(Tool::new("rows", "Shows rows", new).with_result_viewer()).unwrap_err();
    assert!(error.problems()[0].contains("uses the result viewer"), "{error}");
    Ok(())
}

/// Two signals: the call has begun, and the call can continue.
struct Gate {
    begun: Semaphore,
    go: Semaphore,
}

async fn waits(ctx: &Ctx, State(gate): State<Arc<Gate>>, _: ()) -> Result<String> {
    gate.begun.add_permits(1);
    gate.go.acquire().await.unwrap().forget();
    // The rest of the old function also runs.
    ctx.step("after", || async { Ok(String::from("old")) }).await
}

#[tokio::test]
async fn running_call_keeps_its_tool() -> Result<()> {
    for revision in Revision::BOTH {
        let gate = Arc::new(Gate { begun: Semaphore::new(0), go: Semaphore::new(0) });
        let server = Server::builder("gated", "1.0.0")
            .with_state(Arc::clone(&gate))
            .tool(Tool::new("tool", "Waits", waits))
            .build()?;
        let mut client = connect(&server, revision).await?;
        let call = client.call("tool", json!({}));
        let change = async {
            gate.begun.acquire().await.unwrap().forget();
            let changed = server.update(|items| {
                items.remove_tool("tool");
                items.add_tool(Tool::new("tool", "Is new", new));
            });
            gate.go.add_permits(1);
            changed
        };
        let (talk, changed) = tokio::join!(call, change);
        changed?;
        assert_eq!(talk?.text(), "old");
        assert_eq!(client.call("tool", json!({})).await?.text(), "new");
    }
    Ok(())
}

#[tokio::test]
async fn resumed_call_whose_tool_was_removed_fails_with_the_reason() -> Result<()> {
    let server = server()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let asked = client.request("tools/call", json!({"name": "ask", "arguments": {}})).await?;
    let resume = json!({
        "name": "ask",
        "arguments": {},
        "requestState": asked["requestState"],
        "inputResponses": {"word": {"action": "accept", "content": {"word": "owl"}}},
    });
    assert!(server.remove_tool("ask"));
    let error = refused(&mut client, "tools/call", resume.clone()).await;
    assert_eq!(error.message, "the run cannot continue: the server no longer has the tool `ask`");
    assert_eq!(error.code, -32602);
    // A tool that comes back continues the run.
    server.add_tool(Tool::new("ask", "Asks", ask))?;
    assert_eq!(client.request("tools/call", resume).await?["content"][0]["text"], "owl");
    Ok(())
}

#[tokio::test]
async fn server_is_mounted_and_unmounted_while_the_outer_server_runs() -> Result<()> {
    async fn shelf(_: &Ctx, State(shelf): State<String>, _: ()) -> Result<String> {
        Ok(shelf)
    }
    let books = || {
        let books = Server::builder("books", "1.0.0").with_state(String::from("poems"));
        books
            .tool(Tool::new("shelf", "Names the shelf", shelf))
            .prompt(Prompt::new("shelf", "Names it", shelf))
    };
    for revision in Revision::BOTH {
        let server = server()?;
        let mut heard = listener(&server, revision).await?;
        let mut client = connect(&server, revision).await?;
        server.update(|items| items.mount("books", books()))?;
        assert_eq!(client.call("books_shelf", json!({})).await?.text(), "poems");
        assert!(server.update(|items| items.mount("books", books())).is_err(), "the prefix is used");
        assert!(server.update(|items| items.unmount("books"))?);
        assert!(!server.update(|items| items.unmount("books"))?);
        assert_eq!(list(&mut client, "tools/list", "name").await?, ["tool", "ask"]);
        for method in ["tools", "prompts", "tools", "prompts"] {
            let told = heard.notification().await?;
            assert_eq!(told["method"], format!("notifications/{method}/list_changed"));
        }
    }
    Ok(())
}

#[cfg(feature = "http")]
#[tokio::test(flavor = "multi_thread")]
async fn clients_of_all_replicas_are_notified_of_an_update() -> Result<()> {
    use crate::{
        replicas::{
            changes::subscribe,
            fleet::{Fleet, text},
        },
        replicas_memory::memory,
    };

    let fleet = Fleet::start(&memory()).await?;
    let client = fleet.client().await?;
    let mut session = client.get(2, None).await?;
    let mut listens = subscribe(&fleet, 1).await?;
    for (updated, replica) in fleet.servers.iter().enumerate() {
        replica.update(|items| items.add_tool(Tool::new("late", "Is new", new)))?;
        for stream in [&mut session, &mut listens] {
            let told = stream.message().await?;
            assert_eq!(told.message["method"], "notifications/tools/list_changed");
        }
        // An update changes the replica on which it is made, and no other.
        for at in 0..fleet.servers.len() {
            let (_, mut stream) = client.call(at, "late", json!({})).await?;
            let answer = stream.message().await?;
            if at <= updated {
                assert_eq!(text(&answer), "new");
            } else {
                assert_eq!(answer.message["error"]["message"], "there is no tool `late`");
            }
        }
    }
    Ok(())
}

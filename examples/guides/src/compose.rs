//! The code of `docs/guides/compose.md`.

// ANCHOR: notes
use antiphon::{ServerBuilder, prelude::*};

/// A server that can also be a part of a larger one.
pub(crate) fn notes() -> ServerBuilder {
    Server::builder("notes", "1.0.0")
        .with_state(Notes(vec!["buy milk".into(), "call Ada".into()]))
        .with_instructions("Search before you write.")
        .tool(Tool::new("search", "Searches the notes", search))
}

#[derive(Clone)]
struct Notes(Vec<String>);

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// The word to search for.
    word: String,
}

async fn search(_: &Ctx, State(Notes(notes)): State<Notes>, Search { word }: Search) -> Result<String> {
    let found = notes.into_iter().filter(|note| note.contains(&word));
    Ok(found.collect::<Vec<_>>().join("\n"))
}
// ANCHOR_END: notes

async fn now(_: &Ctx, _: ()) -> Result<String> {
    Ok("noon".into())
}

// ANCHOR: mount
fn office() -> ServerBuilder {
    Server::builder("office", "1.0.0")
        .tool(Tool::new("now", "Returns the time", now))
        .mount("private", notes())
        .mount("team", notes())
}
// ANCHOR_END: mount

// ANCHOR: update
/// Replaces the tool `now`, and adds the notes of a new team.
fn reorganize(server: &Server) -> Result<(), antiphon::BuildError> {
    server.update(|items| {
        items.remove_tool("now");
        items.add_tool(Tool::new("time", "Returns the time", now));
        items.unmount("team");
        items.mount("press", notes_without_instructions());
    })
}
// ANCHOR_END: update

fn notes_without_instructions() -> ServerBuilder {
    let state = Notes(vec!["write to Ada".into()]);
    Server::builder("notes", "1.0.0").with_state(state).tool(Tool::new("search", "Searches", search))
}

// ANCHOR: layer
use std::time::Instant;

use antiphon::middleware::{self, ErrorData, Next, Params, Request, Response};

/// Logs the method and the duration of each request.
async fn log(request: Request, next: Next) -> Result<Response, ErrorData> {
    let (method, caller) = (request.method().to_owned(), request.principal().map(str::to_owned));
    let begun = Instant::now();
    let response = next.run(request).await;
    tracing::info!(method, caller, elapsed = ?begun.elapsed(), is_ok = response.is_ok(), "request");
    response
}

#[derive(Clone)]
struct Tenant(String);

/// Finds the tenant of a call, and rejects calls without one.
async fn tenant(mut request: Request, next: Next) -> Result<Response, ErrorData> {
    if matches!(request.params(), Params::CallTool(_)) {
        let tenant = request.headers().and_then(|headers| headers.get("x-tenant")?.to_str().ok());
        let Some(tenant) = tenant.map(str::to_owned) else {
            return Err(ErrorData::invalid_request("the header `X-Tenant` is missing", None));
        };
        request.extensions_mut().insert(Tenant(tenant));
    }
    next.run(request).await
}

async fn whose(ctx: &Ctx, _: ()) -> Result<String> {
    let Tenant(tenant) = ctx.extension().ok_or_else(|| Error::tool("the call has no tenant"))?;
    Ok(format!("this is {tenant}'s"))
}

fn guarded() -> ServerBuilder {
    Server::builder("guarded", "1.0.0")
        .tool(Tool::new("whose", "Says whose server this is", whose))
        // The first layer is the outermost one: it receives a request first, and the response last.
        .layer(middleware::from_fn(log))
        .layer(middleware::from_fn(tenant))
}
// ANCHOR_END: layer

// ANCHOR: change
use antiphon::{middleware::CallToolResponse, model::ContentBlock};

/// Sets an argument of one tool, and adds a line to its result.
async fn change(mut request: Request, next: Next) -> Result<Response, ErrorData> {
    let Params::CallTool(call) = request.params_mut() else { return next.run(request).await };
    if call.name != "private_search" {
        return next.run(request).await;
    }
    call.arguments.get_or_insert_default().insert("word".into(), "milk".into());
    let mut response = next.run(request).await?;
    // A call that asks a question has no result yet.
    if let Response::CallTool(CallToolResponse::Complete(result)) = &mut response {
        result.content.push(ContentBlock::text("Only notes about milk are shown."));
    }
    Ok(response)
}
// ANCHOR_END: change

#[cfg(test)]
mod tests {
    use antiphon::testing::{Client, Revision};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn mounted_servers_are_updated_and_layered() -> Result<()> {
        for revision in Revision::BOTH {
            let server = office().layer(middleware::from_fn(change)).build()?;
            let mut client = Client::connect(&server, revision).await?;
            let talk = client.call("team_search", json!({"word": "Ada"})).await?;
            assert_eq!(talk.text(), "call Ada");
            let talk = client.call("private_search", json!({"word": "Ada"})).await?;
            assert_eq!(talk.text(), "buy milk\nOnly notes about milk are shown.");
            reorganize(&server)?;
            let talk = client.call("press_search", json!({"word": "Ada"})).await?;
            assert_eq!(talk.text(), "write to Ada");
            assert!(client.call("team_search", json!({"word": "Ada"})).await.is_err());
        }
        Ok(())
    }

    #[tokio::test]
    async fn call_without_a_tenant_is_rejected() -> Result<()> {
        let server = guarded().build()?;
        let mut client = Client::connect(&server, Revision::V2026_07_28).await?;
        let error = client.call("whose", json!({})).await.unwrap_err();
        assert!(error.to_string().contains("X-Tenant"), "{error}");
        Ok(())
    }
}

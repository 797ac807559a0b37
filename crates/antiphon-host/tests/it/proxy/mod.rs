//! Another server behind an Antiphon server.

mod connections;
mod limits;
mod matrix;
mod privacy;
mod replicas;
mod server;

use std::time::Duration;

use antiphon::{Server, http::HttpConfig, prelude::*};
use antiphon_host::{
    Endpoint, Form, Host, HostBuilder, Lifecycle, Proxy, ProxyConfig, Shown, model::CallToolResult,
};
use antiphon_llm::{Reply, Request, Scripted};
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::endpoint;

/// The server in front of `behind`.
async fn front(behind: &Endpoint, config: ProxyConfig) -> Server {
    let proxy = Proxy::connect_with(behind.clone(), config).await.unwrap();
    proxy.add_to(Server::builder("front", "1.0.0")).await.unwrap().build().unwrap()
}

fn config(behind: Lifecycle) -> ProxyConfig {
    ProxyConfig::default().with_lifecycle(behind)
}

/// A host whose user is called `name`, opens every page, and has a model that says `four`.
fn user(name: &str, lifecycle: Lifecycle) -> HostBuilder {
    let name = name.to_owned();
    Host::builder("client", "1")
        .with_lifecycle(lifecycle)
        .with_model(Scripted::new().otherwise(|_: &Request| Ok(Reply::new("m", "four"))))
        .with_forms(move |_: Form| std::future::ready(Shown::Accept(json!({"name": name}))))
        .with_pages(|_| std::future::ready(true))
}

/// Waits until `done` returns true.
async fn until(done: impl Fn() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it takes too long");
}

/// Serves over HTTP, and returns the URL.
async fn listen(server: Server) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        server.serve_listener(listener, HttpConfig::default(), std::future::pending()).await
    });
    url
}

fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

const BOTH: [Lifecycle; 2] = [Lifecycle::Legacy, Lifecycle::Modern];

/// Every combination of revisions: in front, and behind.
fn revisions() -> impl Iterator<Item = (Lifecycle, Lifecycle)> {
    BOTH.into_iter().flat_map(|front| BOTH.map(|behind| (front, behind)))
}

#[tokio::test]
async fn definitions_pass_unchanged_and_names_get_the_prefix() {
    for (lifecycle, behind) in revisions() {
        let (server, _) = server::server();
        let front = front(&endpoint(&server), config(behind).with_prefix("far_")).await;
        let connection = user("Ada", lifecycle).build().connect(endpoint(&front)).await.unwrap();
        let direct = user("Ada", lifecycle).build().connect(endpoint(&server)).await.unwrap();
        let (tools, own) = (connection.tools().await.unwrap(), direct.tools().await.unwrap());
        assert_eq!(tools.len(), own.len());
        for (tool, own) in tools.into_iter().zip(own) {
            assert_eq!(tool.name, format!("far_{}", own.name));
            assert_eq!(
                (&tool.title, &tool.description, &tool.annotations, &tool.icons),
                (&own.title, &own.description, &own.annotations, &own.icons)
            );
            assert_eq!((&tool.input_schema, &tool.output_schema), (&own.input_schema, &own.output_schema));
            let kind = |tool: &antiphon_host::model::Tool| {
                tool.meta.as_ref().and_then(|meta| meta.get("example.com/kind").cloned())
            };
            assert_eq!(kind(&tool), kind(&own));
        }
        let prompts = connection.prompts().await.unwrap();
        assert_eq!(prompts[0].name, "far_hello");
        let arguments = prompts[0].arguments.as_ref().unwrap();
        assert_eq!((arguments[0].name.as_str(), arguments[0].required), ("name", Some(true)));
    }
}

#[tokio::test]
async fn prompts_resources_templates_and_links_are_forwarded() {
    for (lifecycle, behind) in revisions() {
        let (server, _) = server::server();
        let front = front(&endpoint(&server), config(behind)).await;
        let connection = user("Ada", lifecycle).build().connect(endpoint(&front)).await.unwrap();
        let prompt = connection.prompt("hello", json!({"name": "Ada"})).await.unwrap();
        assert_eq!(serde_json::to_value(&prompt.messages[0].content).unwrap()["text"], "Hello, Ada");
        let read = async |uri: &str| serde_json::to_value(connection.read(uri).await.unwrap()).unwrap();
        let one = read("text://one").await;
        assert_eq!(
            (&one["contents"][0]["text"], &one["contents"][0]["mimeType"]),
            (&json!("the text"), &json!("text/plain"))
        );
        let linked = read("rows://set/all%20rows/1").await;
        assert_eq!(linked["contents"][0]["text"], "the rows of all rows");
        let missing = connection.read("text://two").await.unwrap_err();
        assert!(matches!(missing.code(), Some(-32002 | -32602)), "{missing}");
    }
}

#[tokio::test]
async fn a_link_that_no_list_has_is_forwarded_if_its_prefix_is_configured() {
    // The resource is not listed, and its template has no fixed scheme.
    let hidden = antiphon::Resource::new("hidden://1", "one", async |_: &Ctx, _: ()| -> Result<String> {
        Ok("found".into())
    });
    let all = antiphon::ResourceTemplate::new(
        "{name}",
        "all",
        async |_: &Ctx, _: server::Name| -> Result<String> { Ok("taken over".into()) },
    );
    let behind =
        Server::builder("behind", "1").resource(hidden.unlisted()).resource_template(all).build().unwrap();
    for (lifecycle, revision) in revisions() {
        let closed = front(&endpoint(&behind), config(revision)).await;
        let connection = user("Ada", lifecycle).build().connect(endpoint(&closed)).await.unwrap();
        assert!(connection.read("hidden://1").await.is_err());
        assert!(connection.read("anything").await.is_err(), "a template without a scheme matches nothing");
        let open = front(&endpoint(&behind), config(revision).with_uris("hidden://")).await;
        let connection = user("Ada", lifecycle).build().connect(endpoint(&open)).await.unwrap();
        let read = serde_json::to_value(connection.read("hidden://1").await.unwrap()).unwrap();
        assert_eq!(read["contents"][0]["text"], "found");
    }
}

#[tokio::test]
async fn a_proxied_server_cannot_take_over_a_name() {
    let (server, _) = server::server();
    let proxy = Proxy::connect(endpoint(&server)).await.unwrap();
    let own = async |_: &Ctx, _: ()| -> Result<String> { Ok("mine".into()) };
    let builder = || Server::builder("front", "1.0.0").tool(Tool::new("greet", "Greets", own));
    let error = proxy.add_to(builder()).await.unwrap().build().unwrap_err();
    assert!(error.to_string().contains("tool `greet` is defined twice"), "{error}");
    let prefixed =
        Proxy::connect_with(endpoint(&server), ProxyConfig::default().with_prefix("far_")).await.unwrap();
    assert!(prefixed.add_to(builder()).await.unwrap().build().is_ok());
}

#[tokio::test]
async fn a_tool_can_call_a_proxied_tool() {
    async fn twice(ctx: &Ctx, State(proxy): State<Proxy>, _: ()) -> Result<String> {
        let one = proxy.call(ctx, "greet", json!({})).await?;
        let two = proxy.call(ctx, "interview", json!({})).await?;
        let text = |output: &antiphon::ToolOutput| output.content[0].as_text().map(|text| text.text.clone());
        Ok(format!("{} {}", text(&one).unwrap_or_default(), text(&two).unwrap_or_default()))
    }
    for (lifecycle, behind) in revisions() {
        let (server, seen) = server::server();
        let proxy = Proxy::connect_with(endpoint(&server), config(behind)).await.unwrap();
        let front = Server::builder("front", "1.0.0").with_state(proxy).tool(Tool::new(
            "twice",
            "Calls twice",
            twice,
        ));
        let connection =
            user("Ada", lifecycle).build().connect(endpoint(&front.build().unwrap())).await.unwrap();
        let result = connection.call("twice", json!({})).await.unwrap();
        assert_eq!(text(&result), "Hello, Ada! Ada Ada Ada four", "{lifecycle:?} {behind:?}");
        assert_eq!(seen.greetings.load(std::sync::atomic::Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn questions_of_concurrent_callers_do_not_cross() {
    for (lifecycle, behind) in revisions() {
        let (server, _) = server::server();
        let front = front(&endpoint(&server), config(behind)).await;
        let calls = (0..12).map(|number| {
            let front = endpoint(&front);
            async move {
                let name = format!("user {number}");
                let connection = user(&name, lifecycle).build().connect(front).await.unwrap();
                let result = connection.call("interview", json!({})).await.unwrap();
                assert_eq!(text(&result), format!("{name} {name} {name} four"), "{lifecycle:?} {behind:?}");
            }
        });
        futures_util::future::join_all(calls).await;
    }
}

#[tokio::test]
async fn errors_and_refusals_keep_their_meaning() {
    for (lifecycle, behind) in revisions() {
        let (server, _) = server::server();
        let front = front(&endpoint(&server), config(behind)).await;
        let connection = user("Ada", lifecycle).build().connect(endpoint(&front)).await.unwrap();
        let failed = connection.call("fail", json!({})).await.unwrap();
        assert_eq!((failed.is_error, text(&failed)), (Some(true), "no luck"));
        let refused = connection.call("refuse", json!({})).await.unwrap_err();
        let antiphon_host::Error::Server { code, message, data } = refused else { panic!("{refused}") };
        assert_eq!((code, message.as_str(), data), (-32050, "not today", Some(json!({"retry": "tomorrow"}))));
        let declining = user("Ada", lifecycle).with_forms(|_: Form| std::future::ready(Shown::Decline));
        let connection = declining.build().connect(endpoint(&front)).await.unwrap();
        assert_eq!(text(&connection.call("greet", json!({})).await.unwrap()), "declined");
    }
}

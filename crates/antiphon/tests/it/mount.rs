//! Servers that are mounted in another server.

use std::time::Duration;

use antiphon::{
    Limits, Prompt, Resource, ResourceTemplate, ServerBuilder,
    elicitation::AskPolicy,
    model::ServerHandler,
    prelude::*,
    prompt::Completion,
    sampling::SamplingPolicy,
    seal::SealConfig,
    store::{Memory, QueueConfig},
    task::TaskPolicy,
    testing::{Answers, Replicas, Revision},
};
use antiphon_llm::Scripted;
use serde_json::{Value, json};

use crate::{
    checked::connect,
    tasks::{accept, answer, begin, client, quick, refused, until},
};

/// The name of a shelf: each mounted server has another one.
#[derive(Clone)]
struct Shelf(&'static str);

/// A value that only the outer server has.
#[derive(Clone)]
struct House(&'static str);

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

async fn shelf(_: &Ctx, State(Shelf(shelf)): State<Shelf>, _: ()) -> Result<String> {
    Ok(shelf.into())
}

async fn house(_: &Ctx, State(House(house)): State<House>, _: ()) -> Result<String> {
    Ok(house.into())
}

async fn ask(ctx: &Ctx, State(Shelf(shelf)): State<Shelf>, _: ()) -> Result<String> {
    ctx.progress(1.0);
    let number: u32 = ctx.step("number", || async { Ok(7) }).await?;
    let word = ctx.elicit::<Word>("Word?").await?.accepted()?.word;
    // A branch has the state of its tool, too.
    let same = ctx.branch("again", async |ctx| Ok(ctx.state::<Shelf>()?.0)).await?;
    Ok(format!("{word} {number} {shelf} {same}"))
}

#[derive(Deserialize, JsonSchema)]
struct Page {
    page: String,
}

async fn page(_: &Ctx, State(Shelf(shelf)): State<Shelf>, Page { page }: Page) -> Result<String> {
    Ok(format!("page {page} of {shelf}"))
}

async fn complete(completion: Completion) -> Result<Vec<String>> {
    Ok(vec![format!("{}1", completion.value)])
}

fn books(name: &'static str) -> ServerBuilder {
    Server::builder(name, "1.0.0")
        .with_state(Shelf(name))
        .tool(Tool::new("shelf", "Names the shelf", shelf))
        .tool(Tool::new("house", "Names the house", house))
        .tool(Tool::new("ask", "Asks for a word", ask))
        .prompt(Prompt::new("page", "Reads a page", page).completes("page", complete))
        .resource(Resource::new(format!("{name}://shelf"), "shelf", shelf))
        .resource_template(ResourceTemplate::new(format!("{name}://pages/{{page}}"), "pages", page))
}

fn library() -> ServerBuilder {
    Server::builder("library", "1.0.0")
        .with_state(Shelf("lobby"))
        .with_state(House("main"))
        .tool(Tool::new("shelf", "Names the shelf", shelf))
        .mount("poems", books("poems"))
        .mount("plays", books("plays"))
}

fn names(listed: &Value, list: &str) -> Vec<String> {
    let name = |item: &Value| item["name"].as_str().unwrap().to_owned();
    listed[list].as_array().unwrap().iter().map(name).collect()
}

fn problems(builder: ServerBuilder) -> Vec<String> {
    builder.build().unwrap_err().problems().to_vec()
}

#[tokio::test]
async fn mounted_items_have_prefixed_names_and_the_state_of_their_server() -> Result<()> {
    let server = library().build()?;
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?;
        let listed = client.request("tools/list", json!({})).await?;
        let expected =
            ["shelf", "poems_shelf", "poems_house", "poems_ask", "plays_shelf", "plays_house", "plays_ask"];
        assert_eq!(names(&listed, "tools"), expected);
        for (tool, text) in
            [("shelf", "lobby"), ("poems_shelf", "poems"), ("plays_shelf", "plays"), ("plays_house", "main")]
        {
            assert_eq!(client.call(tool, json!({})).await?.text(), text, "{tool}");
        }
        let error = refused(&mut client, "tools/call", json!({"name": "ask", "arguments": {}})).await;
        assert_eq!(error.message, "there is no tool `ask`");

        let listed = client.request("prompts/list", json!({})).await?;
        assert_eq!(names(&listed, "prompts"), ["poems_page", "plays_page"]);
        let prompt = json!({"name": "plays_page", "arguments": {"page": "3"}});
        let prompt = client.request("prompts/get", prompt).await?;
        assert_eq!(prompt["messages"][0]["content"]["text"], "page 3 of plays");
        let complete = json!({
            "ref": {"type": "ref/prompt", "name": "plays_page"},
            "argument": {"name": "page", "value": "4"},
        });
        let completed = client.request("completion/complete", complete).await?;
        assert_eq!(completed["completion"]["values"], json!(["41"]));

        for (uri, text) in [("poems://shelf", "poems"), ("plays://pages/9", "page 9 of plays")] {
            let read = client.request("resources/read", json!({"uri": uri})).await?;
            assert_eq!(read["contents"][0]["text"], text);
        }
    }
    Ok(())
}

#[tokio::test]
async fn nested_mounts_have_both_prefixes_and_the_nearest_state() -> Result<()> {
    let wing = Server::builder("wing", "1.0.0").with_state(House("wing")).mount("poems", books("poems"));
    let server = Server::builder("city", "1.0.0")
        .with_state(House("city"))
        .with_state(Shelf("city"))
        .mount("west", wing)
        .build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    assert_eq!(client.call("west_poems_shelf", json!({})).await?.text(), "poems");
    assert_eq!(client.call("west_poems_house", json!({})).await?.text(), "wing");
    Ok(())
}

#[tokio::test]
async fn mounted_tool_asks_on_both_revisions_and_across_replicas() -> Result<()> {
    let answers = || Answers::new().accept("word", json!({"word": "owl"}));
    for revision in Revision::BOTH {
        let mut client = connect(&library().build()?, revision).await?.answering(answers());
        client.set_meta(json!({"progressToken": "p"}));
        let talk = client.call("plays_ask", json!({})).await?;
        assert_eq!(talk.text(), "owl 7 plays plays");
        assert_eq!(talk.keys(), ["word"]);
        assert!(talk.notifications.iter().any(|note| note["method"] == "notifications/progress"));
    }
    let report = Replicas::new(library).run("poems_ask", json!({}), answers).await?;
    assert_eq!(report.result["content"][0]["text"], "owl 7 poems poems");
    Ok(())
}

#[tokio::test]
async fn groups_of_mounted_servers_are_separate() -> Result<()> {
    async fn unlock(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.enable_group("admin").await?;
        // A branch has the groups of its tool, too.
        ctx.branch("again", async |ctx| ctx.enable_group("reports").await).await?;
        Ok("unlocked".into())
    }
    async fn lock(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.disable_group("west/poems/admin").await?;
        Ok("locked".into())
    }
    async fn done(_: &Ctx, _: ()) -> Result<String> {
        Ok("done".into())
    }
    let shelf = |name: &'static str| {
        Server::builder(name, "1.0.0")
            .tool(Tool::new("unlock", "Shows the tools", unlock))
            .tool(Tool::new("erase", "Erases", done).in_group("admin"))
            .tool(Tool::new("report", "Reports", done).in_group("reports"))
    };
    let wing = Server::builder("wing", "1.0.0").mount("poems", shelf("poems"));
    let server = shelf("outer")
        .tool(Tool::new("lock", "Hides the tools", lock))
        .mount("plays", shelf("plays"))
        .mount("west", wing)
        .build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    let open = ["unlock", "lock", "plays_unlock", "west_poems_unlock"];
    assert_eq!(names(&client.request("tools/list", json!({})).await?, "tools"), open);
    assert_eq!(client.call("west_poems_unlock", json!({})).await?.text(), "unlocked");
    assert_eq!(
        names(&client.request("tools/list", json!({})).await?, "tools"),
        ["unlock", "lock", "plays_unlock", "west_poems_unlock", "west_poems_erase", "west_poems_report"]
    );
    assert_eq!(client.call("west_poems_erase", json!({})).await?.text(), "done");
    for hidden in ["erase", "plays_erase"] {
        let error = refused(&mut client, "tools/call", json!({"name": hidden, "arguments": {}})).await;
        assert_eq!(error.message, format!("there is no tool `{hidden}`"));
    }
    // A tool of the outer server uses the full name.
    assert_eq!(client.call("lock", json!({})).await?.text(), "locked");
    let listed = names(&client.request("tools/list", json!({})).await?, "tools");
    assert_eq!(listed, ["unlock", "lock", "plays_unlock", "west_poems_unlock", "west_poems_report"]);
    Ok(())
}

#[tokio::test]
async fn sealed_state_belongs_to_the_full_name() -> Result<()> {
    let mut client = connect(&library().build()?, Revision::V2026_07_28).await?;
    let asked = client.request("tools/call", json!({"name": "poems_ask", "arguments": {}})).await?;
    let resume = |tool: &str| {
        json!({
            "name": tool,
            "arguments": {},
            "requestState": asked["requestState"],
            "inputResponses": {"word": {"action": "accept", "content": {"word": "owl"}}},
        })
    };
    let error = refused(&mut client, "tools/call", resume("plays_ask")).await;
    assert_eq!(error.message, "Invalid or expired requestState");
    let result = client.request("tools/call", resume("poems_ask")).await?;
    assert_eq!(result["content"][0]["text"], "owl 7 poems poems");
    Ok(())
}

#[tokio::test]
async fn task_of_a_mounted_tool_has_the_full_name() {
    let inner = Server::builder("inner", "1.0.0")
        .with_state(Shelf("inner"))
        .tool(Tool::new("ask", "Asks", ask).with_tasks(TaskPolicy::Always));
    let server = Server::builder("outer", "1.0.0").with_tasks(quick()).mount("inner", inner).build().unwrap();
    let mut client = client(&server).await;
    let id = begin(&mut client, "inner_ask", json!({})).await;
    let task = until(&mut client, &id, "input_required").await;
    let key = task["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let runs = server.runs().unwrap().list(None, None, 10).await.unwrap().runs;
    assert_eq!(runs[0].tool, "inner_ask");
    answer(&mut client, &id, json!({key: accept(json!({"word": "owl"}))})).await;
    let task = until(&mut client, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "owl 7 inner inner");
}

#[tokio::test]
async fn mounted_tool_keeps_its_timeout_and_its_forms() -> Result<()> {
    async fn slow(_: &Ctx, _: ()) -> Result<String> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok("late".to_owned())
    }
    let inner = Server::builder("inner", "1.0.0").tool(
        Tool::new("slow", "Takes a minute", slow).with_timeout(Duration::from_millis(20)).elicits::<Word>(),
    );
    let server = Server::builder("outer", "1.0.0").mount("inner", inner).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let talk = client.call("inner_slow", json!({})).await?;
    assert!(talk.is_error() && talk.text().contains("20ms"), "{}", talk.text());
    let listed = client.request("tools/list", json!({})).await?;
    assert!(listed["tools"][0]["_meta"]["antiphon/elicits"]["word"].is_object(), "{listed}");
    Ok(())
}

#[tokio::test]
async fn tools_that_the_server_adds_belong_to_the_outer_server() -> Result<()> {
    let server = Server::builder("outer", "1.0.0")
        .with_asking(AskPolicy::default())
        .with_state(House("outer"))
        .mount("poems", books("poems"))
        .build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    let listed = names(&client.request("tools/list", json!({})).await?, "tools");
    let added: Vec<_> = listed.iter().filter(|name| name.contains("task_")).collect();
    assert!(added.iter().any(|name| *name == "task_result"), "{listed:?}");
    assert!(added.iter().all(|name| name.starts_with("task_")), "{listed:?}");
    // A mounted name can collide with a tool that the server adds.
    let tasks = Server::builder("tasks", "1.0.0").with_state(Shelf("tasks")).tool(Tool::new(
        "result",
        "Names the shelf",
        shelf,
    ));
    let outer = Server::builder("outer", "1.0.0").with_asking(AskPolicy::default()).mount("task", tasks);
    assert_eq!(
        problems(outer),
        [
            "tool `task_result` is defined twice: in the mounted server `task` and in the server itself; use distinct names"
        ]
    );
    Ok(())
}

#[tokio::test]
async fn instructions_of_mounted_servers_are_added_with_their_prefix() -> Result<()> {
    let inner = books("inner").with_instructions("Read slowly.");
    let wing = Server::builder("wing", "1.0.0").mount("inner", inner).with_instructions("Be quiet.");
    let server = Server::builder("outer", "1.0.0")
        .mount("wing", wing)
        .with_state(House("outer"))
        .with_instructions("Come in.")
        .build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let discovered = client.request("server/discover", json!({})).await?;
    assert_eq!(
        discovered["instructions"],
        "Come in.\n\nFor tools named `wing_…`: Be quiet.\n\nFor tools named `wing_inner_…`: Read slowly."
    );
    Ok(())
}

#[tokio::test]
async fn settings_that_a_mounted_server_cannot_keep_are_refused() {
    #[derive(Clone)]
    struct Plain;
    impl ServerHandler for Plain {}
    let inner = Server::builder("inner", "1.0.0")
        .with_limits(Limits::default())
        .with_seal(SealConfig::default())
        .with_sampling(SamplingPolicy::ClientOnly)
        .with_tasks(quick())
        .with_asking(AskPolicy::default())
        .with_replica("a")
        .with_traces(true)
        .with_drain(Duration::ZERO)
        .with_principal(|_| None)
        .with_backend(Memory::default().backend(QueueConfig::default()))
        .with_model(Scripted::new().say("a word"))
        .handler(Plain);
    #[cfg(feature = "auth")]
    let inner = {
        use antiphon::auth::{ApiKey, Auth};
        let auth = Auth::builder("https://example.com/mcp");
        inner.with_auth(auth.with_api_keys([ApiKey::new("ci", &"k".repeat(32))]).build().unwrap())
    };
    #[cfg(feature = "telemetry")]
    let inner = inner.with_telemetry(antiphon::telemetry::Telemetry::global());
    #[cfg(feature = "results")]
    let inner = {
        use antiphon::results::ResultTools;
        use antiphon_results::{DualResponseServer, DualResponseServerOptions};
        let options = DualResponseServerOptions::new("https://example.com/resources");
        inner.with_results(DualResponseServer::new(options).unwrap()).with_result_tools(ResultTools::new())
    };
    let said = problems(Server::builder("outer", "1.0.0").mount("inner", inner));
    let setting = |line: &String| {
        let line = line.strip_prefix("mounted server `inner`: `ServerBuilder::").unwrap();
        line.split_once("` has no effect on a mounted server; ").unwrap().0.to_owned()
    };
    let mut expected = vec![
        "handler",
        "with_asking",
        "with_backend",
        "with_drain",
        "with_limits",
        "with_model",
        "with_principal",
        "with_replica",
        "with_sampling",
        "with_seal",
        "with_tasks",
        "with_traces",
    ];
    expected.extend(cfg!(feature = "auth").then_some("with_auth"));
    expected.extend(cfg!(feature = "telemetry").then_some("with_telemetry"));
    if cfg!(feature = "results") {
        expected.extend(["with_result_tools", "with_results"]);
    }
    expected.sort_unstable();
    assert_eq!(said.iter().map(setting).collect::<Vec<_>>(), expected, "{said:?}");
}

#[tokio::test]
async fn servers_whose_items_collide_are_not_built() {
    let plain = |name: &'static str| Server::builder(name, "1.0.0").with_state(Shelf(name));
    let tool = |name: &'static str| Tool::new(name, "Names the shelf", shelf);
    let outer = || plain("outer");

    let one = plain("one").tool(tool("b_c"));
    let other = plain("other").tool(tool("c"));
    assert_eq!(
        problems(outer().mount("a", one).mount("a_b", other)),
        [
            "tool `a_b_c` is defined twice: in the mounted server `a` and in the mounted server `a_b`; use distinct names"
        ]
    );
    let note = || Resource::new("notes://all", "notes", shelf);
    let wing = plain("wing").mount("inner", plain("inner").resource(note()));
    assert_eq!(
        problems(outer().resource(note()).mount("wing", wing)),
        [
            "resource `notes://all` is defined twice: in the server itself and in the mounted server `wing/inner`; use distinct names"
        ]
    );
    let pages = || ResourceTemplate::new("notes://{page}", "pages", page);
    assert_eq!(
        problems(outer().mount("a", plain("a").resource_template(pages())).resource(note())),
        [
            "the resource `notes://all` matches the resource template `notes://{page}`: in the server itself and in the mounted server `a`; use distinct URIs"
        ]
    );
    let same = ResourceTemplate::new("notes://{name}", "names", page);
    assert_eq!(
        problems(outer().resource_template(same).mount("a", plain("a").resource_template(pages()))),
        [
            "the resource templates `notes://{name}` and `notes://{page}` match the same URIs: in the server itself and in the mounted server `a`; use distinct URIs"
        ]
    );
    // In one server, a resource can be an exception from a template.
    let exception = plain("a").resource_template(pages()).resource(note());
    assert!(outer().mount("a", exception).build().is_ok());
    assert_eq!(
        problems(outer().mount("a", plain("a").tool(tool("x"))).mount("a", plain("b").tool(tool("y")))),
        ["two servers are mounted as `a`; use distinct prefixes"]
    );
}

#[tokio::test]
async fn mounted_server_with_problems_is_not_built() {
    let outer = || Server::builder("outer", "1.0.0");
    assert_eq!(
        problems(outer().mount("a b", Server::builder("inner", "1.0.0"))),
        ["the mount prefix `a b` is not valid; use 1 to 128 letters, digits, `_`, `-` or `.`"]
    );
    assert_eq!(problems(outer().mount("", Server::builder("inner", "1.0.0"))).len(), 1);
    let long = "x".repeat(128);
    let inner =
        Server::builder("inner", "1.0.0").with_state(Shelf("a")).tool(Tool::new(&long, "Long", shelf));
    assert_eq!(
        problems(outer().mount("a", inner)),
        [format!("tool `a_{long}`: its name must be 1 to 128 letters, digits, `_`, `-` or `.`")]
    );
    let inner = Server::builder("inner", "1.0.0").tool(Tool::new("empty", " ", house));
    let said = problems(outer().with_state(House("outer")).mount("a", inner));
    assert!(said[0].starts_with("mounted server `a`: tool `empty`: its description is empty"), "{said:?}");
    let inner = Server::builder("inner", "1.0.0").tool(Tool::new("house", "Names the house", house));
    let said = problems(outer().mount("a", inner));
    assert!(said[0].starts_with("tool `a_house` takes `State<"), "{said:?}");
}

#[cfg(feature = "http")]
#[tokio::test]
async fn mounted_tools_are_served_over_http() -> Result<()> {
    use antiphon::http::HttpConfig;
    use tower::ServiceExt as _;

    use crate::{
        http::{messages, post},
        replicas::fleet::{Fleet, text},
    };

    let server = library().build()?;
    let call = json!({"name": "poems_shelf", "arguments": {}});
    let app = server.router(HttpConfig::default());
    let answer = app.oneshot(post(Revision::V2026_07_28, "tools/call", call)).await?;
    assert_eq!(messages(answer).await?[0]["result"]["content"][0]["text"], "poems");

    let mut fleet = Fleet::empty();
    fleet.add(server, HttpConfig::default()).await?;
    let client = fleet.client().await?;
    let (_, mut stream) = client.call(0, "plays_ask", json!({})).await?;
    let question = loop {
        let event = stream.message().await?;
        if event.message["method"] == "elicitation/create" {
            break event;
        }
    };
    client.answer(0, &question, json!({"action": "accept", "content": {"word": "owl"}})).await?;
    assert_eq!(text(&stream.message().await?), "owl 7 plays plays");
    Ok(())
}

//! How a function becomes a tool, and what becomes of its arguments and its result.

use antiphon::{
    Prompt, Resource, ResourceTemplate, ToolOutput,
    model::{ContentBlock, Icon, ResourceContents, ResourceLink, ToolAnnotations},
    prelude::*,
    testing::{Answers, Failed, Revision},
};
use serde_json::{Map, Value, json};

use crate::checked::connect;

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// What to look for.
    query: String,
    /// How many results at the most.
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    filter: Option<Filter>,
}

#[derive(Deserialize, JsonSchema)]
struct Filter {
    year: u16,
}

async fn search(_: &Ctx, args: Search) -> Result<String> {
    Ok(format!("{} {:?} {:?}", args.query, args.limit, args.filter.map(|filter| filter.year)))
}

fn searching() -> Tool {
    Tool::new("search", "Looks for things", search)
}

async fn nothing(_: &Ctx, _: ()) -> Result<()> {
    Ok(())
}

fn serve(tool: Tool) -> Result<Server> {
    Ok(Server::builder("tools", "1.0.0").tool(tool).build()?)
}

async fn listed(tool: Tool) -> Result<Value> {
    let mut client = connect(&serve(tool)?, Revision::V2025_11_25).await?;
    Ok(client.request("tools/list", json!({})).await?["tools"][0].clone())
}

#[tokio::test]
async fn a_tool_is_listed_with_its_schema() -> Result<()> {
    let tool = listed(searching()).await?;
    assert_eq!(tool["name"], "search");
    assert_eq!(tool["description"], "Looks for things");
    let schema = &tool["inputSchema"];
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["required"], json!(["query"]));
    assert_eq!(schema["properties"]["query"], json!({"type": "string", "description": "What to look for."}));
    let text = tool.to_string();
    assert!(
        !text.contains("input_schema") && !text.contains("\"title\":null") && !text.contains("annotations")
    );
    Ok(())
}

#[tokio::test]
async fn title_annotations_icons_and_meta_are_listed_when_set_and_left_out_when_not() -> Result<()> {
    let annotations = ToolAnnotations::with_title("Search")
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    let tool = searching()
        .with_title("Search")
        .with_annotations(annotations)
        .with_icons([Icon::new("https://example.com/i.png")])
        .with_meta("team", "a");
    let tool = listed(tool).await?;
    assert_eq!(tool["title"], "Search");
    assert_eq!(
        tool["annotations"],
        json!({"title": "Search", "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false})
    );
    assert_eq!(tool["icons"][0]["src"], "https://example.com/i.png");
    assert_eq!(tool["_meta"], json!({"team": "a"}));
    let plain = listed(searching()).await?;
    for unset in ["title", "annotations", "icons", "_meta", "outputSchema"] {
        assert_eq!(plain.get(unset), None, "{unset}");
    }
    let some = listed(searching().with_annotations(ToolAnnotations::new().read_only(true))).await?;
    assert_eq!(some["annotations"], json!({"readOnlyHint": true}));
    Ok(())
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_by_the_fields_name() -> Result<()> {
    let cases = [
        (json!({}), r#"invalid arguments: "query" is a required property"#),
        (json!({"query": 5}), r#"invalid arguments: query: 5 is not of type "string""#),
        (json!({"query": "x", "limit": 0}), "invalid arguments: limit: 0 is less than the minimum of 1"),
        (json!({"query": "x", "filter": {"year": "old"}}), r#"filter.year: "old" is not of type "integer""#),
    ];
    for revision in Revision::BOTH {
        let mut client = connect(&serve(searching())?, revision).await?;
        for (arguments, message) in &cases {
            let talk = client.call("search", arguments.clone()).await?;
            assert!(talk.is_error(), "{arguments}");
            assert!(talk.text().contains(message), "{}", talk.text());
        }
        assert_eq!(client.call("search", json!({"query": "x", "limit": 2})).await?.text(), "x Some(2) None");
    }
    Ok(())
}

#[tokio::test]
async fn arguments_are_called_arguments_and_nothing_else() -> Result<()> {
    let mut client = connect(&serve(searching())?, Revision::V2025_11_25).await?;
    let reply = client.request("tools/call", json!({"name": "search", "input": {"query": "x"}})).await?;
    assert_eq!(reply["isError"], true, "`input` is not looked at: {reply}");
    Ok(())
}

#[tokio::test]
async fn arguments_nested_too_deep_are_refused() -> Result<()> {
    async fn any(_: &Ctx, arguments: Map<String, Value>) -> Result<String> {
        Ok(arguments.len().to_string())
    }
    let tool = Tool::raw("any", "Takes anything", json!({"type": "object"}), any);
    let mut client = connect(&serve(tool)?, Revision::V2026_07_28).await?;
    let nest = |depth: usize| (0..depth).fold(json!(1), |value, _| json!([value]));
    assert_eq!(client.call("any", json!({"a": nest(63)})).await?.text(), "1");
    let talk = client.call("any", json!({"a": nest(64)})).await?;
    assert!(talk.is_error());
    assert_eq!(talk.text(), "invalid arguments: the arguments are nested deeper than 64 levels");
    Ok(())
}

#[tokio::test]
async fn a_schema_written_by_hand_is_served_as_it_is_and_checked() -> Result<()> {
    async fn echo(_: &Ctx, arguments: Map<String, Value>) -> Result<String> {
        Ok(Value::Object(arguments).to_string())
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "a", "type": "object", "properties": {"city": {"type": "string"}}}},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
        "additionalProperties": false,
    });
    let tool = || Tool::raw("raw", "Takes what it says", schema.clone(), echo);
    assert_eq!(listed(tool()).await?["inputSchema"], schema);
    let mut client = connect(&serve(tool())?, Revision::V2026_07_28).await?;
    assert_eq!(client.call("raw", json!({"name": "a"})).await?.text(), r#"{"name":"a"}"#);
    assert!(client.call("raw", json!({})).await?.is_error());
    assert!(client.call("raw", json!({"name": "a", "age": 1})).await?.is_error());
    Ok(())
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    celsius: f64,
}

async fn weather(_: &Ctx, _: ()) -> Result<Json<Weather>> {
    Ok(Json(Weather { celsius: 21.5 }))
}

#[tokio::test]
async fn data_with_a_schema_is_structured_content_and_text() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&serve(Tool::new("weather", "Looks outside", weather))?, revision).await?;
        let tool = client.request("tools/list", json!({})).await?["tools"][0].clone();
        assert_eq!(tool["outputSchema"]["properties"]["celsius"]["type"], "number");
        let talk = client.call("weather", json!({})).await?;
        assert_eq!(talk.result["structuredContent"], json!({"celsius": 21.5}));
        assert_eq!(talk.text(), r#"{"celsius":21.5}"#);
        assert_eq!(talk.result["isError"], false, "it is always said");
    }
    Ok(())
}

#[tokio::test]
async fn a_list_is_structured_content_where_the_revision_allows() -> Result<()> {
    async fn list(_: &Ctx, _: ()) -> Result<Json<Vec<u32>>> {
        Ok(Json(vec![1, 2]))
    }
    let server = serve(Tool::new("list", "Lists", list))?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    assert_eq!(client.call("list", json!({})).await?.result["structuredContent"], json!([1, 2]));
    assert_eq!(client.request("tools/list", json!({})).await?["tools"][0]["outputSchema"]["type"], "array");
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    let talk = client.call("list", json!({})).await?;
    assert_eq!((talk.text().as_str(), talk.result.get("structuredContent")), ("[1,2]", None));
    assert_eq!(client.request("tools/list", json!({})).await?["tools"][0].get("outputSchema"), None);
    Ok(())
}

#[tokio::test]
async fn a_result_that_breaks_its_own_schema_is_not_sent() -> Result<()> {
    async fn wrong(_: &Ctx, _: ()) -> Result<ToolOutput> {
        Ok(ToolOutput::default().with_structured(json!({"celsius": "warm"})))
    }
    let schema =
        json!({"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]});
    let mut client =
        connect(&serve(Tool::new("wrong", "Errs", wrong).with_output_schema(schema))?, Revision::V2026_07_28)
            .await?;
    let talk = client.call("wrong", json!({})).await?;
    assert!(talk.is_error());
    assert!(talk.text().contains("does not match its output schema: celsius:"), "{}", talk.text());
    Ok(())
}

async fn blocks(_: &Ctx, _: ()) -> Result<ToolOutput> {
    let link = ResourceLink::new("file:///report.csv", "report")
        .with_title("Report")
        .with_mime_type("text/csv")
        .with_size(12);
    Ok(ToolOutput::text("text")
        .with(ContentBlock::image("aW1n", "image/png"))
        .with(ContentBlock::audio("c25k", "audio/wav"))
        .with(ContentBlock::resource(ResourceContents::text("inside", "test://text")))
        .with(ContentBlock::resource(ResourceContents::blob("YmxvYg==", "test://blob")))
        .with(ContentBlock::resource_link(link))
        .with_meta("team", "a"))
}

#[tokio::test]
async fn every_kind_of_block_reaches_the_client() -> Result<()> {
    for revision in Revision::BOTH {
        let talk = connect(&serve(Tool::new("blocks", "Answers with all", blocks))?, revision)
            .await?
            .call("blocks", json!({}))
            .await?;
        let content = talk.result["content"].as_array().unwrap();
        let kinds: Vec<_> = content.iter().map(|block| block["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["text", "image", "audio", "resource", "resource", "resource_link"]);
        assert_eq!(content[3]["resource"]["text"], "inside");
        assert_eq!(content[4]["resource"]["blob"], "YmxvYg==");
        assert_eq!(
            content[5],
            json!({"type": "resource_link", "uri": "file:///report.csv", "name": "report", "title": "Report", "mimeType": "text/csv", "size": 12})
        );
        assert_eq!(talk.result["_meta"]["team"], "a");
    }
    Ok(())
}

#[tokio::test]
async fn a_tools_error_is_an_answer_with_its_causes() -> Result<()> {
    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);
    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the amount cannot be read")
        }
    }
    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    async fn fails(_: &Ctx, _: ()) -> Result<String> {
        let amount: u32 = "much".parse().map_err(Outer)?;
        Ok(amount.to_string())
    }
    for revision in Revision::BOTH {
        let talk = connect(&serve(Tool::new("fails", "Fails", fails))?, revision)
            .await?
            .call("fails", json!({}))
            .await?;
        assert!(talk.is_error());
        assert_eq!(talk.text(), "the amount cannot be read: invalid digit found in string");
    }
    Ok(())
}

#[test]
fn a_server_reports_all_that_is_wrong_with_it_at_once() {
    async fn scalar(_: &Ctx, _: String) -> Result<()> {
        Ok(())
    }
    let error = Server::builder("wrong", "1.0.0")
        .tool(searching())
        .tool(searching())
        .tool(Tool::new("silent", "  ", nothing))
        .tool(Tool::new("__schema__", "Reserved", nothing))
        .tool(Tool::new("no spaces", "Named badly", nothing))
        .tool(Tool::new("scalar", "Takes no struct", scalar))
        .tool(Tool::raw(
            "broken",
            "Has a broken schema",
            json!({"type": "object", "properties": {"a": {"type": 5}}}),
            raw,
        ))
        .build()
        .unwrap_err();
    let text = error.to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 7, "{text}");
    assert_eq!(lines[0], "the server cannot be built");
    assert_eq!(lines[1], "  - tool `search` is defined twice; use distinct names");
    assert_eq!(
        lines[2],
        "  - tool `silent`: its description is empty; a model chooses tools by their description"
    );
    assert_eq!(lines[3], "  - tool `__schema__`: `__schema__` is a reserved tool name; rename the tool");
    assert_eq!(lines[4], "  - tool `no spaces`: its name must be 1 to 128 letters, digits, `_`, `-` or `.`");
    assert_eq!(
        lines[5],
        "  - tool `scalar`: its input schema does not have the type `object`; use a struct with named fields"
    );
    assert!(lines[6].starts_with("  - tool `broken`: its input schema is not valid: "), "{}", lines[6]);
}

async fn raw(_: &Ctx, _: Map<String, Value>) -> Result<()> {
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct Topic {
    /// What it is about.
    topic: String,
    #[serde(rename = "tone")]
    _tone: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Audience {
    audience: String,
}

async fn speech(ctx: &Ctx, args: Topic) -> Result<String> {
    let Audience { audience } = ctx.elicit("For whom?").await?.accepted()?;
    Ok(format!("Write a speech about {} for {audience}", args.topic))
}

async fn note(ctx: &Ctx, args: Topic) -> Result<String> {
    if args.topic == "private" {
        ctx.elicit::<Audience>("Who asks?").await?.accepted()?;
    }
    Ok(format!("a note about {}", args.topic))
}

async fn logo(_: &Ctx, _: ()) -> Result<Vec<u8>> {
    Ok(vec![1, 2, 3])
}

fn library() -> Result<Server> {
    Ok(Server::builder("library", "1.0.0")
        .prompt(Prompt::new("speech", "Asks for a speech", speech).completes(
            "topic",
            async |typed: antiphon::prompt::Completion| {
                Ok(["rust", "ruby"]
                    .iter()
                    .filter(|word| word.starts_with(&typed.value))
                    .map(ToString::to_string)
                    .collect())
            },
        ))
        .resource(Resource::new("lib://logo", "logo", logo).with_mime_type("image/png"))
        .resource(Resource::new("lib://hidden", "hidden", logo).unlisted())
        .resource_template(
            ResourceTemplate::new("lib://notes/{topic}", "note", note).with_mime_type("text/plain"),
        )
        .build()?)
}

fn answers() -> Answers {
    Answers::new().accept("audience", json!({"audience": "crabs"}))
}

#[tokio::test]
async fn a_prompt_may_ask_too() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&library()?, revision).await?.answering(answers());
        let prompts = client.request("prompts/list", json!({})).await?;
        // Their order is the fields', where the program keeps the order of maps at all.
        let mut arguments = prompts["prompts"][0]["arguments"].as_array().unwrap().clone();
        arguments.sort_by_key(|argument| argument["name"].to_string());
        assert_eq!(
            json!(arguments),
            json!([{"name": "tone", "required": false}, {"name": "topic", "description": "What it is about.", "required": true}])
        );
        let talk =
            client.converse("prompts/get", json!({"name": "speech", "arguments": {"topic": "rust"}})).await?;
        assert_eq!(talk.result["messages"][0]["content"]["text"], "Write a speech about rust for crabs");
        assert_eq!(talk.keys(), ["audience"]);
    }
    Ok(())
}

#[tokio::test]
async fn a_resource_is_read_by_uri_and_may_ask_too() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&library()?, revision).await?.answering(answers());
        let listed = client.request("resources/list", json!({})).await?;
        assert_eq!(listed["resources"].as_array().map(Vec::len), Some(1), "what is unlisted is not listed");
        let logo = client.request("resources/read", json!({"uri": "lib://logo"})).await?;
        assert_eq!(
            logo["contents"][0],
            json!({"uri": "lib://logo", "mimeType": "image/png", "blob": "AQID"})
        );
        let hidden = client.request("resources/read", json!({"uri": "lib://hidden"})).await?;
        assert_eq!(hidden["contents"][0]["blob"], "AQID", "a link to it works all the same");
        let note = client.converse("resources/read", json!({"uri": "lib://notes/private"})).await?;
        assert_eq!(note.result["contents"][0]["text"], "a note about private");
        assert_eq!(note.keys(), ["audience"]);
        let templates = client.request("resources/templates/list", json!({})).await?;
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "lib://notes/{topic}");
        let missing = client.request("resources/read", json!({"uri": "lib://nowhere"})).await.unwrap_err();
        let missing = missing.source().and_then(|source| source.downcast_ref::<Failed>()).unwrap().clone();
        assert_eq!(missing.code, if revision == Revision::V2025_11_25 { -32002 } else { -32602 });
        assert_eq!(missing.data, json!({"uri": "lib://nowhere"}));
    }
    Ok(())
}

#[tokio::test]
async fn what_somebody_types_is_completed() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&library()?, revision).await?;
        let reference = json!({"type": "ref/prompt", "name": "speech"});
        let request = json!({"ref": reference, "argument": {"name": "topic", "value": "ru"}});
        let completion = client.request("completion/complete", request).await?["completion"].clone();
        assert_eq!(completion["values"], json!(["rust", "ruby"]));
        let request = json!({"ref": reference, "argument": {"name": "tone", "value": "s"}});
        let completion = client.request("completion/complete", request).await?["completion"].clone();
        assert_eq!(completion["values"], json!([]));
    }
    Ok(())
}

#[tokio::test]
async fn the_same_tool_runs_in_its_own_program() -> Result<()> {
    async fn whoami(ctx: &Ctx, args: Search) -> Result<ToolOutput> {
        Ok(ToolOutput::text(format!("{} {}", ctx.request_id(), args.query)).with_meta("cost", 3))
    }
    let server = Server::builder("local", "1.0.0")
        .tool(Tool::new("who", "Says who", whoami))
        .tool(Tool::new("ask", "Asks", asks))
        .build()?;
    let call = |name: &str, arguments: Value| {
        antiphon::tool::ToolCall::from_value(json!({"id": "call-7", "name": name, "arguments": arguments}))
            .unwrap()
    };
    let result = server.call_tool(call("who", json!({"query": "x"}))).await;
    assert_eq!(
        serde_json::to_value(&result)?,
        json!({"id": "call-7", "content": [{"type": "text", "text": "call-7 x"}], "isError": false, "metadata": {"cost": 3}})
    );
    let refused = server.call_tool(call("who", json!({}))).await;
    assert!(refused.is_error && refused.id.as_deref() == Some("call-7"));
    let unasked = server.call_tool(call("ask", json!({}))).await;
    assert_eq!(
        unasked.content[0].as_text().unwrap().text,
        "the client has not declared `elicitation`, so it cannot receive this question"
    );
    assert!(server.call_tool(call("nobody", json!({}))).await.is_error);
    Ok(())
}

async fn asks(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.elicit::<Audience>("Who?").await?.accepted()?.audience)
}

/// The functions that can be tools: with other errors, with state, bound to a value.
mod functions {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use std::time::Duration;

    use antiphon::{
        ErrorKind, Limits, State, bind,
        elicitation::UrlElicitation,
        seal::SealConfig,
        task::{RetryPolicy, TaskConfig},
        testing::Replicas,
    };
    use anyhow::Context as _;

    use super::*;

    fn both() -> [Revision; 2] {
        [Revision::V2025_11_25, Revision::V2026_07_28]
    }

    async fn call(tool: Tool, answers: Answers, revision: Revision) -> Result<antiphon::testing::Talk> {
        let name = tool.name().to_owned();
        connect(&serve(tool)?, revision).await?.answering(answers).call(&name, json!({})).await
    }

    #[derive(Deserialize, JsonSchema)]
    struct Sure {
        sure: bool,
    }

    async fn with_anyhow(ctx: &Ctx, _: ()) -> anyhow::Result<String> {
        let Sure { sure } = ctx.elicit("Sure?").await?.accepted()?;
        anyhow::ensure!(sure, "then not");
        let port: u16 = "many".parse().context("the port is not a number")?;
        Ok(port.to_string())
    }

    #[tokio::test]
    async fn tool_returns_anyhow_errors_with_their_context() -> Result<()> {
        for revision in both() {
            let sure = |sure: bool| Answers::new().accept("sure", json!({"sure": sure}));
            let tool = || Tool::new("remove", "Removes it", with_anyhow);
            let talk = call(tool(), sure(true), revision).await?;
            assert!(talk.is_error());
            assert!(talk.text().starts_with("the port is not a number"), "{}", talk.text());
            assert_eq!(call(tool(), sure(false), revision).await?.text(), "then not");
        }
        Ok(())
    }

    #[test]
    fn error_keeps_its_kind_through_other_error_types() {
        let declined = || {
            let answered: Result<(), Error> = Err(Error::url_elicitation_required([UrlElicitation::new(
                "1",
                "https://example.com",
                "Sign in",
            )]));
            answered
        };
        let through_anyhow =
            || -> anyhow::Result<()> { declined().map_err(anyhow::Error::from).context("outside") };
        let through_box = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            declined().map_err(Error::into_boxed)
        };
        let again = |error: Error| matches!(error.kind(), ErrorKind::UrlElicitationRequired(pages) if pages.len() == 1);
        assert!(again(through_anyhow().unwrap_err().into()));
        let kept = Error::from(through_anyhow().unwrap_err());
        assert_eq!(format!("{kept:#}"), "This request requires more information.");
        assert!(again(through_box().unwrap_err().into()));
        // A `main` that returns `Box<dyn Error>`.
        let main = || -> Result<(), Box<dyn std::error::Error>> { Ok(declined()?) };
        assert_eq!(main().unwrap_err().to_string(), "This request requires more information.");
        // Text of the tool's own takes the context, and stays terminal.
        let terminal: anyhow::Result<()> = Err(anyhow::Error::from(Error::tool("no stock").terminal()));
        let error = Error::from(terminal.context("the order failed").unwrap_err());
        assert_eq!((error.to_string().as_str(), error.is_terminal()), ("the order failed", true));
        assert_eq!(format!("{error:#}"), "the order failed: no stock");
        assert!(matches!(error.kind(), ErrorKind::Tool(_)));
    }

    #[test]
    fn question_mark_takes_anyhow_boxed_errors_and_text() {
        fn boxed() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            Err("boxed".into())
        }
        fn tool(which: u8) -> Result<()> {
            match which {
                0 => Err(anyhow::anyhow!("root").context("outside"))?,
                1 => boxed()?,
                2 => Err("text")?,
                _ => Err(std::io::Error::other("disk"))?,
            }
            Ok(())
        }
        let said: Vec<_> = (0..4).map(|which| format!("{:#}", tool(which).unwrap_err())).collect();
        assert_eq!(said, ["outside: root", "boxed", "text", "disk"]);
    }

    #[derive(Debug)]
    struct Mine;

    impl std::fmt::Display for Mine {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("mine")
        }
    }

    impl std::error::Error for Mine {}

    async fn with_mine(_: &Ctx, _: ()) -> Result<String, Mine> {
        Err(Mine)
    }

    #[tokio::test]
    async fn tool_returns_an_error_type_of_its_own() -> Result<()> {
        for revision in both() {
            let talk = call(Tool::new("fail", "Fails", with_mine), Answers::new(), revision).await?;
            assert!(talk.is_error() && talk.text() == "mine", "{}", talk.text());
        }
        Ok(())
    }

    type Count = Arc<AtomicU32>;

    async fn count(_: &Ctx, State(count): State<Count>, _: ()) -> Result<String> {
        Ok(count.fetch_add(1, Ordering::Relaxed).to_string())
    }

    async fn three(
        _: &Ctx,
        State(a): State<u8>,
        State(b): State<u16>,
        State(c): State<u32>,
        args: Filter,
    ) -> Result<String> {
        Ok(format!("{a} {b} {c} {}", args.year))
    }

    #[tokio::test]
    async fn tool_takes_state_as_parameters() -> Result<()> {
        let builder = Server::builder("tools", "1.0.0").with_state(1_u8).with_state(2_u16).with_state(3_u32);
        let server = builder
            .with_state(Count::default())
            .tool(Tool::new("count", "Counts", count))
            .tool(Tool::new("three", "Takes three states", three))
            .build()?;
        for revision in both() {
            let mut client = connect(&server, revision).await?;
            assert_eq!(client.call("three", json!({"year": 4})).await?.text(), "1 2 3 4");
        }
        let mut client = connect(&server, Revision::V2025_11_25).await?;
        assert_eq!(client.call("count", json!({})).await?.text(), "0");
        assert_eq!(client.call("count", json!({})).await?.text(), "1");
        Ok(())
    }

    #[tokio::test]
    async fn server_whose_state_is_missing_is_not_built() {
        let builder = || Server::builder("tools", "1.0.0").with_state(1_u8).with_state(3_u32);
        let error = builder()
            .tool(Tool::new("count", "Counts", count))
            .tool(Tool::new("three", "Takes three states", three))
            .prompt(Prompt::new("count", "Counts", count))
            .resource(Resource::new("count://one", "count", count))
            .build()
            .unwrap_err();
        let said = error.problems();
        assert_eq!(said.len(), 4, "{said:?}");
        let takes = |at: usize, what: &str, state: &str| {
            said[at].starts_with(&format!("{what} takes `State<")) && said[at].contains(state)
        };
        assert!(takes(0, "tool `count`", "AtomicU32>>`"), "{said:?}");
        assert!(takes(1, "tool `three`", "`State<u16>`"), "{said:?}");
        assert!(takes(2, "prompt `count`", "AtomicU32>>`"), "{said:?}");
        assert!(takes(3, "resource `count://one`", "AtomicU32>>`"), "{said:?}");
        // A tool that comes later is held to the same.
        let server = builder().build().unwrap();
        let error = server.add_tool(Tool::new("count", "Counts", count)).unwrap_err();
        assert!(error.problems()[0].contains("tool `count`"), "{error}");
        let error = builder().with_state(2_u8).build().unwrap_err();
        assert!(error.problems()[0].contains("two states of type `u8`"), "{error}");
    }

    #[test]
    fn settings_that_cannot_work_are_reported_together() {
        let tasks = TaskConfig::default()
            .with_shards(0)
            .with_heartbeat_interval(Duration::ZERO)
            .with_retry(RetryPolicy::default().with_factor(0.5));
        let error = Server::builder("tools", "1.0.0")
            .with_limits(Limits::default().with_list_page_size(0).with_max_rounds(0))
            .with_seal(SealConfig::default().with_ttl(Duration::ZERO))
            .with_tasks(tasks)
            .tool(Tool::new("fail", "Fails", with_mine).with_retry(RetryPolicy::default().with_attempts(0)))
            .build()
            .unwrap_err();
        let settings = [
            "RetryPolicy::with_attempts",
            "Limits::with_max_rounds",
            "Limits::with_list_page_size",
            "SealConfig::with_ttl",
            "TaskConfig::with_shards",
            "TaskConfig::with_heartbeat_interval",
            "RetryPolicy::with_factor",
        ];
        assert_eq!(error.problems().len(), settings.len(), "{error}");
        for setting in settings {
            assert!(error.to_string().contains(setting), "{setting}: {error}");
        }
    }

    #[derive(Clone)]
    struct Greenhouse {
        plants: Arc<Vec<String>>,
    }

    impl Greenhouse {
        async fn list(self, ctx: &Ctx, _: ()) -> Result<String> {
            ctx.elicit::<Sure>("Sure?").await?.accepted()?;
            Ok(self.plants.join(", "))
        }
    }

    #[tokio::test]
    async fn methods_and_closures_are_bound_to_a_value() -> Result<()> {
        let greenhouse = Greenhouse { plants: Arc::new(vec!["fern".into(), "moss".into()]) };
        for revision in both() {
            let sure = Answers::new().accept("sure", json!({"sure": true}));
            let method = bind(greenhouse.clone(), Greenhouse::list);
            let talk = call(Tool::new("list", "Lists the plants", method), sure, revision).await?;
            assert_eq!(talk.text(), "fern, moss");
            let closure = bind(greenhouse.clone(), async |greenhouse: Greenhouse, ctx: &Ctx, _: ()| {
                let plants = ctx.step("count", || async { Ok(greenhouse.plants.len()) }).await?;
                Ok::<_, Error>(plants.to_string())
            });
            let talk =
                call(Tool::new("count", "Counts the plants", closure), Answers::new(), revision).await?;
            assert_eq!(talk.text(), "2");
        }
        Ok(())
    }

    async fn saves(ctx: &Ctx, _: ()) -> Result<String> {
        let save = || async { Err::<u32, _>(std::io::Error::other("the disk is full")) };
        let saved = ctx.try_step("save", save).await;
        ctx.elicit::<Sure>("Go on?").await?.accepted()?;
        Ok(saved.unwrap_err().to_string())
    }

    #[tokio::test]
    async fn step_takes_a_function_with_another_error_type() -> Result<()> {
        for revision in both() {
            let sure = Answers::new().accept("sure", json!({"sure": true}));
            let talk = call(Tool::new("save", "Saves", saves), sure, revision).await?;
            assert_eq!(talk.text(), "the disk is full");
        }
        Ok(())
    }

    async fn asks(ctx: &Ctx, _: ()) -> Result<String> {
        let sure = ctx.elicit::<Sure>("Sure?").await?;
        let said = ctx.sample("Why?").key("reason").await?.text();
        Ok(format!("{} {said}", sure.accepted().is_ok()))
    }

    #[tokio::test]
    async fn answer_under_a_wrong_key_is_named() -> Result<()> {
        for revision in both() {
            let tool = || Tool::new("asks", "Asks", asks);
            let wrong = Answers::new().accept("certain", json!({"sure": true}));
            let error = call(tool(), wrong, revision).await.unwrap_err().to_string();
            assert!(
                error.contains("`sure`") && error.contains("unused answers are for `certain`"),
                "{error}"
            );
            let wrong = Answers::new().decline("sure").sample("reasons", "Because");
            let error = call(tool(), wrong, revision).await.unwrap_err().to_string();
            assert!(
                error.contains("`reason`") && error.contains("unused answers are for `reasons`"),
                "{error}"
            );
            // Without any answer of its kind, the default stands.
            let talk = call(tool(), Answers::new().sample("reason", "Because"), revision).await?;
            assert_eq!(talk.text(), "false Because");
        }
        Ok(())
    }

    async fn remove(ctx: &Ctx, State(removed): State<Count>, args: Remove) -> Result<String> {
        let effect = || removed.fetch_add(1, Ordering::Relaxed);
        if args.in_step {
            ctx.step("remove", || async { Ok(effect()) }).await?;
        } else {
            effect();
        }
        ctx.elicit::<Sure>("Keep a copy?").await?;
        Ok("removed".into())
    }

    #[derive(Deserialize, JsonSchema)]
    struct Remove {
        in_step: bool,
    }

    #[tokio::test]
    async fn effect_outside_of_a_step_is_caught_in_a_shared_world() -> Result<()> {
        let replicas = Replicas::with_world(
            Count::default,
            |removed| {
                let tool = Tool::new("remove", "Removes it", remove);
                Server::builder("shop", "1.0.0").with_state(Arc::clone(removed)).tool(tool)
            },
            |removed| removed.load(Ordering::Relaxed),
        );
        let report = replicas.run("remove", json!({"in_step": true}), Answers::new).await?;
        assert_eq!(report.schedules, 16);
        let error = replicas.run("remove", json!({"in_step": false}), Answers::new).await.unwrap_err();
        assert!(error.to_string().contains("outside of a step"), "{error}");
        Ok(())
    }
}

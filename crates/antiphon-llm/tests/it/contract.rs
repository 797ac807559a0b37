//! What is sent, against the schemas of those it is sent to.
//!
//! `ANTIPHON_PROVIDER_SCHEMA_DIR` names a folder of JSON Schemas, made from the types of the providers'
//! own packages.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use antiphon_llm::{
    Block, Content, Error, Message, ModelPreferences, OutputSchema, Request, ToolChoice, ToolDefinition,
    providers::StructuredOutput,
};
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::support::{Answer, Kind, Server, variable};

/// One pixel, and hardly a sound.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// Says what is wrong with the body of a request.
struct Contract {
    schemas: HashMap<&'static str, Validator>,
}

impl Contract {
    fn open() -> Option<Self> {
        let folder = PathBuf::from(variable("ANTIPHON_PROVIDER_SCHEMA_DIR")?);
        let names = [
            "anthropic_request",
            "gemini_Content",
            "gemini_GenerateContentConfig",
            "gemini_Tool",
            "gemini_ToolConfig",
            "ollama_chat_request",
            "openai_chat_request",
            "openai_responses_request",
        ];
        let schemas = names.into_iter().map(|name| (name, schema(&folder, name))).collect();
        Some(Self { schemas })
    }

    fn wrong(&self, kind: Kind, body: &Value) -> Vec<String> {
        match kind {
            Kind::Chat | Kind::Compatible => self.check("openai_chat_request", body),
            Kind::Responses => self.check("openai_responses_request", body),
            Kind::Anthropic => {
                let mut body = body.clone();
                // The types have forgotten it; the models that take it have not.
                body.as_object_mut().unwrap().remove("temperature");
                self.check("anthropic_request", &body)
            }
            Kind::Ollama => self.check("ollama_chat_request", body),
            Kind::Gemini => self.gemini(body),
        }
    }

    fn check(&self, name: &str, value: &Value) -> Vec<String> {
        let errors = self.schemas[name].iter_errors(value);
        errors.map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    /// There is no type for the whole of it, only for its parts.
    fn gemini(&self, body: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        for (key, value) in body.as_object().unwrap() {
            let list = || value.as_array().into_iter().flatten();
            match key.as_str() {
                _ if value.is_null() => {}
                "contents" => list().for_each(|content| wrong.extend(self.check("gemini_Content", content))),
                "tools" => list().for_each(|tool| wrong.extend(self.check("gemini_Tool", tool))),
                "systemInstruction" => wrong.extend(self.check("gemini_Content", value)),
                "toolConfig" => wrong.extend(self.check("gemini_ToolConfig", value)),
                "generationConfig" => wrong.extend(self.check("gemini_GenerateContentConfig", value)),
                other => wrong.push(format!("`{other}` is no key of a request")),
            }
        }
        if body["contents"].as_array().is_none_or(Vec::is_empty) {
            wrong.push("there are no contents".into());
        }
        wrong
    }
}

/// A schema that lets nothing through it does not know.
fn schema(folder: &Path, name: &str) -> Validator {
    let path = folder.join(format!("{name}.schema.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    close(&mut schema);
    if name == "ollama_chat_request" {
        let defs = &mut schema["$defs"];
        // The server knows these; the package, not yet.
        defs["Message"]["properties"]["tool_call_id"] = json!({"type": "string"});
        defs["ToolCall"]["properties"]["id"] = json!({"type": "string"});
        // What the package has as a type of its own is text on the wire, and any schema is one.
        defs["Image"] = json!({"type": "string"});
        defs["Parameters"] = json!({"type": "object"});
    }
    jsonschema::validator_for(&schema).unwrap()
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("properties").is_some_and(Value::is_object)
                && object.get("type") == Some(&json!("object"))
            {
                object.entry("additionalProperties").or_insert(false.into());
            }
            object.values_mut().for_each(close);
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}

/// All kinds of requests.
fn requests() -> Vec<(&'static str, Request)> {
    let plain = Request::prompt("Hello.");
    let with = |change: &dyn Fn(&mut Request)| {
        let mut request = plain.clone();
        change(&mut request);
        request
    };
    let schema =
        |schema: Value| with(&|request| OutputSchema::new(schema.as_object().unwrap().clone()).ask(request));
    let way = json!({"properties": {"way": {"enum": ["left", "right"]}, "far": {"type": "boolean"}}, "required": ["way"]});
    let tools =
        [ToolDefinition::new("go", way).with_description("Goes."), ToolDefinition::new("stay", json!({}))];
    let tools = |choice| {
        with(&|request| {
            request.tools = tools.to_vec();
            request.tool_choice = choice;
        })
    };
    let history = |result: Block| {
        let mut request = tools(Some(ToolChoice::Auto));
        let calls = [Block::text("Let me see."), Block::tool_use("call_1", "go", json!({"way": "left"}))];
        request.messages.push(Message::assistant(calls));
        request.messages.push(Message::user(result));
        request
    };
    let picture: Content =
        serde_json::from_value(json!({"type": "image", "data": PNG, "mimeType": "image/png"})).unwrap();
    let sound: Content =
        serde_json::from_value(json!({"type": "audio", "data": WAV, "mimeType": "audio/wav"})).unwrap();
    let link = json!({"type": "resource_link", "uri": "file:///map", "name": "map"});
    let link: Content = serde_json::from_value(link).unwrap();
    let mut two = tools(Some(ToolChoice::Auto));
    let calls = ["call_1", "call_2"].map(|id| Block::tool_use(id, "go", json!({"way": "left"})));
    two.messages.push(Message::assistant(calls));
    two.messages.push(Message::user([
        Block::tool_result("call_1", ["a door".into()]),
        Block::tool_error("call_2", "a wall"),
    ]));
    let mut asked_again =
        schema(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}));
    asked_again.messages.push(Message::assistant(Block::tool_use("call_1", "__schema__", json!({"n": "x"}))));
    asked_again
        .messages
        .push(Message::user(Block::tool_error("call_1", "n: \"x\" is not of type \"integer\"")));
    vec![
        ("plain", plain.clone()),
        ("system", with(&|request| request.system_prompt = Some("You are brief.".into()))),
        ("temperature", with(&|request| request.temperature = Some(0.5))),
        ("stop", with(&|request| request.stop_sequences = vec!["END".into()])),
        ("image", Request::prompt([Block::text("What is it?"), Block::image(PNG, "image/png")])),
        ("audio", Request::prompt([Block::text("Who is it?"), Block::audio(WAV, "audio/wav")])),
        (
            "turns",
            Request::new([Message::user("Hello."), Message::assistant("Hi."), Message::user("Who are you?")]),
        ),
        (
            "preferences",
            with(&|request| {
                request.model_preferences =
                    Some(ModelPreferences::new().with_hint("nobody").with_cost_priority(1.0));
            }),
        ),
        ("tools", tools(None)),
        ("tools auto", tools(Some(ToolChoice::Auto))),
        ("tools required", tools(Some(ToolChoice::Required))),
        ("tools none", tools(Some(ToolChoice::None))),
        ("result", history(Block::tool_result("call_1", ["a door".into()]))),
        ("failed result", history(Block::tool_error("call_1", "a wall"))),
        ("result with media", history(Block::tool_result("call_1", ["see".into(), picture, sound, link]))),
        ("two results", two),
        (
            "schema",
            schema(json!({
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
                "required": ["name"],
            })),
        ),
        (
            "loose schema",
            schema(json!({
                "type": "object",
                "properties": {"any": true, "map": {"type": "object", "additionalProperties": {"type": "number"}}},
            })),
        ),
        ("schema, asked again", asked_again),
    ]
}

/// Models that are not all asked in the same way.
fn models(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Chat => &["gpt-4.1", "gpt-5.2", "o3", "gpt-4-turbo", "of-tomorrow"],
        Kind::Responses => &["gpt-5.2", "gpt-6-sol", "of-tomorrow"],
        Kind::Compatible | Kind::Ollama => &["qwen3"],
        Kind::Anthropic => &["claude-sonnet-4-0", "claude-sonnet-4-5", "claude-sonnet-5-5", "of-tomorrow"],
        Kind::Gemini => &["gemini-2.5-flash", "gemini-3.8-flash", "of-tomorrow"],
    }
}

/// What cannot be sent, and must be an error.
fn cannot(kind: Kind, model: &str, what: &str) -> bool {
    match what {
        "audio" => matches!(kind, Kind::Responses | Kind::Anthropic | Kind::Ollama),
        // Neither does a model of OpenAI's that reasons.
        "stop" => kind == Kind::Responses || ["gpt-5.2", "o3"].contains(&model),
        _ => false,
    }
}

async fn honours_the_contract(kind: Kind) {
    let Some(contract) = Contract::open() else { return };
    let ways = [
        None,
        Some(StructuredOutput::Native),
        Some(StructuredOutput::JsonMode),
        Some(StructuredOutput::ForcedTool),
        Some(StructuredOutput::Prompt),
    ];
    let server = Server::start(move |_, _| Answer::ok(kind.says("{}"))).await;
    for (model, how) in models(kind).iter().flat_map(|model| ways.map(|how| (model, how))) {
        let config = server.config(kind).with_structured_output(how).with_models([*model]);
        let provider = match kind.open(config) {
            Ok(provider) => provider,
            // Not every provider has every way.
            Err(Error::Config(_)) if how.is_some() => continue,
            Err(error) => panic!("{error}"),
        };
        for (name, request) in requests() {
            if how.is_some() && request.schema().is_none() {
                continue;
            }
            let before = server.seen().len();
            let reply = provider.reply(&request).await;
            let body = server.seen().get(before).map(|seen| seen.body.clone());
            if cannot(kind, model, name) {
                assert!(matches!(reply, Err(Error::Unsupported { .. })), "{model}, {name}: {reply:?}");
                assert_eq!(body, None, "{model}, {name}");
                continue;
            }
            let reply = reply.unwrap_or_else(|error| panic!("{model}, {name}, {how:?}: {error}"));
            let body = body.unwrap();
            let wrong = contract.wrong(kind, &body);
            assert!(wrong.is_empty(), "{model}, {name}, {how:?}: {wrong:#?}\n{body:#}\n{reply:?}");
        }
    }
}

#[tokio::test]
async fn openai_chat_understands_every_request() {
    honours_the_contract(Kind::Chat).await;
}

#[tokio::test]
async fn openai_responses_understands_every_request() {
    honours_the_contract(Kind::Responses).await;
}

#[tokio::test]
async fn a_compatible_server_understands_every_request() {
    honours_the_contract(Kind::Compatible).await;
}

#[tokio::test]
async fn anthropic_understands_every_request() {
    honours_the_contract(Kind::Anthropic).await;
}

#[tokio::test]
async fn gemini_understands_every_request() {
    honours_the_contract(Kind::Gemini).await;
}

#[tokio::test]
async fn ollama_understands_every_request() {
    honours_the_contract(Kind::Ollama).await;
}

/// The answers in these tests are answers their providers give.
#[test]
fn what_is_answered_here_could_be_answered_there() {
    let Some(folder) = variable("ANTIPHON_PROVIDER_SCHEMA_DIR") else { return };
    for (kind, name) in [
        (Kind::Chat, "openai_chat_response"),
        (Kind::Responses, "openai_responses_response"),
        (Kind::Anthropic, "anthropic_response"),
        (Kind::Gemini, "gemini_GenerateContentResponse"),
        (Kind::Ollama, "ollama_chat_response"),
    ] {
        let answer = kind.says("Hello.");
        let schema = schema(Path::new(&folder), name);
        let wrong: Vec<String> = schema.iter_errors(&answer).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{kind:?}: {wrong:#?}");
    }
}

/// If one of these passes, the contract is not worth its name.
#[test]
fn what_is_wrong_is_found() {
    let Some(contract) = Contract::open() else { return };
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    let anthropic = json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]});
    let responses = json!({"model": "m", "input": "Hi"});
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]});
    let right = [
        (Kind::Chat, &chat),
        (Kind::Anthropic, &anthropic),
        (Kind::Responses, &responses),
        (Kind::Ollama, &chat),
        (Kind::Gemini, &gemini),
    ];
    for (kind, body) in right {
        assert_eq!(contract.wrong(kind, body), Vec::<String>::new(), "{kind:?}");
    }
    let tool = json!([{"type": "function", "function": {"name": "go"}}]);
    let wrong = [
        (Kind::Chat, &chat, json!({"bogus": 1})),
        (Kind::Chat, &chat, json!({"tools": tool, "tool_choice": "requird"})),
        (Kind::Chat, &chat, json!({"response_format": {"type": "json_schema"}})),
        (Kind::Anthropic, &anthropic, json!({"bogus": 1})),
        (Kind::Anthropic, &anthropic, json!({"max_tokens": null})),
        (Kind::Anthropic, &anthropic, json!({"tool_choice": {"type": "required"}})),
        (Kind::Anthropic, &anthropic, json!({"output_config": {"format": {"type": "json_schema"}}})),
        (Kind::Responses, &responses, json!({"stop": ["END"]})),
        (Kind::Responses, &responses, json!({"text": {"format": {"type": "json_schema", "name": "n"}}})),
        (Kind::Ollama, &chat, json!({"format": "yaml"})),
        (Kind::Ollama, &chat, json!({"tool_choice": "auto"})),
        (Kind::Gemini, &gemini, json!({"contents": [{"role": "user", "parts": [{"txt": "Hi"}]}]})),
        (Kind::Gemini, &gemini, json!({"toolConfig": {"functionCallingConfig": {"mode": "REQUIRED"}}})),
        (Kind::Gemini, &gemini, json!({"generation_config": {}})),
        (Kind::Gemini, &gemini, json!({"generationConfig": {"responseFormat": {}}})),
    ];
    for (kind, right, change) in wrong {
        let mut body = right.clone();
        for (key, value) in change.as_object().unwrap() {
            body[key] = value.clone();
            if value.is_null() {
                body.as_object_mut().unwrap().remove(key);
            }
        }
        assert!(!contract.wrong(kind, &body).is_empty(), "{kind:?} was not told from right: {body}");
    }
}

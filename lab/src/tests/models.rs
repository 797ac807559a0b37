//! Real models: the toy and SmolLM2, behind llama.cpp's own server.
//!
//! `cargo xtask models` serves them and says where. Without them these tests say that they do
//! nothing; in CI that is a failure.
#![expect(deprecated, reason = "sampling is deprecated in 2026-07-28 and served until it is removed")]

use std::sync::{Arc, Mutex};

use antiphon::{prelude::*, sampling::SamplingPolicy};
use antiphon_host::{Approval, BoxFuture, Endpoint, Host, Lifecycle, Refused};
use antiphon_llm::{
    Model, Reply, Request,
    providers::{OpenAiCompatible, ProviderConfig, StructuredOutput},
};
use anyhow::{Context as _, Result};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateMessageRequestParams,
        SamplingMessage,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

/// Where a model is served, if it is.
#[expect(clippy::print_stderr, reason = "who runs the tests should know what they do not check")]
fn served(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{variable} is not set; run `cargo xtask models`");
        eprintln!("skipped: {variable} is not set; run `cargo xtask models`");
    }
    url
}

fn model(url: &str, output: Option<StructuredOutput>) -> Result<OpenAiCompatible> {
    let config = ProviderConfig::local()
        .with_base_url(format!("{url}/v1"))
        .with_model("local")
        .with_structured_output(output);
    Ok(OpenAiCompatible::new(config)?)
}

/// Lets every sample through, and remembers it.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<Request>>>);

impl Approval for Noting {
    fn request(&self, request: Request) -> BoxFuture<'_, Result<Request, Refused>> {
        self.0.lock().unwrap().push(request.clone());
        Box::pin(std::future::ready(Ok(request)))
    }

    fn reply<'a>(&'a self, _: &'a Request, reply: Reply) -> BoxFuture<'a, Result<Reply, Refused>> {
        Box::pin(std::future::ready(Ok(reply)))
    }
}

/// A client that samples with `model`, and what it was asked.
fn sampler(model: impl Model, lifecycle: Lifecycle) -> (Host, Noting) {
    let asked = Noting::default();
    let host = Host::builder("sampler", "1").with_lifecycle(lifecycle).with_model(model);
    (host.with_approval(asked.clone()).build(), asked)
}

fn endpoint(server: &Server) -> Endpoint {
    let server = server.clone();
    Endpoint::new("in-process", move || {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = server.clone();
        tokio::spawn(async move { server.serve_stream(far).await });
        std::future::ready(Ok::<_, std::io::Error>(near))
    })
}

const BOTH: [Lifecycle; 2] = [Lifecycle::Legacy, Lifecycle::Modern];

/// Nested, with ranges and enums.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Booking {
    traveller: Traveller,
    #[schemars(range(min = 1, max = 14))]
    nights: u8,
    class: Class,
    #[schemars(length(min = 1, max = 2))]
    stops: Vec<Stop>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Traveller {
    #[schemars(length(min = 1, max = 20))]
    name: String,
    #[schemars(range(min = 18, max = 99))]
    age: u8,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
enum Class {
    Economy,
    Business,
    First,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Stop {
    #[schemars(length(min = 1, max = 20))]
    city: String,
    #[schemars(range(min = 1, max = 5))]
    stars: u8,
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

async fn book(ctx: &Ctx, Text { text }: Text) -> antiphon::Result<Json<Value>> {
    let booking = ctx
        .sample_schema::<Booking>(format!("Take down this booking as data: {text}"))
        .system("You take down bookings.")
        .max_tokens(200)
        .temperature(0.0)
        .await?;
    Ok(Json(json!(booking.parsed)))
}

fn booking_server() -> antiphon::ServerBuilder {
    Server::builder("bookings", "1.0.0").tool(Tool::new("book", "Takes down a booking", book))
}

/// How often SmolLM2 is asked. It takes seconds a time, so CI asks a few times and a release asks 50.
fn runs() -> usize {
    std::env::var("ANTIPHON_SMOLLM_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(3)
}

fn text(i: usize) -> String {
    let name = ["Ada", "Grace", "Alan", "Edsger", "Barbara", "Ken", "Radia"][i % 7];
    let city = ["Lisbon", "Porto", "Bern", "Oslo", "Turin"][i % 5];
    let class = ["economy", "business class", "first class"][i % 3];
    format!("{name}, {} years old, {} nights in {city} ({} stars), {class}.", 20 + i, 1 + i % 14, 1 + i % 5)
}

/// The result as the caller sees it, checked once more by eyes of its own.
fn check(result: &CallToolResult, validator: &jsonschema::Validator, i: usize) {
    assert_ne!(result.is_error, Some(true), "booking {i}: {result:?}");
    let booking = result.structured_content.clone().expect("a booking");
    let problems: Vec<String> = validator.iter_errors(&booking).map(|error| error.to_string()).collect();
    assert!(problems.is_empty(), "booking {i}: {booking}: {problems:?}");
    let read: Booking = serde_json::from_value(booking).unwrap();
    assert!(
        (1..=14).contains(&read.nights) && (18..=99).contains(&read.traveller.age),
        "booking {i}: {read:?}"
    );
}

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&json!(schemars::schema_for!(Booking))).unwrap()
}

#[tokio::test]
async fn smollm2_gives_valid_data_through_a_provider() -> Result<()> {
    let Some(url) = served("ANTIPHON_TEST_SMOLLM_URL") else { return Ok(()) };
    let policy = SamplingPolicy::ProviderOnly;
    let server = booking_server().with_model(model(&url, None)?).with_sampling(policy).build()?;
    let (validator, mut valid) = (validator(), 0);
    for i in 0..runs() {
        let (host, asked) = sampler(model(&url, None)?, BOTH[i % 2]);
        let connection = host.connect(endpoint(&server)).await?;
        check(&connection.call("book", json!({"text": text(i)})).await?, &validator, i);
        assert!(asked.0.lock().unwrap().is_empty(), "the client is not asked");
        valid += 1;
    }
    assert_eq!(valid, runs());
    Ok(())
}

#[tokio::test]
async fn smollm2_gives_valid_data_through_a_client_that_samples() -> Result<()> {
    let Some(url) = served("ANTIPHON_TEST_SMOLLM_URL") else { return Ok(()) };
    let server = booking_server().build()?;
    let (validator, mut valid) = (validator(), 0);
    for i in 0..runs() {
        let (host, asked) = sampler(model(&url, None)?, BOTH[i % 2]);
        let connection = host.connect(endpoint(&server)).await?;
        check(&connection.call("book", json!({"text": text(i)})).await?, &validator, i);
        let asked = asked.0.lock().unwrap().clone();
        assert!((1..=3).contains(&asked.len()), "asked {} times", asked.len());
        assert_eq!(asked[0].tools[0].name, "__schema__");
        valid += 1;
    }
    assert_eq!(valid, runs());
    Ok(())
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Pick {
    #[schemars(range(min = 0, max = 8))]
    cell: u8,
}

#[tokio::test]
async fn a_smart_and_a_naive_client_give_the_same_with_llama_cpp() -> Result<()> {
    async fn pick(ctx: &Ctx, _: ()) -> antiphon::Result<Json<Value>> {
        let reply = ctx.sample_schema::<Pick>("CALL: pick a cell").max_tokens(400).await?;
        let roles: Vec<_> = reply.exchange.messages.iter().map(|message| message.role).collect();
        Ok(Json(json!({"valid": reply.parsed.cell <= 8, "roles": roles, "stop": reply.stop_reason})))
    }
    let Some(url) = served("ANTIPHON_TEST_LLM_URL") else { return Ok(()) };
    for output in [StructuredOutput::Native, StructuredOutput::ForcedTool] {
        for lifecycle in BOTH {
            let server = Server::builder("s", "1").tool(Tool::new("pick", "Picks", pick)).build()?;
            let (host, _) = sampler(model(&url, Some(output))?, lifecycle);
            let result = host.connect(endpoint(&server)).await?.call("pick", json!({})).await?;
            assert_eq!(
                result.structured_content,
                Some(json!({"valid": true, "roles": ["user", "assistant", "user"], "stop": "toolUse"})),
                "{output:?}: {result:?}"
            );
        }
    }
    Ok(())
}

/// A server that knows nothing of Antiphon, and asks its client's model in the plain old way.
struct Foreign;

impl ServerHandler for Foreign {
    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let messages = vec![SamplingMessage::user_text("Say something.")];
        let params = CreateMessageRequestParams::new(messages, 50);
        let reply = context
            .peer
            .create_message(params)
            .await
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let text =
            reply.message.content.first().and_then(|block| block.as_text()).map(|text| text.text.clone());
        Ok(CallToolResult::success(vec![ContentBlock::text(text.unwrap_or_default())]).into())
    }
}

#[tokio::test]
async fn a_server_of_the_sdks_own_is_answered_by_a_model() -> Result<()> {
    let Some(url) = served("ANTIPHON_TEST_LLM_URL") else { return Ok(()) };
    let foreign = Endpoint::new("foreign", || {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move { Foreign.serve(far).await?.waiting().await.map_err(anyhow::Error::from) });
        std::future::ready(Ok::<_, std::io::Error>(near))
    });
    let (host, _) = sampler(model(&url, None)?, Lifecycle::Legacy);
    let result = host.connect(foreign).await?.call("ask", json!({})).await?;
    let text = &result.content[0].as_text().context("a text")?.text;
    assert!(text.starts_with("Toy weights answer"), "{text}");
    Ok(())
}

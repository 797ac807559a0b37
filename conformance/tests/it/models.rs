//! Real models: the toy and SmolLM2, behind llama.cpp's own server.
//!
//! `cargo xtask models` serves them and says where. Without them these tests say that they do
//! nothing; in CI that is a failure.
#![expect(deprecated, reason = "sampling is deprecated in 2026-07-28 and served until it is removed")]

use std::sync::{Arc, Mutex};

use antiphon::{prelude::*, sampling::SamplingPolicy};
use antiphon_llm::{
    Model, Request,
    providers::{OpenAiCompatible, ProviderConfig, StructuredOutput},
};
use anyhow::{Context as _, Result};
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt as _, ErrorData, RoleClient, RoleServer,
    ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
        ContentBlock, CreateMessageRequestParams, CreateMessageResult, Implementation, ProtocolVersion,
        SamplingMessage,
    },
    service::{RequestContext, RunningService},
};
use serde_json::{Value, json};

/// Where a model is served, if it is.
#[expect(clippy::print_stdout, reason = "who runs the tests should know what they do not check")]
fn served(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{variable} is not set; run `cargo xtask models`");
        println!("nothing is tested: {variable} is not set; run `cargo xtask models`");
    }
    url
}

fn model(url: &str, output: Option<StructuredOutput>) -> Result<OpenAiCompatible> {
    let mut config = ProviderConfig::local().with_base_url(format!("{url}/v1")).with_model("local");
    config.structured_output = output;
    Ok(OpenAiCompatible::new(config)?)
}

/// A client that samples: it hands what it is asked to a model of its own.
#[derive(Clone)]
struct Sampler {
    model: Arc<dyn Model>,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Sampler {
    fn new(model: impl Model) -> Self {
        Self { model: Arc::new(model), asked: Arc::default() }
    }

    async fn connect(
        &self,
        server: Server,
        mode: ClientLifecycleMode,
    ) -> Result<RunningService<RoleClient, Self>> {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move { server.serve(far).await });
        Ok(self.clone().serve_with_lifecycle(near, mode).await?)
    }
}

impl ClientHandler for Sampler {
    fn get_info(&self) -> ClientConfig {
        let capabilities: ClientCapabilities =
            serde_json::from_value(json!({"sampling": {"tools": {}}})).unwrap();
        let mut config = ClientConfig::new(capabilities, Implementation::new("sampler", "1"));
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        config
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let failed = |error: &dyn std::fmt::Display| ErrorData::internal_error(error.to_string(), None);
        let params = serde_json::to_value(params).map_err(|error| failed(&error))?;
        self.asked.lock().unwrap().push(params.clone());
        let request: Request = serde_json::from_value(params).map_err(|error| failed(&error))?;
        let reply = self.model.reply(&request).await.map_err(|error| failed(&error))?;
        serde_json::from_value(json!(reply)).map_err(|error| failed(&error))
    }
}

fn modes() -> [ClientLifecycleMode; 2] {
    let discover = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    [ClientLifecycleMode::Initialize, discover]
}

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

fn call(i: usize) -> CallToolRequestParams {
    let arguments = serde_json::from_value(json!({"text": text(i)})).unwrap();
    CallToolRequestParams::new("book").with_arguments(arguments)
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
    let server = booking_server()
        .with_model(model(&url, None)?)
        .with_sampling(SamplingPolicy::ProviderOnly)
        .build()?;
    let (validator, mut valid) = (validator(), 0);
    for i in 0..runs() {
        let sampler = Sampler::new(model(&url, None)?);
        let client = sampler.connect(server.clone(), modes()[i % 2].clone()).await?;
        check(&client.call_tool(call(i)).await?, &validator, i);
        assert!(sampler.asked.lock().unwrap().is_empty(), "the client is not asked");
        valid += 1;
        client.cancel().await?;
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
        let sampler = Sampler::new(model(&url, None)?);
        let client = sampler.connect(server.clone(), modes()[i % 2].clone()).await?;
        check(&client.call_tool(call(i)).await?, &validator, i);
        let asked = sampler.asked.lock().unwrap().clone();
        assert!((1..=3).contains(&asked.len()), "asked {} times", asked.len());
        assert_eq!(asked[0]["tools"][0]["name"], "__schema__");
        valid += 1;
        client.cancel().await?;
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
async fn a_smart_and_a_naive_client_give_the_same_with_a_real_model() -> Result<()> {
    async fn pick(ctx: &Ctx, _: ()) -> antiphon::Result<Json<Value>> {
        let reply = ctx.sample_schema::<Pick>("CALL: pick a cell").max_tokens(400).await?;
        let roles: Vec<_> = reply.exchange.messages.iter().map(|message| message.role).collect();
        Ok(Json(json!({"valid": reply.parsed.cell <= 8, "roles": roles, "stop": reply.stop_reason})))
    }
    let Some(url) = served("ANTIPHON_TEST_LLM_URL") else { return Ok(()) };
    for output in [StructuredOutput::Native, StructuredOutput::ForcedTool] {
        for mode in modes() {
            let server = Server::builder("s", "1").tool(Tool::new("pick", "Picks", pick)).build()?;
            let sampler = Sampler::new(model(&url, Some(output))?);
            let client = sampler.connect(server, mode).await?;
            let result = client.call_tool(CallToolRequestParams::new("pick")).await?;
            assert_eq!(
                result.structured_content,
                Some(json!({"valid": true, "roles": ["user", "assistant", "user"], "stop": "toolUse"})),
                "{output:?}: {result:?}"
            );
            client.cancel().await?;
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
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move { Foreign.serve(far).await?.waiting().await.map_err(anyhow::Error::from) });
    let sampler = Sampler::new(model(&url, None)?);
    let client = sampler.serve_with_lifecycle(near, ClientLifecycleMode::Initialize).await?;
    let result = client.call_tool(CallToolRequestParams::new("ask")).await?;
    let text = &result.content[0].as_text().context("a text")?.text;
    assert!(text.starts_with("Toy weights answer"), "{text}");
    client.cancel().await?;
    Ok(())
}

//! The tour, driven to its end by rmcp's client on both revisions.

use std::sync::{Arc, Mutex};

use antiphon::seal::SealConfig;
use anyhow::{Context as _, Result};
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt as _, ErrorData, RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, ElicitRequestParams,
        ElicitResult, ElicitationAction, Implementation, InputRequest, InputResponses, ProtocolVersion,
    },
    service::{RequestContext, RunningService},
};
use serde_json::json;

/// Answers each form by its first field, and remembers which it was shown.
#[derive(Clone, Default)]
struct Traveller {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Traveller {
    fn answer(&self, params: ElicitRequestParams) -> ElicitResult {
        match params {
            ElicitRequestParams::FormElicitationParams { requested_schema, .. } => {
                let field = requested_schema.properties.keys().next().cloned().unwrap_or_default();
                let answer = json!({&field: format!("<{field}>")});
                self.asked.lock().unwrap().push(field);
                ElicitResult::new(ElicitationAction::Accept).with_content(answer)
            }
            ElicitRequestParams::UrlElicitationParams { url, .. } => {
                self.asked.lock().unwrap().push(url);
                ElicitResult::new(ElicitationAction::Accept)
            }
            _ => ElicitResult::new(ElicitationAction::Decline),
        }
    }
}

impl ClientHandler for Traveller {
    fn get_info(&self) -> ClientConfig {
        let capabilities: ClientCapabilities =
            serde_json::from_value(json!({"elicitation": {"form": {}, "url": {}}})).unwrap();
        let mut config = ClientConfig::new(capabilities, Implementation::new("traveller", "1"));
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        config
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.answer(params))
    }
}

async fn connect(
    server: antiphon::Server,
    mode: ClientLifecycleMode,
) -> Result<(Traveller, RunningService<RoleClient, Traveller>)> {
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move { server.serve_stream(far).await });
    let traveller = Traveller::default();
    let client = traveller.clone().serve_with_lifecycle(near, mode).await?;
    Ok((traveller, client))
}

fn discover() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

fn call() -> CallToolRequestParams {
    let arguments = serde_json::from_value(json!({"traveller": "Ada"})).unwrap();
    CallToolRequestParams::new("plan_trip").with_arguments(arguments)
}

#[tokio::test]
async fn the_sdks_client_drives_the_same_tool_on_both_revisions() -> Result<()> {
    for mode in [ClientLifecycleMode::Initialize, discover()] {
        let (traveller, client) = connect(tour::server(SealConfig::default()).build()?, mode).await?;
        let result = client.call_tool(call()).await?;
        let text = &result.content[0].as_text().context("a text")?.text;
        assert!(
            text.starts_with("Ada: <destination> in <month>, <hotel>, <meal>, <seat>; booked ref-"),
            "{text}"
        );
        let mut asked = traveller.asked.lock().unwrap().clone();
        asked[2..].sort();
        assert_eq!(asked, ["destination", "month", "hotel", "meal", "seat"]);
        client.cancel().await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_three_concurrent_questions_take_one_round() -> Result<()> {
    let (traveller, client) = connect(tour::server(SealConfig::default()).build()?, discover()).await?;
    let mut request = call();
    let mut rounds = Vec::new();
    loop {
        match client.peer().call_tool_once(request.clone()).await? {
            CallToolResponse::InputRequired(required) => {
                let asks = required.input_requests.unwrap_or_default();
                rounds.push(asks.keys().cloned().collect::<Vec<_>>());
                let mut answers = InputResponses::new();
                for (key, ask) in asks {
                    let InputRequest::Elicitation(ask) = ask else { anyhow::bail!("not a form") };
                    answers.insert(key, serde_json::to_value(traveller.answer(ask.params))?);
                }
                request = call().with_input_responses(answers);
                request.request_state = required.request_state;
            }
            CallToolResponse::Complete(_) => break,
            other => anyhow::bail!("{other:?}"),
        }
    }
    assert_eq!(rounds, [vec!["destination"], vec!["month"], vec!["hotel", "meal", "seat"]]);
    Ok(())
}

#[tokio::test]
async fn a_page_is_visited_on_2026_07_28_without_the_author_naming_an_id() -> Result<()> {
    use antiphon::prelude::*;

    async fn sign_in(ctx: &Ctx, _: ()) -> antiphon::Result<String> {
        let visited = ctx.elicit_url("Sign in", "https://bank.example/login").await?;
        Ok(format!("agreed: {}", visited.agreed))
    }
    for mode in [ClientLifecycleMode::Initialize, discover()] {
        let server =
            Server::builder("bank", "1.0.0").tool(Tool::new("sign_in", "Signs you in", sign_in)).build()?;
        let (traveller, client) = connect(server, mode).await?;
        let result = client.call_tool(CallToolRequestParams::new("sign_in")).await?;
        assert_eq!(result.content[0].as_text().context("a text")?.text, "agreed: true");
        assert_eq!(*traveller.asked.lock().unwrap(), ["https://bank.example/login"]);
        client.cancel().await?;
    }
    Ok(())
}

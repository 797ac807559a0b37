//! What it offers beside the onboarding: something quick, something long, something with more rows than a model reads,
//! something that asks a model.

use antiphon::llm::{BoxFuture, Model, Reply, Request, Usage};
use antiphon::results::{CreateOptions, DualResponse, DualResponseServer, Rows, Source, snapshot::RowSource};
use antiphon::{ServerBuilder, prelude::*, task::TaskPolicy};
use checkout::Ledger;
use futures_util::stream;
use serde_json::json;

/// Rows that are made at a time.
const PART: u64 = 256;

/// Adds those that need nothing but a model.
pub(crate) fn add(builder: ServerBuilder) -> ServerBuilder {
    builder.with_model(Mentor).tool(Tool::new("greet", "Says hello", greet)).tool(Tool::new(
        "advise",
        "Asks the mentor",
        advise,
    ))
}

/// Takes orders, which are written to a file: at once, and as tasks.
pub(crate) fn add_orders(builder: ServerBuilder, orders: &str) -> ServerBuilder {
    let now = checkout::tool("checkout").with_tasks(TaskPolicy::Never);
    let later = checkout::tool("checkout_later").with_tasks(TaskPolicy::Always);
    builder.with_state(Ledger::new(orders)).tool(now).tool(later)
}

/// Answers with result sets.
pub(crate) fn add_results(builder: ServerBuilder, results: DualResponseServer) -> ServerBuilder {
    builder.with_results(results).tool(Tool::new("roster", "Lists the colleagues of a team", roster))
}
/// Whom to greet.
#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Their name.
    name: String,
}

async fn greet(_: &Ctx, greet: Greet) -> Result<String> {
    Ok(format!("Hello, {}!", greet.name))
}

/// Whom to list.
#[derive(Deserialize, JsonSchema)]
struct Roster {
    /// The team.
    team: String,
    /// How many they are.
    #[schemars(range(min = 1, max = 1_000_000))]
    size: u64,
}

async fn roster(ctx: &Ctx, roster: Roster) -> Result<DualResponse> {
    let Roster { team, size } = roster;
    let title = format!("Colleagues of {team}");
    let parts = (0..size.div_ceil(PART)).map(move |part| {
        let mut rows = Rows::new();
        for id in part * PART..((part + 1) * PART).min(size) {
            rows.push(&json!({"id": id, "name": format!("{team}-{id}"), "desk": id * 7919 % 10_007}))?;
        }
        Ok(rows)
    });
    let source = Source::snapshot(RowSource::rows(stream::iter(parts)));
    ctx.dual_response(CreateOptions::new(title, source).complete()).await
}

/// What to ask the mentor.
#[derive(Deserialize, JsonSchema)]
struct Advise {
    /// The question.
    question: String,
}

async fn advise(ctx: &Ctx, advise: Advise) -> Result<String> {
    Ok(ctx.sample(advise.question).max_tokens(64).await?.text())
}

/// Stands where a provider would: it costs what one costs, and says what it was asked.
#[derive(Debug)]
struct Mentor;

impl Model for Mentor {
    fn reply<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, antiphon::llm::Result<Reply>> {
        let question = request.messages.last().map(antiphon::llm::Message::text).unwrap_or_default();
        let usage = Usage { input_tokens: 20, output_tokens: 30 };
        let reply = Reply::new("mentor", format!("It depends: {question}").as_str()).with_usage(usage);
        Box::pin(std::future::ready(Ok(reply)))
    }

    fn name(&self) -> &'static str {
        "mentor"
    }
}

//! Models that do not do as they are told.

use antiphon::{
    ErrorKind,
    prelude::*,
    sampling::ToolDefinition,
    testing::{Answers, Revision},
};
use serde_json::{Value, json};

use crate::checked::connect_with;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Order {
    #[schemars(range(min = 1, max = 99))]
    count: u8,
    size: Size,
    #[schemars(length(min = 1))]
    notes: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
enum Size {
    Small,
    Large,
}

#[derive(Deserialize, JsonSchema)]
struct Retries {
    retries: u32,
}

async fn data(ctx: &Ctx, Retries { retries }: Retries) -> Result<Json<Value>> {
    outcome(ctx.sample_schema::<Order>("What will it be?").retries(retries).await.map(|reply| {
        assert!((1..=99).contains(&reply.parsed.count) && !reply.parsed.notes.is_empty());
        json!(reply.parsed)
    }))
}

async fn calls(ctx: &Ctx, Retries { retries }: Retries) -> Result<Json<Value>> {
    let tools = [ToolDefinition::of::<Order>("order"), ToolDefinition::new("leave", json!({}))];
    outcome(ctx.sample_tools("What will it be?", tools).retries(retries).await.map(|reply| {
        for call in &reply.calls {
            assert!(call.name == "leave" || call.parse::<Order>().is_ok(), "{call:?}");
        }
        json!(reply.calls)
    }))
}

fn outcome(result: Result<Value>) -> Result<Json<Value>> {
    match result {
        Ok(value) => Ok(Json(json!({"value": value}))),
        Err(error) => match error.kind() {
            ErrorKind::SampleValidation(failed) => Ok(Json(json!({"attempts": failed.attempts}))),
            _ => Err(error),
        },
    }
}

/// A reply for a number: prose, fences, wrong types, wrong tools, several calls, nothing, and now and
/// then what was asked for.
fn reply(n: u64) -> Value {
    let good = json!({"count": 1 + n % 99, "size": "Large", "notes": ["hot"]});
    let wrong = [
        json!({"count": "two", "size": "Large", "notes": ["hot"]}),
        json!({"count": 0, "size": "Large", "notes": ["hot"]}),
        json!({"count": 300, "size": "Large", "notes": ["hot"]}),
        json!({"count": 2.5, "size": "Large", "notes": ["hot"]}),
        json!({"count": 2, "size": "Huge", "notes": []}),
        json!({"size": "Large"}),
        json!({"count": null, "size": [], "notes": "hot"}),
    ];
    let wrong = &wrong[usize::try_from(n % 7).unwrap()];
    let text = |text: String| json!({"type": "text", "text": text});
    let call = |id: u64, name: &str, input: &Value| json!({"type": "tool_use", "id": format!("c{id}"), "name": name, "input": input});
    let content = match n / 7 % 20 {
        0 => text("I would like a large one, please.".into()),
        1 => text(format!("Sure! ```json\n{good}\n``` Enjoy.")),
        2 => text(format!("```\n{wrong}\n```")),
        3 => text(good.to_string()),
        4 => text(wrong.to_string()),
        5 => text(good.to_string()[..20].into()),
        6 => text(String::new()),
        7 => json!([]),
        8 => json!([call(1, "__schema__", &good)]),
        9 => json!([call(1, "__schema__", wrong)]),
        10 => json!([call(1, "order", &good)]),
        11 => json!([call(1, "order", wrong), call(2, "order", &good)]),
        12 => json!([call(1, "dance", &json!({}))]),
        13 => json!([text("Let me see.".into()), call(1, "order", &good), call(2, "__schema__", &good)]),
        14 => json!([call(1, "leave", &json!({})), call(1, "leave", &json!({}))]),
        15 => text(format!("{{\"tool_calls\": [{{\"name\": \"order\", \"arguments\": {good}}}]}}")),
        16 => text(format!("{{\"tool_calls\": {wrong}}} {{{{{{[[[\"")),
        17 => json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
        18 => text("null".into()),
        _ => text(format!("[{good}, {wrong}]\u{0}\u{202e}{}", "{\"a\":".repeat(200))),
    };
    let stop = ["endTurn", "toolUse", "maxTokens", "stopSequence", "strange"];
    json!({"role": "assistant", "model": "bad", "stopReason": stop[usize::try_from(n / 140 % 5).unwrap()], "content": content})
}

#[tokio::test]
async fn a_thousand_conversations_with_bad_models_end_well_or_with_a_validation_error() -> Result<()> {
    let server = Server::builder("bad", "1.0.0")
        .tool(Tool::new("data", "Wants data", data))
        .tool(Tool::new("calls", "Wants calls", calls))
        .build()?;
    let (mut good, mut failed) = (0, 0);
    for seed in 0..1000_u64 {
        // Four ways to be asked, in turn: with and without tools, live and in rounds.
        let revision = Revision::BOTH[usize::try_from(seed % 2).unwrap()];
        let capabilities =
            if seed / 2 % 2 == 0 { json!({"sampling": {"tools": {}}}) } else { json!({"sampling": {}}) };
        let retries = seed % 4;
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let answers = Answers::new().otherwise(move |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            Some(reply(state >> 8))
        });
        let tool = if seed % 3 == 0 { "calls" } else { "data" };
        let mut client = connect_with(&server, revision, capabilities).await?.answering(answers);
        let talk = client.call(tool, json!({"retries": retries})).await?;
        assert!(!talk.is_error(), "seed {seed}: {}", talk.text());
        assert!(talk.asked.len() as u64 <= retries + 1, "seed {seed}: asked {} times", talk.asked.len());
        match talk.result["structuredContent"].get("attempts") {
            Some(attempts) => {
                assert_eq!(*attempts, retries + 1, "seed {seed}");
                failed += 1;
            }
            None => good += 1,
        }
    }
    // Neither outcome is rare, or the test would prove little.
    assert!(good > 200 && failed > 200, "{good} good, {failed} failed");
    Ok(())
}

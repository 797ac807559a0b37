//! The tools of `cargo xtask chaos asking`: they ask for words, and change the world before and after each answer.

use std::{collections::BTreeMap, sync::Arc};

use antiphon::{ServerBuilder, elicitation::AskPolicy, prelude::*, task::TaskPolicy};

use crate::{
    errand::{Seen, change_once},
    ledger::{Ledger, Leg},
};

/// The header that names the caller.
const USER: &str = "x-user";

#[derive(Deserialize, JsonSchema)]
struct Inquiry {
    /// The name of the run, which is unique in the ledger.
    run: String,
    /// Whether to ask a second question.
    asks_twice: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Word {
    /// Any text.
    word: String,
}

/// The result of a run.
#[derive(Serialize, JsonSchema)]
struct Finding {
    run: String,
    /// The answers, as one text.
    text: String,
    /// The answers by question, and the results of the steps by step.
    values: BTreeMap<String, String>,
    /// The steps whose outcome is unknown.
    unknown: Vec<String>,
}

/// Adds the tools, the form for their questions, and the header that names the caller.
pub(crate) fn add_to(server: ServerBuilder) -> ServerBuilder {
    let tool = |name: &str, tasks: TaskPolicy| {
        Tool::new(name, "Asks for words and uses them", inquire).with_tasks(tasks).needs_backend()
    };
    server
        // Clients that die leave runs that wait until their questions expire.
        .with_asking(AskPolicy::default().with_max_waiting(100_000))
        .with_principal(|parts| parts.headers.get(USER)?.to_str().ok().map(str::to_owned))
        // The front end starts the run of the first tool, and a worker the run of the second.
        .tool(tool("inquire", TaskPolicy::WhenLong))
        .tool(tool("inquire_later", TaskPolicy::Always))
}

async fn inquire(ctx: &Ctx, inquiry: Inquiry) -> Result<Json<Finding>> {
    let Inquiry { run, asks_twice } = inquiry;
    let leg = Arc::new(ctx.state::<Arc<Ledger>>()?.leg(&run)?);
    let mut seen = Seen::default();
    act(ctx, &leg, "begin", &mut seen).await?;
    let mut text = format!("{run}: {}", hear(ctx, &leg, "word", &mut seen).await?);
    act(ctx, &leg, "use", &mut seen).await?;
    if asks_twice {
        text = format!("{text} and {}", hear(ctx, &leg, "second_word", &mut seen).await?);
        act(ctx, &leg, "use_again", &mut seen).await?;
    }
    let Seen { values, unknown } = seen;
    Ok(Json(Finding { run, text, values, unknown }))
}

/// Runs a step at most once. The ledger receives all answers that the tool has seen.
async fn act(ctx: &Ctx, leg: &Arc<Leg>, step: &'static str, seen: &mut Seen) -> Result<()> {
    let done =
        ctx.step_with_key(step, |_| change_once(Arc::clone(leg), step, seen.clone())).at_most_once().await;
    seen.add_once(leg, step, done)
}

/// Asks a question, and notes the answer in the ledger.
async fn hear(ctx: &Ctx, leg: &Leg, key: &str, seen: &mut Seen) -> Result<String> {
    let message = format!("Which word for {}?", leg.run);
    let Word { word } = ctx.elicit::<Word>(message).key(key).await?.accepted()?;
    seen.add(leg, key, word.clone())?;
    Ok(word)
}

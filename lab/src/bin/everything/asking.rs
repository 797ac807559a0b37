//! Tools that ask, and go on with the answer.
//!
//! None of them knows of requests, rounds or states. On 2025-11-25 each question is a request to the
//! client. On 2026-07-28 the call is answered with the questions that wait, under their keys, and the
//! client calls again with the answers. The suite looks for some keys by name.

use antiphon::{Capability, ServerBuilder, prelude::*};

pub(crate) fn add_to(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(Tool::new("test_sampling", "Asks the client's model what you ask", sampling))
        .tool(Tool::new("test_sampling_data", "Asks the client's model for data", data))
        .tool(Tool::new("test_missing_capability", "Needs a client with a model", summary))
        .tool(Tool::new("test_streaming_elicitation", "Asks for your name", greeting))
        .tool(Tool::new("test_input_required_result_elicitation", "Asks for your name", greeting))
        .tool(Tool::new("test_input_required_result_sampling", "Asks the client's model", capital))
        .tool(Tool::new("test_input_required_result_list_roots", "Asks for the client's roots", list_roots))
        .tool(Tool::new("test_input_required_result_request_state", "Asks you to confirm", confirm))
        .tool(Tool::new("test_input_required_result_tampered_state", "Asks you to confirm", confirm))
        .tool(Tool::new("test_input_required_result_multiple_inputs", "Asks three at once", three_at_once))
        .tool(Tool::new("test_input_required_result_multi_round", "Asks twice in a row", twice))
        .tool(Tool::new(
            "test_input_required_result_capabilities",
            "Asks only what the client can answer",
            what_is_supported,
        ))
}

#[derive(Deserialize, JsonSchema)]
struct Question {
    /// What to ask the model.
    prompt: String,
}

async fn sampling(ctx: &Ctx, arguments: Question) -> Result<String> {
    let reply = ctx.sample(arguments.prompt).max_tokens(100).await?;
    Ok(format!("LLM response: {}", reply.text()))
}

/// What the model is asked for. It goes out as the tool `__schema__`.
#[derive(Deserialize, JsonSchema)]
struct Trip {
    /// A city.
    destination: String,
}

/// Asked once: a client that does not know what to do with tools shows it.
async fn data(ctx: &Ctx, _: ()) -> Result<String> {
    let trip = ctx.sample_schema::<Trip>("Where to?").retries(0).max_tokens(100).await?;
    Ok(format!("The model chose {}", trip.parsed.destination))
}

/// A client without a model is told what it lacks: nothing is to be done here.
async fn summary(ctx: &Ctx, _: ()) -> Result<String> {
    let reply = ctx.sample("Say in one sentence what a conformance suite is for.").max_tokens(100).await?;
    Ok(reply.text())
}

// A form with one field. A question's key is the name of its form: `user_name`.
#[derive(Deserialize, JsonSchema)]
struct UserName {
    name: String,
}

async fn greeting(ctx: &Ctx, _: ()) -> Result<String> {
    let UserName { name } = ctx.elicit("What is your name?").await?.accepted()?;
    Ok(format!("Hello, {name}!"))
}

async fn capital(ctx: &Ctx, _: ()) -> Result<String> {
    let question = ctx.sample("What is the capital of France?").key("capital_question").max_tokens(100);
    Ok(question.await?.text())
}

async fn list_roots(ctx: &Ctx, _: ()) -> Result<String> {
    let roots = ctx.roots().key("client_roots").await?;
    Ok(format!("The client's roots: {}", uris(&roots)))
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

/// What the tool has seen travels sealed, in the client's hands. A client that changes it is refused
/// before the tool runs, so that the tool need not look.
async fn confirm(ctx: &Ctx, _: ()) -> Result<&'static str> {
    let Confirm { ok } = ctx.elicit("Please confirm").await?.accepted()?;
    Ok(if ok { "state-ok: confirmed" } else { "state-ok: not confirmed" })
}

/// Questions that are awaited together leave together.
async fn three_at_once(ctx: &Ctx, _: ()) -> Result<String> {
    let (name, reply, roots) = tokio::join!(
        ctx.elicit::<UserName>("What is your name?"),
        ctx.sample("Generate a greeting").key("greeting").max_tokens(50),
        ctx.roots().key("client_roots"),
    );
    let UserName { name } = name?.accepted()?;
    Ok(format!("{} {name} works in {}", reply?.text(), uris(&roots?)))
}

#[derive(Deserialize, JsonSchema)]
struct Color {
    color: String,
}

/// The second question is not asked before the first is answered.
async fn twice(ctx: &Ctx, _: ()) -> Result<String> {
    let first = ctx.elicit::<UserName>("Step 1: What is your name?").key("step1");
    let UserName { name } = first.await?.accepted()?;
    let second = ctx.elicit::<Color>("Step 2: What is your favorite color?").key("step2");
    let Color { color } = second.await?.accepted()?;
    Ok(format!("{name} likes {color}"))
}

async fn what_is_supported(ctx: &Ctx, _: ()) -> Result<String> {
    let mut said = Vec::new();
    if ctx.supports(Capability::Elicitation).await? {
        let UserName { name } = ctx.elicit("What is your name?").await?.accepted()?;
        said.push(format!("the person is {name}"));
    }
    if ctx.supports(Capability::Sampling).await? {
        let reply = ctx.sample("What is the capital of France?").key("capital_question").await?;
        said.push(format!("the model says {}", reply.text()));
    }
    if ctx.supports(Capability::Roots).await? {
        let roots = ctx.roots().key("client_roots").await?;
        said.push(format!("the client has {}", uris(&roots)));
    }
    if said.is_empty() {
        return Ok("There is nobody to ask".into());
    }
    Ok(said.join("; "))
}

fn uris(roots: &[antiphon::ctx::Root]) -> String {
    roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join(", ")
}

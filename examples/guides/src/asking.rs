use antiphon::{exchange::History, prelude::*, sampling::ToolDefinition, testing::Answers};
use serde_json::json;

// ANCHOR: schema
#[derive(Deserialize, JsonSchema)]
struct Move {
    #[schemars(range(min = 0, max = 8))]
    cell: u8,
}

async fn pick(ctx: &Ctx, board: &mut [char; 9]) -> Result<()> {
    let empty: Vec<usize> = (0..9).filter(|cell| board[*cell] == ' ').collect();
    let reply = ctx.sample_schema::<Move>(format!("Pick a cell. Empty: {empty:?}")).retries(3).await?;
    board[usize::from(reply.parsed.cell)] = 'X';
    Ok(())
}
// ANCHOR_END: schema

#[derive(Deserialize, JsonSchema)]
struct Attack {
    reasoning: String,
}

#[derive(Deserialize, JsonSchema)]
struct Defend {
    threat: String,
}

#[derive(Deserialize, JsonSchema)]
struct PickMove {
    cell: u8,
}

// ANCHOR: tools
fn strategies() -> [ToolDefinition; 2] {
    [ToolDefinition::of::<Attack>("play_offensive"), ToolDefinition::of::<Defend>("play_defensive")]
}

async fn is_bold(ctx: &Ctx) -> Result<bool> {
    let plan = ctx.sample_tools("Choose your strategy.", strategies()).await?;
    Ok(plan.calls[0].name == "play_offensive")
}
// ANCHOR_END: tools

// ANCHOR: history
async fn turn(ctx: &Ctx, history: &mut History) -> Result<()> {
    let plan = ctx.sample_tools("Choose your strategy.", strategies()).history(history).await?;
    history.push(plan.exchange.close_with(|call| format!("Playing {}.", call.name)))?;
    let reply = ctx.sample_schema::<Move>("Now pick a cell.").history(history).await?;
    history.push(reply.exchange)?;
    let pick = ctx.elicit::<PickMove>("Your turn").await?.into_answer()?;
    history.push(pick.exchange())?;
    Ok(())
}
// ANCHOR_END: history

// ANCHOR: answers
fn answers() -> Answers {
    Answers::new()
        .calls("sample_tools", &[("play_offensive", json!({"reasoning": "why not"}))])
        .sample("sample_schema", "I take the centre.") // invalid, so the server asks again
        .data("sample_schema", json!({"cell": 4}))
}
// ANCHOR_END: answers

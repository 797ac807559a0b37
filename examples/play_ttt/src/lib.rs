//! One call of `play_ttt` is one game of tic-tac-toe: a person against a model.
//!
//! The toss is made once, the game is a conversation that any replica can go on with, and the result is drawn up once.

mod board;
mod ending;

use std::time::Duration;

use antiphon::{
    ErrorKind, Level, ServerBuilder, elicitation::ElicitKey, exchange::History, prelude::*,
    sampling::ToolDefinition, task::TaskConfig, tool::handoff,
};
use serde_json::{Map, Value, json};

pub use crate::board::{Board, Mark};
use crate::ending::{Ending, Fitted};

/// How to begin.
#[derive(Debug, Deserialize, JsonSchema)]
struct Play {
    /// Makes the toss come out the same every time.
    seed: Option<i64>,
}

/// The strategy of a model that sees a chance.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by whoever is shown the strategy")]
struct Offensive {
    /// What the plan is, in a few words.
    #[schemars(length(max = 60))]
    reasoning: String,
}

/// The strategy of a model that sees a danger.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by whoever is shown the strategy")]
struct Defensive {
    /// What the opponent is about to do, in a few words.
    #[schemars(length(max = 60))]
    threat: String,
}

/// The model's move.
#[derive(Debug, Deserialize, JsonSchema)]
struct Move {
    /// Where to play: 0 to 8, row by row.
    #[schemars(range(min = 0, max = 8))]
    cell: usize,
}

/// The person's move.
#[derive(Debug, Deserialize, JsonSchema)]
struct PickMove {
    /// Where to play: 0 to 8, row by row.
    #[schemars(title = "Cell", range(min = 0, max = 8))]
    cell: usize,
}

/// The key under which a client can have a board of its own.
const PICK_MOVE: ElicitKey<PickMove> = ElicitKey::new("pickMove");

/// How often the person is asked again for a cell that is free.
const PERSON_RETRIES: u32 = 20;

/// A game under way. Everything in it follows from what was recorded.
#[derive(Debug)]
struct Game {
    board: Board,
    you: Mark,
    last: Option<usize>,
    strategy: Option<String>,
    history: History,
    fitted: Fitted,
}

async fn play_ttt(ctx: &Ctx, Play { seed }: Play) -> Result<Ending> {
    handoff(
        ctx,
        || async { Ok(toss(seed)) },
        async |ctx, you| play(ctx, *you).await,
        |you: Mark, (board, fitted, cancelled)| async move { Ok(Ending::new(you, board, fitted, cancelled)) },
    )
    .await
}

/// Tosses for the person's mark.
pub fn toss(seed: Option<i64>) -> Mark {
    let mut random =
        seed.map_or_else(fastrand::Rng::new, |seed| fastrand::Rng::with_seed(seed.cast_unsigned()));
    if random.bool() { Mark::X } else { Mark::O }
}

/// Plays until there is nothing left to play for, or the person has enough of it.
async fn play(ctx: &Ctx, you: Mark) -> Result<(Board, Fitted, bool)> {
    let mut game = Game {
        board: Board::default(),
        you,
        last: None,
        strategy: None,
        history: History::new(),
        fitted: Fitted::default(),
    };
    let mut turn = Mark::X;
    while !game.board.is_over() {
        let cell = if turn == you { game.ask_person(ctx).await? } else { Some(game.ask_model(ctx).await?) };
        let Some(cell) = cell else { return Ok((game.board, game.fitted, true)) };
        game.board.place(cell, turn).map_err(Error::tool)?;
        game.last = Some(cell);
        turn = turn.other();
    }
    Ok((game.board, game.fitted, false))
}

impl Game {
    /// The person's move; none if they do not want to go on.
    async fn ask_person(&mut self, ctx: &Ctx) -> Result<Option<usize>> {
        let asked = ctx
            .elicit_as(PICK_MOVE, format!("Your turn. You play {}.", self.you))
            .context(&self.shown())
            .check(|picked| self.board.check(picked.cell))
            .retries(PERSON_RETRIES)
            .await?;
        let Elicited::Accept(answer) = asked else { return Ok(None) };
        let board = Map::from_iter([("board".to_owned(), json!(self.board))]);
        self.history.push(answer.exchange().with_arguments(board))?;
        Ok(Some(answer.value.cell))
    }

    /// The model's move: a strategy first, then a cell.
    async fn ask_model(&mut self, ctx: &Ctx) -> Result<usize> {
        let (board, model, free) = (self.board, self.you.other(), self.board.free());
        ctx.log(Level::Info, "the model is thinking");
        ctx.progress(Progress::of(board.played(), 9).message("The model is thinking"));
        let system = format!("You play tic-tac-toe as {model} against {}. Three in a line win.", self.you);
        let plan = ctx
            .sample_tools(
                format!("The board:\n{board}\nIt is your turn. Choose your strategy."),
                strategies(),
            )
            .key("strategy")
            .system(&system)
            .history(&self.history)
            .max_tokens(300)
            .retries(3)
            .await;
        self.strategy = None;
        if let Some(plan) = unless_too_weak(plan)? {
            let call = plan.calls.first();
            let reason = call.arguments.values().find_map(Value::as_str).unwrap_or_default();
            self.strategy = Some(format!("{}: {reason}", call.name));
            self.fitted.strategies += 1;
            self.history.push(plan.exchange.close_with(|call| format!("Good: {}.", call.name)))?;
        }
        // Small models copy what they see: they are shown what fits.
        let fitting: Vec<String> = free.iter().map(|cell| json!({"cell": cell}).to_string()).collect();
        let picked = ctx
            .sample_schema::<Move>(format!("Now play your {model} in a free cell: {}.", fitting.join(" or ")))
            .key("move")
            .system(&system)
            .history(&self.history)
            .check(|picked| board.check(picked.cell))
            .max_tokens(300)
            .retries(3)
            .await;
        let Some(picked) = unless_too_weak(picked)? else { return Ok(free[0]) };
        self.fitted.moves += 1;
        self.history.push(picked.exchange)?;
        Ok(picked.parsed.cell)
    }

    /// What a client that draws the board is told.
    fn shown(&self) -> Value {
        let Self { board, you, last, strategy, .. } = self;
        json!({"board": board, "you": you, "model": you.other(), "lastMove": last, "strategy": strategy})
    }
}

/// A model that cannot do what it is asked, however often, still plays.
fn unless_too_weak<T>(sampled: Result<T>) -> Result<Option<T>> {
    match sampled {
        Err(error) if matches!(error.kind(), ErrorKind::SampleValidation(_)) => Ok(None),
        sampled => sampled.map(Some),
    }
}

fn strategies() -> [ToolDefinition; 2] {
    [
        ToolDefinition::of::<Offensive>("play_offensive").with_description("Play to win."),
        ToolDefinition::of::<Defensive>("play_defensive").with_description("Keep the opponent from winning."),
    ]
}

/// The server, but for its model and for where its tasks are kept.
pub fn server() -> ServerBuilder {
    // A game has more turns than a client of 2026-07-28 has rounds: it becomes a task on the way.
    let tasks = TaskConfig::default().with_poll_interval(Duration::from_millis(200));
    let tool = Tool::new("play_ttt", "Plays a game of tic-tac-toe: you against a model", play_ttt)
        .elicits_as(PICK_MOVE);
    // It has no secrets, and `antiphon studio` shows how it is played.
    Server::builder("play_ttt", "1.0.0").with_tasks(tasks).with_traces(true).tool(tool)
}

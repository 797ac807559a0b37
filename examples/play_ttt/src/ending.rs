//! What is made of a game when it is over.

use antiphon::{ToolOutput, prelude::*, tool::IntoToolOutput};
use serde_json::{Map, Value};

use crate::board::{Board, Mark};

/// How a game ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    YouWin,
    ModelWins,
    Draw,
    Cancelled,
}

/// How many of the model's replies were what they were asked to be. The others were replaced: no strategy, or the first
/// free cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Fitted {
    pub(crate) strategies: u32,
    pub(crate) moves: u32,
}

/// The result of the tool.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Ending {
    outcome: Outcome,
    winner: Option<Mark>,
    you: Mark,
    model: Mark,
    board: Board,
    /// The three cells that won.
    line: Option<[usize; 3]>,
    message: String,
    /// How many strategies and moves of the model fitted.
    fitted: Fitted,
}

impl Ending {
    pub(crate) fn new(you: Mark, board: Board, fitted: Fitted, cancelled: bool) -> Self {
        let (winner, line) = board.won().unzip();
        let (outcome, message) = match winner {
            Some(winner) if winner == you => (Outcome::YouWin, format!("You win with {you}.")),
            Some(winner) => (Outcome::ModelWins, format!("The model wins with {winner}.")),
            None if cancelled => (Outcome::Cancelled, "The game was called off.".into()),
            None => (Outcome::Draw, "A draw.".into()),
        };
        Self { outcome, winner, you, model: you.other(), board, line, message, fitted }
    }
}

impl IntoToolOutput for Ending {
    fn output_schema() -> Option<Map<String, Value>> {
        Json::<Self>::output_schema()
    }

    fn into_tool_output(self) -> Result<ToolOutput> {
        let text = format!("{}\n\n{}", self.message, self.board);
        Ok(ToolOutput::text(text).with_structured(serde_json::to_value(self)?))
    }
}

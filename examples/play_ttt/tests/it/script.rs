//! A person and a model who play by script.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use antiphon::testing::Answers;
use antiphon_host::{Endpoint, Form, Host, HostBuilder, Lifecycle, Shown};
use antiphon_llm::{Block, Reply, Request, Scripted};
use play_ttt::Mark;
use serde_json::{Value, json};

/// How a game ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    YouWin,
    ModelWins,
    Draw,
    Declined,
    Closed,
}

/// A game: what each side plays, in order.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) you: Mark,
    pub(crate) end: End,
    pub(crate) person: Vec<usize>,
    pub(crate) model: Vec<usize>,
}

impl Script {
    /// Long games: each has more questions than a client of 2026-07-28 takes in rounds.
    pub(crate) fn new(you: Mark, end: End) -> Self {
        let x_wins = (vec![0, 1, 5, 6, 2], vec![3, 4, 7, 8]);
        let o_wins = (vec![0, 1, 6, 7], vec![3, 4, 8, 5]);
        let draw = (vec![0, 2, 3, 7, 8], vec![1, 4, 5, 6]);
        let (x, o) = match (end, you) {
            (End::YouWin, Mark::X) | (End::ModelWins, Mark::O) => x_wins,
            (End::YouWin, Mark::O) | (End::ModelWins, Mark::X) => o_wins,
            (End::Draw | End::Declined | End::Closed, _) => draw,
        };
        let (mut person, model) = if you == Mark::X { (x, o) } else { (o, x) };
        if matches!(end, End::Declined | End::Closed) {
            person.truncate(3);
        }
        Self { you, end, person, model }
    }

    /// Every ending with either mark.
    pub(crate) fn all() -> Vec<Self> {
        let ends = [End::YouWin, End::ModelWins, End::Draw, End::Declined, End::Closed];
        ends.into_iter().flat_map(|end| [Self::new(Mark::X, end), Self::new(Mark::O, end)]).collect()
    }

    pub(crate) fn arguments(&self) -> Value {
        arguments(self.you)
    }

    /// Both sides, for the test client.
    pub(crate) fn answers(&self) -> Answers {
        let mut answers = Answers::new();
        for cell in &self.model {
            answers = answers.calls("strategy", &[strategy(*cell)]).data("move", json!({"cell": cell}));
        }
        for cell in &self.person {
            answers = answers.accept("pickMove", json!({"cell": cell}));
        }
        match self.end {
            End::Declined => answers.decline("pickMove"),
            End::Closed => answers.cancel("pickMove"),
            End::YouWin | End::ModelWins | End::Draw => answers,
        }
    }

    /// What the person does when they are asked for the `nth` time.
    pub(crate) fn shown(&self, nth: usize) -> Shown {
        match (self.person.get(nth), self.end) {
            (Some(cell), _) => Shown::Accept(json!({"cell": cell})),
            (None, End::Closed) => Shown::Cancel,
            (None, _) => Shown::Decline,
        }
    }

    /// A model that plays its side, wherever it is asked.
    pub(crate) fn scripted(&self) -> Scripted {
        let (cells, at) = (self.model.clone(), AtomicUsize::new(0));
        Scripted::new().otherwise(move |request: &Request| {
            let cell = cells[at.load(Ordering::SeqCst)];
            let id = format!("call_{cell}_{}", request.tools.len());
            let call = if request.tools[0].name == "__schema__" {
                at.fetch_add(1, Ordering::SeqCst);
                Block::tool_use(id, "__schema__", json!({"cell": cell}))
            } else {
                let (name, input) = strategy(cell);
                Block::tool_use(id, name, input)
            };
            Ok(Reply::new("scripted", call))
        })
    }

    /// A host with the person, and what they were shown.
    pub(crate) fn host(&self, lifecycle: Lifecycle) -> (HostBuilder, Shows) {
        let (script, shows) = (self.clone(), Shows::default());
        let seen = shows.clone();
        let person = move |form: Form| {
            let mut seen = seen.0.lock().unwrap();
            let shown = script.shown(seen.len());
            seen.push(form);
            std::future::ready(shown)
        };
        (Host::builder("player", "1").with_lifecycle(lifecycle).with_form("pickMove", person), shows)
    }

    /// Whether a result is this game's.
    pub(crate) fn check(&self, result: &Value) {
        let (x, o) =
            if self.you == Mark::X { (&self.person, &self.model) } else { (&self.model, &self.person) };
        let called_off = matches!(self.end, End::Declined | End::Closed);
        // The model has played what the person has answered, and begins where it is X.
        let played = if !called_off {
            4
        } else if self.you == Mark::X {
            3
        } else {
            4
        };
        let mut board = vec![""; 9];
        x.iter().take(if called_off { played } else { 5 }).for_each(|cell| board[*cell] = "X");
        o.iter().take(if called_off { 3 } else { 4 }).for_each(|cell| board[*cell] = "O");
        let (you, model) = (self.you, self.you.other());
        let (outcome, winner, message) = match self.end {
            End::YouWin => ("you_win", Some(you), format!("You win with {you}.")),
            End::ModelWins => ("model_wins", Some(model), format!("The model wins with {model}.")),
            End::Draw => ("draw", None, "A draw.".to_owned()),
            End::Declined | End::Closed => ("cancelled", None, "The game was called off.".to_owned()),
        };
        let line = winner.map(|winner| if winner == Mark::X { [0, 1, 2] } else { [3, 4, 5] });
        let answered = board.iter().filter(|cell| **cell == model.to_string()).count();
        let expected = json!({
            "outcome": outcome, "winner": winner, "you": you, "model": model, "board": board, "line": line,
            "message": message, "fitted": {"strategies": answered, "moves": answered},
        });
        assert_eq!(result["structuredContent"], expected, "{self:?}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with(&message) && text.contains("---+---+---"), "{text}");
    }
}

/// Arguments that give the person this mark.
pub(crate) fn arguments(you: Mark) -> Value {
    let seed = (0..64).find(|seed| play_ttt::toss(Some(*seed)) == you).unwrap();
    json!({"seed": seed})
}

fn strategy(cell: usize) -> (&'static str, Value) {
    if cell.is_multiple_of(2) {
        ("play_offensive", json!({"reasoning": format!("{cell} is mine")}))
    } else {
        ("play_defensive", json!({"threat": format!("they want {cell}")}))
    }
}

/// The forms a person was shown.
#[derive(Clone, Default)]
pub(crate) struct Shows(Arc<Mutex<Vec<Form>>>);

impl Shows {
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A server in this process.
pub(crate) fn endpoint(server: &antiphon::Server) -> Endpoint {
    let server = server.clone();
    Endpoint::stream("in-process", move || {
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = server.clone();
        tokio::spawn(async move { server.serve_stream(far).await });
        std::future::ready(Ok::<_, std::io::Error>(near))
    })
}

/// Where a service is, if it runs.
#[expect(clippy::print_stderr, reason = "who runs the tests should know what they do not check")]
pub(crate) fn service(variable: &str, command: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{variable} is not set; run `{command}`");
        eprintln!("skipped: {variable} is not set; run `{command}`");
    }
    url
}

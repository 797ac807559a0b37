//! Games against a real model: SmolLM2 behind llama.cpp's own server, over HTTP.
//!
//! It has 135 million parameters and plays badly. The game must reach its end all the same, every time; and of all its
//! replies, at least one strategy and one move must be what they were asked to be.

use std::time::Instant;

use antiphon_host::{Endpoint, Form, Host, HostBuilder, Lifecycle, Shown};
use antiphon_llm::providers::{OpenAiCompatible, ProviderConfig};
use play_ttt::Mark;
use serde_json::json;

use crate::{
    processes::Process,
    script::{arguments, service},
};

fn served() -> Option<String> {
    let url = service("ANTIPHON_TEST_SMOLLM_URL", "cargo xtask models")?;
    Some(format!("{}/v1", url.trim_end_matches('/')))
}

/// Somebody who looks at the board and takes the last free cell.
fn person(lifecycle: Lifecycle) -> HostBuilder {
    Host::builder("person", "1").with_lifecycle(lifecycle).with_form("pickMove", |form: Form| {
        let context = form.context.unwrap();
        let board = context["board"].as_array().unwrap();
        let free = board.iter().rposition(|cell| cell == "").unwrap();
        std::future::ready(Shown::Accept(json!({"cell": free})))
    })
}

#[expect(clippy::print_stdout, reason = "how long a game takes is worth knowing")]
async fn play(host: &Host, server: &Process, you: Mark) -> Fitted {
    let begun = Instant::now();
    let connection = host.connect(Endpoint::http(&server.url)).await.unwrap();
    let result = json!(connection.call("play_ttt", arguments(you)).await.unwrap());
    let ending = &result["structuredContent"];
    println!("{:.1} s: {}", begun.elapsed().as_secs_f64(), result["content"][0]["text"].as_str().unwrap());
    let outcome = ending["outcome"].as_str().unwrap_or_else(|| panic!("no ending: {result}"));
    assert!(["you_win", "model_wins", "draw"].contains(&outcome), "{result}");
    assert_eq!(ending["you"], json!(you));
    let marks = |mark: &str| ending["board"].as_array().unwrap().iter().filter(|cell| *cell == mark).count();
    assert!(marks("X") == marks("O") || marks("X") == marks("O") + 1, "{result}");
    let fitted = |what: &str| ending["fitted"][what].as_u64().unwrap();
    Fitted { strategies: fitted("strategies"), moves: fitted("moves") }
}

/// How many replies of the model were what they were asked to be.
#[derive(Debug, Default)]
struct Fitted {
    strategies: u64,
    moves: u64,
}

impl Fitted {
    fn add(&mut self, game: &Self) {
        self.strategies += game.strategies;
        self.moves += game.moves;
    }

    /// A model that never does as it is asked has tested nothing but what replaces it.
    fn check(&self) {
        assert!(self.strategies >= 1 && self.moves >= 1, "no reply of the model fitted: {self:?}");
    }
}

/// How many games are played on each way. Each takes half a minute or more, so a release plays more of them.
fn games() -> usize {
    std::env::var("ANTIPHON_SMOLLM_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1)
}

/// In rounds, and in a task if it takes long.
#[tokio::test]
async fn smollm2_plays_to_the_end_through_a_client_that_samples() {
    let Some(url) = served() else { return };
    let server = Process::start(&[], None).await;
    let config = ProviderConfig::local().with_base_url(&url).with_model("smollm2");
    let host = person(Lifecycle::Modern).with_model(OpenAiCompatible::new(config).unwrap()).build();
    let mut fitted = Fitted::default();
    for game in 0..games() {
        fitted.add(&play(&host, &server, [Mark::O, Mark::X][game % 2]).await);
    }
    fitted.check();
}

/// In a session, of a client that cannot sample.
#[tokio::test]
async fn smollm2_plays_to_the_end_where_the_server_has_the_model() {
    let Some(url) = served() else { return };
    let server = Process::start(&[], Some(&url)).await;
    let host = person(Lifecycle::Legacy).build();
    let mut fitted = Fitted::default();
    for game in 0..games() {
        fitted.add(&play(&host, &server, [Mark::X, Mark::O][game % 2]).await);
    }
    fitted.check();
}

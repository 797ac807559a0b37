//! What servers ask, and who answers.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use antiphon::{exchange::History, prelude::*};
use antiphon_host::{
    Approval, BoxFuture, Defaults, Error as HostError, Form, Host, HostLimits, Refused, Root, Shown,
};
use antiphon_llm::{Block, Reply, Request, SCHEMA_TOOL, Scripted};
use serde_json::{Value, json};

use crate::support::{BOTH, endpoint};

#[derive(Deserialize, JsonSchema)]
struct Pick {
    #[schemars(range(min = 0, max = 8))]
    cell: u8,
}

async fn play(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    let mut history = History::new();
    let mine = ctx.sample_schema::<Pick>("Pick a cell").history(&history).await?;
    let cell = mine.parsed.cell;
    history.push(mine.exchange)?;
    let yours = ctx.elicit::<Pick>("Your turn").key("pick_move").context(&json!({"board": cell})).await?;
    let roots = ctx.roots().await?;
    Ok(Json(json!({"mine": cell, "yours": yours.accepted()?.cell, "roots": roots.len()})))
}

fn server() -> Server {
    Server::builder("game", "1.0.0").tool(Tool::new("play", "Plays", play)).build().unwrap()
}

fn data(request: &Request) -> Reply {
    assert_eq!(request.tools[0].name, SCHEMA_TOOL);
    Reply::new("m", Block::tool_use("c", SCHEMA_TOOL, json!({"cell": 4})))
}

#[tokio::test]
async fn one_host_answers_samples_forms_and_roots_on_both_revisions() {
    for lifecycle in BOTH {
        let shown = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&shown);
        let host = Host::builder("h", "1")
            .with_lifecycle(lifecycle)
            .with_model(Scripted::new().otherwise(|request| Ok(data(request))))
            .with_form("pick_move", move |form: Form| {
                seen.lock().unwrap().push((
                    form.key.clone(),
                    form.context.clone(),
                    form.fields[0].name.clone(),
                ));
                async { Shown::Accept(json!({"cell": 7})) }
            })
            .with_roots([Root::new("file:///home/ada").with_name("home")])
            .build();
        let connection = host.connect(endpoint(&server())).await.unwrap();
        let result = connection.call("play", json!({})).await.unwrap();
        assert_eq!(
            result.structured_content,
            Some(json!({"mine": 4, "yours": 7, "roots": 1})),
            "{lifecycle:?}"
        );
        assert_eq!(
            *shown.lock().unwrap(),
            [(Some("pick_move".to_owned()), Some(json!({"board": 4})), "cell".to_owned())]
        );
    }
}

#[tokio::test]
async fn a_host_declares_what_it_was_given_and_nothing_else() {
    for lifecycle in BOTH {
        let host = Host::builder("h", "1").with_lifecycle(lifecycle).build();
        let connection = host.connect(endpoint(&server())).await.unwrap();
        let answer = connection.call("play", json!({})).await;
        let said = match answer {
            Ok(result) => json!(result.content).to_string(),
            Err(error) => error.to_string(),
        };
        assert!(said.contains("the client has not declared `sampling`"), "{said}");
    }
}

/// Somebody who puts in a word of their own, or refuses.
struct Censor {
    refuse_request: bool,
    refuse_reply: bool,
}

impl Approval for Censor {
    fn request(&self, mut request: Request) -> BoxFuture<'_, Result<Request, Refused>> {
        request.system_prompt = Some("Be polite.".into());
        Box::pin(std::future::ready(if self.refuse_request { Err(Refused) } else { Ok(request) }))
    }

    fn reply<'a>(&'a self, _: &'a Request, mut reply: Reply) -> BoxFuture<'a, Result<Reply, Refused>> {
        reply.content = vec![Block::text("edited")];
        Box::pin(std::future::ready(if self.refuse_reply { Err(Refused) } else { Ok(reply) }))
    }
}

#[tokio::test]
async fn a_person_may_edit_or_refuse_what_is_asked_and_what_is_replied() {
    async fn ask(ctx: &Ctx, _: ()) -> Result<String> {
        Ok(ctx.sample("?").await?.text())
    }
    let server = Server::builder("s", "1").tool(Tool::new("ask", "Asks", ask)).build().unwrap();
    for (refuse_request, refuse_reply, asked) in [(false, false, 1), (true, false, 0), (false, true, 1)] {
        for lifecycle in BOTH {
            let model = Arc::new(Scripted::new().otherwise(|request| {
                assert_eq!(request.system_prompt.as_deref(), Some("Be polite."));
                Ok(Reply::new("m", "raw"))
            }));
            let host = Host::builder("h", "1")
                .with_lifecycle(lifecycle)
                .with_model(Arc::clone(&model))
                .with_approval(Censor { refuse_request, refuse_reply })
                .build();
            let connection = host.connect(endpoint(&server)).await.unwrap();
            let answer = connection.call("ask", json!({})).await;
            let refused = refuse_request || refuse_reply;
            let said = match &answer {
                Ok(result) => json!(result.content).to_string(),
                Err(error) => error.to_string(),
            };
            assert!(
                said.contains(if refused { "User rejected sampling request" } else { "edited" }),
                "{said}"
            );
            assert_eq!(model.requests().len(), asked);
        }
    }
}

#[tokio::test]
async fn a_form_without_a_handler_of_its_own_goes_to_the_one_for_all() {
    async fn ask(ctx: &Ctx, _: ()) -> Result<String> {
        let schema = json!({"type": "object", "required": ["name", "age"], "properties": {
            "name": {"type": "string", "default": "John Doe"}, "age": {"type": "integer", "default": 30},
            "note": {"type": "string"},
        }});
        Ok(ctx.elicit_value("who", "Who?", schema).await?.accepted()?.to_string())
    }
    let server = Server::builder("s", "1").tool(Tool::new("ask", "Asks", ask)).build().unwrap();
    for lifecycle in BOTH {
        let host = Host::builder("h", "1").with_lifecycle(lifecycle).with_forms(Defaults).build();
        let result = host.connect(endpoint(&server)).await.unwrap().call("ask", json!({})).await.unwrap();
        let said: Value = serde_json::from_str(&result.content[0].as_text().unwrap().text).unwrap();
        assert_eq!(said, json!({"name": "John Doe", "age": 30}));
    }
}

#[tokio::test]
async fn the_questions_of_a_round_are_answered_a_few_at_a_time() {
    async fn many(ctx: &Ctx, _: ()) -> Result<String> {
        let asks = (0..8).map(|i| ctx.elicit::<Pick>(format!("Number {i}")).key(&format!("q{i}")));
        let answers = futures_util::future::join_all(asks).await;
        let mut sum = 0;
        for answer in answers {
            sum += u32::from(answer?.accepted()?.cell);
        }
        Ok(sum.to_string())
    }
    let server = Server::builder("s", "1").tool(Tool::new("many", "Asks", many)).build().unwrap();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (here, peak) = (Arc::clone(&now), Arc::clone(&most));
    let host = Host::builder("h", "1")
        .with_lifecycle(antiphon_host::Lifecycle::Modern)
        .with_limits(HostLimits::default().with_concurrent_asks(3))
        .with_forms(move |_: Form| {
            let (here, peak) = (Arc::clone(&here), Arc::clone(&peak));
            async move {
                peak.fetch_max(here.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                here.fetch_sub(1, Ordering::SeqCst);
                Shown::Accept(json!({"cell": 1}))
            }
        })
        .build();
    let result = host.connect(endpoint(&server)).await.unwrap().call("many", json!({})).await.unwrap();
    assert_eq!(result.content[0].as_text().unwrap().text, "8");
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_server_that_keeps_asking_is_given_up() {
    async fn endless(ctx: &Ctx, _: ()) -> Result<String> {
        loop {
            let _ = ctx.elicit::<Pick>("Again?").await?;
        }
    }
    let limits = antiphon::Limits::default().with_max_rounds(100);
    let server = Server::builder("s", "1")
        .tool(Tool::new("endless", "Asks", endless))
        .with_limits(limits)
        .build()
        .unwrap();
    let host = Host::builder("h", "1")
        .with_forms(Defaults)
        .with_limits(HostLimits::default().with_rounds(4))
        .build();
    let error = host.connect(endpoint(&server)).await.unwrap().call("endless", json!({})).await.unwrap_err();
    assert!(matches!(error, HostError::Rounds(4)), "{error}");
}

//! Attacks on questions: a model that calls every tool with forged and foreign tickets, view keys and IDs.
//!
//! Each test counts its attacks by kind, and prints the counts.

mod answers;
mod relay;

use std::{collections::BTreeMap, time::Duration};

use antiphon::{
    elicitation::AskPolicy,
    http::HttpConfig,
    prelude::*,
    seal::{KeyRing, SealConfig},
    task::{RetryPolicy, TaskPolicy},
    testing::{Failed, Revision},
};
use axum::Router;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{
    asking::{apps, key_in},
    asking_clients::{next, next_of},
    checked::connect_with,
    http::post_with,
    tasks::{everything, quick},
};

const ADA: Option<&str> = Some("ada");
const EVE: Option<&str> = Some("eve");

/// All tools of the server for models and forms.
const TOOLS: [&str; 5] = ["task_result", "task_cancel", "task_question", "ask_open", "ask_answer"];

/// The result of `onboard` with the right answers.
const RIGHT: &str = "desk 4, floor 3, true, (App, App)";

#[derive(Deserialize, JsonSchema)]
struct Approval {
    desk: String,
    #[schemars(range(min = 1, max = 9))]
    floor: u8,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    sure: bool,
}

async fn onboard(ctx: &Ctx, _: ()) -> Result<String> {
    let approval = ctx.elicit::<Approval>("May they start?").await?.into_answer()?;
    let sure = ctx.elicit::<Confirmation>("Are you sure?").await?.into_answer()?;
    let Approval { desk, floor } = &approval.value;
    let via = (approval.via(), sure.via());
    Ok(format!("desk {desk}, floor {floor}, {}, {via:?}", sure.value.sure))
}

async fn pick(ctx: &Ctx, _: ()) -> Result<String> {
    let approval = ctx.elicit::<Approval>("Which desk?").await?.into_answer()?;
    Ok(format!("desk {}, {:?}", approval.value.desk, approval.via()))
}

/// A server under attack.
struct Target {
    server: Server,
    app: Router,
    /// The view key of the form.
    view: String,
}

/// A run that waits for its first answer.
struct Waiting {
    id: String,
    ticket: String,
}

fn keys(number: u8) -> KeyRing {
    KeyRing::new(number, [number; 32])
}

impl Target {
    async fn new(name: &str, keys: KeyRing, policy: AskPolicy) -> Self {
        let server = Server::builder(name, "1.0.0")
            .with_tasks(quick().with_retry(RetryPolicy::never()))
            .with_seal(SealConfig::default().with_keys(keys))
            .with_asking(policy)
            .with_principal(|parts| parts.headers.get("x-caller")?.to_str().ok().map(ToOwned::to_owned))
            .tool(Tool::new("onboard", "Takes on a colleague", onboard))
            .tool(Tool::new("pick", "Asks for a desk", pick))
            .tool(Tool::new("pick_later", "Asks for a desk", pick).with_tasks(TaskPolicy::Always))
            .build()
            .unwrap();
        let app = server.router(HttpConfig::default());
        let uri = json!({"uri": "ui://antiphon/form/0"});
        let read = send(app.clone(), None, apps(), "resources/read", uri).await;
        let view = key_in(read["result"]["contents"][0]["text"].as_str().unwrap());
        Self { server, app, view }
    }

    async fn onboarding() -> Self {
        Self::new("onboarding", keys(1), AskPolicy::default()).await
    }

    /// Calls a tool as a client with apps, and returns the response.
    async fn call(&self, caller: Option<&str>, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        send(self.app.clone(), caller, apps(), "tools/call", params).await
    }

    /// Calls a method of tasks as a client with everything, and returns the response.
    async fn task(&self, caller: Option<&str>, method: &str, id: &str) -> Value {
        let params = json!({"taskId": id.trim_start_matches("t_"), "inputResponses": approve("5")});
        send(self.app.clone(), caller, everything(), method, params).await
    }

    /// Calls a tool that waits, and opens its form.
    async fn park(&self, caller: Option<&str>, tool: &str) -> Waiting {
        let called = self.call(caller, tool, json!({})).await;
        let id = called["result"]["structuredContent"]["task"]["id"].as_str();
        let id = id.unwrap_or_else(|| panic!("{called}")).to_owned();
        let open = self.call(caller, "ask_open", json!({"view": self.view, "id": id})).await;
        let ticket = open["result"]["structuredContent"]["ticket"].as_str().unwrap().to_owned();
        Waiting { id, ticket }
    }

    /// Answers with the right view key, and returns the response.
    async fn answer(&self, caller: Option<&str>, id: &str, ticket: &str, responses: Value) -> Value {
        let arguments = json!({"view": self.view, "id": id, "ticket": ticket, "responses": responses});
        self.call(caller, "ask_answer", arguments).await
    }

    /// Returns the stored run without its data: its status, its questions, its timeline and its journal.
    async fn stored(&self, id: &str) -> Value {
        let runs = self.server.runs().unwrap();
        let page = runs.list(None, None, 1000).await.unwrap();
        let id = id.trim_start_matches("t_");
        let run = page.runs.iter().find(|run| run.run.ends_with(id)).unwrap();
        json!(runs.inspect(&run.run).await.unwrap().unwrap())
    }

    /// Returns the text of the result of a run.
    async fn result(&self, caller: Option<&str>, id: &str) -> String {
        let answer = self.call(caller, "task_result", json!({"id": id, "wait": 20})).await;
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Gives the right answers to `onboard`, and checks its result.
    async fn finish(&self, caller: Option<&str>, run: &Waiting) {
        let next = self.answer(caller, &run.id, &run.ticket, approve("4")).await;
        let next = &next["result"]["structuredContent"];
        assert!(next["questions"]["confirmation"].is_object(), "{next}");
        let ticket = next["ticket"].as_str().unwrap();
        let done = self.answer(caller, &run.id, ticket, json!({"confirmation": sure()})).await;
        assert_eq!(done["result"]["structuredContent"]["status"], "completed", "{done}");
        assert_eq!(self.result(caller, &run.id).await, RIGHT);
    }
}

/// Sends a 2026-07-28 request, and returns the response.
async fn send(app: Router, caller: Option<&str>, capabilities: Value, method: &str, params: Value) -> Value {
    let task = params["taskId"].as_str().map(ToOwned::to_owned);
    let mut request = post_with(Revision::V2026_07_28, method, params, capabilities);
    for (header, value) in [("x-caller", caller), ("mcp-name", task.as_deref())] {
        if let Some(value) = value {
            request.headers_mut().insert(header, value.parse().unwrap());
        }
    }
    let body = app.oneshot(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{method}: {}", String::from_utf8_lossy(&body)))
}

fn approve(desk: &str) -> Value {
    json!({"approval": {"action": "accept", "content": {"desk": desk, "floor": 3}}})
}

fn sure() -> Value {
    json!({"action": "accept", "content": {"sure": true}})
}

fn is_refused(response: &Value) -> bool {
    response.get("error").is_some() || response["result"]["isError"] == true
}

/// The attacks by kind, and the attacks that were not rejected.
#[derive(Default)]
struct Tally {
    tried: BTreeMap<&'static str, usize>,
    accepted: Vec<String>,
}

impl Tally {
    fn count(&mut self, kind: &'static str, rejected: bool, response: &Value) {
        *self.tried.entry(kind).or_default() += 1;
        if !rejected {
            self.accepted.push(format!("{kind}: {response}"));
        }
    }

    /// Counts a call of a form's tool, which must be rejected with `code`.
    fn refused(&mut self, kind: &'static str, code: &str, response: &Value) {
        let given = &response["result"]["structuredContent"]["error"]["code"];
        self.count(kind, is_refused(response) && *given == *code, response);
    }

    /// Counts a call of `ask_answer`, which must have this status.
    fn has_status(&mut self, kind: &'static str, status: &str, response: &Value) {
        let given = &response["result"]["structuredContent"]["status"];
        self.count(kind, *given == *status, response);
    }

    /// Returns the counts as text. Fails if an attack was accepted.
    fn report(&self) -> String {
        assert!(self.accepted.is_empty(), "{:#?}", self.accepted);
        let total: usize = self.tried.values().sum();
        let kinds: Vec<_> = self.tried.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        format!("{total} attacks, 0 accepted: {}", kinds.join(", "))
    }
}

/// Returns changed copies of a ticket.
fn forgeries(ticket: &str) -> Vec<(&'static str, String)> {
    let mut forged = Vec::new();
    for (at, letter) in ticket.char_indices() {
        let other = if letter == 'A' { 'B' } else { 'A' };
        forged.push(("changed characters", format!("{}{other}{}", &ticket[..at], &ticket[at + 1..])));
        forged.push(("truncated tickets", ticket[..at].to_owned()));
    }
    let bytes = URL_SAFE_NO_PAD.decode(ticket).unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        forged.push(("changed bytes", URL_SAFE_NO_PAD.encode(changed)));
    }
    for added in ["A", "AAAA", "=", " ", "\n"] {
        forged.push(("extended tickets", format!("{ticket}{added}")));
    }
    forged
}

#[tokio::test]
async fn forged_and_foreign_tickets_answer_nothing() {
    // Two runs of the same call.
    let policy = AskPolicy::default().with_joining(false);
    let target = Target::new("onboarding", keys(1), policy).await;
    let mut tally = Tally::default();
    let (run, other) = (target.park(ADA, "onboard").await, target.park(ADA, "onboard").await);
    let before = (target.stored(&run.id).await, target.stored(&other.id).await);
    let mut forged = forgeries(&run.ticket);
    let (characters, bytes) = (run.ticket.len(), run.ticket.len() * 3 / 4);

    forged.push(("tickets of another task", other.ticket.clone()));
    let eves = target.park(EVE, "onboard").await;
    forged.push(("tickets of another caller", eves.ticket.clone()));
    forged.push(("tickets of another caller", target.park(None, "onboard").await.ticket));
    for (name, number) in [("bank", 1), ("onboarding", 2)] {
        let server = Target::new(name, keys(number), AskPolicy::default()).await;
        forged.push(("tickets of another server", server.park(ADA, "onboard").await.ticket));
    }
    let (call, forms) = (json!({"name": "onboard", "arguments": {}}), json!({"elicitation": {"form": {}}}));
    let asked = send(target.app.clone(), ADA, forms, "tools/call", call).await;
    let state = asked["result"]["requestState"].as_str().unwrap().to_owned();
    for token in [state, target.view.clone(), run.id.clone()] {
        forged.push(("other tokens", token));
    }
    for (kind, ticket) in forged {
        tally.refused(kind, "TICKET", &target.answer(ADA, &run.id, &ticket, approve("5")).await);
    }

    // A ticket is for the questions that its form shows.
    let given = approve("5")["approval"].take();
    for key in ["confirmation", "approval@2", "approval#2", "approval~2", "Approval", ""] {
        let response = target.answer(ADA, &run.id, &run.ticket, json!({key: given})).await;
        tally.refused("other questions", "TICKET", &response);
    }
    for responses in [json!({}), json!({"approval": given, "confirmation": sure()})] {
        let response = target.answer(ADA, &run.id, &run.ticket, responses).await;
        tally.refused("other questions", "TICKET", &response);
    }
    // Another caller has the ticket.
    let stolen = target.answer(EVE, &eves.id, &run.ticket, approve("5")).await;
    tally.refused("stolen tickets", "TICKET", &stolen);
    for caller in [EVE, None] {
        for ticket in [&run.ticket, &eves.ticket] {
            let stolen = target.answer(caller, &run.id, ticket, approve("5")).await;
            tally.refused("stolen tickets", "NOT_FOUND", &stolen);
        }
    }
    // A ticket of a question that has expired, at its own server and at another server with the same keys.
    let policy = AskPolicy::default().with_expiry(Duration::from_secs(1));
    let short = Target::new("onboarding", keys(1), policy).await;
    let expired = short.park(ADA, "onboard").await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    for (at, id) in [(&short, &expired.id), (&target, &run.id)] {
        let response = at.answer(ADA, id, &expired.ticket, approve("5")).await;
        tally.refused("expired tickets", "EXPIRED", &response);
    }
    assert!(short.result(ADA, &expired.id).await.contains("not answered in time"));
    assert_eq!((target.stored(&run.id).await, target.stored(&other.id).await), before);

    // A ticket of an earlier question of the same run.
    let next = target.answer(ADA, &other.id, &other.ticket, approve("4")).await;
    assert_eq!(next["result"]["structuredContent"]["status"], "input_required", "{next}");
    let second = target.stored(&other.id).await;
    let early = target.answer(ADA, &other.id, &other.ticket, json!({"confirmation": sure()})).await;
    tally.refused("old tickets", "TICKET", &early);
    let refusals = ["decline", "cancel"].map(|action| json!({"approval": {"action": action}}));
    for responses in refusals.into_iter().chain([approve("5")]) {
        let late = target.answer(ADA, &other.id, &other.ticket, responses).await;
        tally.has_status("old tickets", "used", &late);
    }
    assert_eq!(target.stored(&other.id).await, second);
    target.finish(ADA, &run).await;
    target.finish(ADA, &other).await;

    println!("{}", tally.report());
    let counts = BTreeMap::from([
        ("changed characters", characters),
        ("truncated tickets", characters),
        ("changed bytes", bytes),
        ("extended tickets", 5),
        ("tickets of another task", 1),
        ("tickets of another caller", 2),
        ("tickets of another server", 2),
        ("other tokens", 3),
        ("other questions", 8),
        ("stolen tickets", 5),
        ("expired tickets", 2),
        ("old tickets", 4),
    ]);
    assert_eq!(tally.tried, counts);
    assert!(characters > 150, "{characters}");
}

#[tokio::test]
async fn wrong_view_keys_open_and_answer_nothing() {
    let target = Target::onboarding().await;
    let mut tally = Tally::default();
    let run = target.park(ADA, "onboard").await;
    let before = target.stored(&run.id).await;
    let view = target.view.as_str();

    let texts = [
        String::new(),
        "__VIEW_KEY__".to_owned(),
        "0".repeat(32),
        view.to_uppercase(),
        view.chars().rev().collect(),
        view[..31].to_owned(),
        format!("{view}0"),
        format!(" {view}"),
        format!("{view}\n"),
        view.repeat(100),
        run.id.clone(),
        run.ticket.clone(),
    ];
    let mut wrong: Vec<(&'static str, Value)> = texts.map(|text| ("wrong view keys", json!(text))).into();
    for (at, digit) in view.char_indices() {
        let other = if digit == '0' { '1' } else { '0' };
        let changed = format!("{}{other}{}", &view[..at], &view[at + 1..]);
        wrong.push(("changed view keys", json!(changed)));
    }
    let bank = Target::new("bank", keys(1), AskPolicy::default()).await;
    wrong.push(("view keys of another audience", json!(bank.view)));
    // A server that has only the new key rejects pages with the old one.
    let removed = Target::new("onboarding", keys(2), AskPolicy::default()).await;
    wrong.push(("view keys of another key", json!(removed.view)));
    for (kind, wrong) in wrong {
        let open = json!({"view": wrong, "id": run.id});
        tally.refused(kind, "VIEW", &target.call(ADA, "ask_open", open).await);
        let answer = json!({"view": wrong, "id": run.id, "ticket": run.ticket, "responses": approve("5")});
        tally.refused(kind, "VIEW", &target.call(ADA, "ask_answer", answer).await);
    }
    for wrong in [json!(null), json!(7), json!(true), json!([view]), json!({"view": view})] {
        let open = target.call(ADA, "ask_open", json!({"view": wrong, "id": run.id})).await;
        tally.count("view keys of other types", is_refused(&open), &open);
    }
    let answer = json!({"id": run.id, "ticket": run.ticket, "responses": approve("5")});
    let calls = [("ask_open", json!({"id": run.id})), ("ask_open", json!({})), ("ask_answer", answer)];
    for (tool, arguments) in calls {
        let response = target.call(ADA, tool, arguments).await;
        tally.count("missing view keys", is_refused(&response), &response);
    }
    assert_eq!(target.stored(&run.id).await, before);
    target.finish(ADA, &run).await;

    // While a key is in the ring, forms that were loaded before the change of keys stay valid.
    let ring = keys(3).with_decryption_key(1, [1; 32]);
    let rotated = Target::new("onboarding", ring, AskPolicy::default()).await;
    let waiting = rotated.park(ADA, "onboard").await;
    let open = rotated.call(ADA, "ask_open", json!({"view": view, "id": waiting.id})).await;
    assert_eq!(open["result"]["structuredContent"]["status"], "input_required", "{open}");

    println!("{}", tally.report());
    let counts = BTreeMap::from([
        ("wrong view keys", 24),
        ("changed view keys", 64),
        ("view keys of another audience", 2),
        ("view keys of another key", 2),
        ("view keys of other types", 5),
        ("missing view keys", 3),
    ]);
    assert_eq!(tally.tried, counts);
}

/// Returns 200 IDs with which a caller could look for the task of another caller.
fn foreign_ids(id: &str) -> Vec<(&'static str, String)> {
    let hex = id.trim_start_matches("t_");
    let theirs = [id.to_owned(), hex.to_owned(), format!(" {id} "), format!("\n{hex}\t")];
    let mut bits = 0x2545_f491_4f6c_dd1d_u64;
    let mut next_bits = || {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        bits
    };
    let random = (0..96).map(|_| format!("t_{:016x}{:016x}", next_bits(), next_bits())).collect();
    let shapes = "| |t_|*|t_*|?|%|.*|..|/|0|-1|1e9|null|true|NaN|[]|{}|t_t_#|T_#|t-#|t #|##|#0|0#|../#|./#\
        |/#|#/|#/..|anyone/#|*/#|tasks/#|tasks/anyone/#|due/#|#\0|\0#|#%00|%74_#|#;|#' OR '1'='1|\"#\"|[#]\
        |#,#|#@2|#~1|\u{202e}#|#\u{200b}|\u{feff}#|file:///#|ui://antiphon/form/#|{\"id\":\"#\"}";
    let mut malformed: Vec<_> = shapes.split('|').map(|shape| shape.replace('#', hex)).collect();
    malformed.push(hex.to_uppercase().replace(|digit: char| digit.is_ascii_digit(), "A"));
    malformed.push("a".repeat(10_000));
    malformed.push("\u{1f4a5}".repeat(8));
    for at in 0..32 {
        malformed.push(format!("{}{}", &hex[..at], &hex[at + 1..]));
        malformed.push(format!("{}g{}", &hex[..at], &hex[at + 1..]));
    }
    malformed.truncate(100);
    let of = |kind: &'static str, ids: Vec<String>| ids.into_iter().map(move |id| (kind, id));
    let all = of("IDs of another caller", theirs.into());
    all.chain(of("random IDs", random)).chain(of("malformed IDs", malformed)).collect()
}

#[tokio::test]
async fn ids_of_others_and_unknown_ids_get_the_same_answer() {
    let target = Target::onboarding().await;
    let mut tally = Tally::default();
    let run = target.park(ADA, "onboard").await;
    let before = target.stored(&run.id).await;
    let arguments = |tool: &str, id: &str| match tool {
        "task_result" => json!({"id": id, "wait": 0}),
        "ask_open" => json!({"view": target.view, "id": id}),
        "ask_answer" => {
            json!({"view": target.view, "id": id, "ticket": run.ticket, "responses": approve("5")})
        }
        _ => json!({"id": id}),
    };
    let ids = foreign_ids(&run.id);
    assert_eq!(ids.len(), 200);
    let unknown = format!("t_{}", "0".repeat(32));
    // Callers that are not known try the first IDs only, which include the ID of the other caller.
    for (caller, tried) in [(EVE, ids.len()), (None, 20)] {
        for tool in TOOLS {
            let expected = target.call(caller, tool, arguments(tool, &unknown)).await;
            assert!(is_refused(&expected) && expected.to_string().contains("no such task"), "{expected}");
            for &(kind, ref id) in &ids[..tried] {
                let response = target.call(caller, tool, arguments(tool, id)).await;
                tally.count(kind, response == expected, &response);
            }
        }
    }
    let waiting = target.call(EVE, "ask_open", json!({"view": target.view})).await;
    tally.has_status("forms without an ID", "none", &waiting);
    let waiting = target.call(None, "ask_open", json!({"view": target.view})).await;
    tally.refused("forms without an ID", "NOT_FOUND", &waiting);
    assert_eq!(target.stored(&run.id).await, before);
    target.finish(ADA, &run).await;

    println!("{}", tally.report());
    let counts = BTreeMap::from([
        ("IDs of another caller", 2 * 5 * 4),
        ("random IDs", 5 * (96 + 16)),
        ("malformed IDs", 5 * 100),
        ("forms without an ID", 2),
    ]);
    assert_eq!(tally.tried, counts);
}

#[tokio::test]
async fn others_cannot_cancel_or_answer_a_run() -> Result<()> {
    let target = Target::onboarding().await;
    let mut tally = Tally::default();
    let run = target.park(ADA, "onboard").await;
    let before = target.stored(&run.id).await;
    let unknown = format!("t_{}", "0".repeat(32));
    for caller in [EVE, None] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let foreign = target.task(caller, method, &run.id).await;
            let expected = target.task(caller, method, &unknown).await;
            tally.count("requests about a task", is_refused(&foreign) && foreign == expected, &foreign);
        }
        let foreign = target.call(caller, "task_cancel", json!({"id": run.id})).await;
        let expected = target.call(caller, "task_cancel", json!({"id": unknown})).await;
        tally.count("cancellations", is_refused(&foreign) && foreign == expected, &foreign);
    }
    assert_eq!(target.stored(&run.id).await, before);
    target.finish(ADA, &run).await;

    // A request of another session has the same ID.
    let forms = json!({"elicitation": {"form": {}}});
    let mut asked = connect_with(&target.server, Revision::V2025_11_25, forms.clone()).await?;
    let mut other = connect_with(&target.server, Revision::V2025_11_25, forms).await?;
    let call = asked.start("tools/call", json!({"name": "pick", "arguments": {}})).await?;
    let question = next_of(&mut asked, "elicitation/create").await?;
    other.notify("notifications/cancelled", json!({"requestId": call})).await?;
    other.request("ping", json!({})).await?;
    let given = approve("4")["approval"].take();
    let given = json!({"jsonrpc": "2.0", "id": question["id"], "result": given});
    let mut message = asked.send_raw(&given.to_string()).await?;
    while message["id"] != call || message.get("method").is_some() {
        message = next(&mut asked).await?;
    }
    let text = &message["result"]["content"][0]["text"];
    tally.count("cancellations of another session", text == "desk 4, Client", &message);

    println!("{}", tally.report());
    let counts = BTreeMap::from([
        ("requests about a task", 6),
        ("cancellations", 2),
        ("cancellations of another session", 1),
    ]);
    assert_eq!(tally.tried, counts);
    Ok(())
}

/// Returns the capabilities of clients that do not show apps.
fn without_apps() -> Vec<Value> {
    let ui = apps()["extensions"]["io.modelcontextprotocol/ui"].take();
    vec![
        json!({}),
        json!({"elicitation": {"form": {}, "url": {}}}),
        json!({"sampling": {}}),
        everything(),
        json!({"experimental": {"io.modelcontextprotocol/ui": ui}}),
        json!({"extensions": {"io.modelcontextprotocol/UI": ui}}),
        json!({"extensions": {"io.modelcontextprotocol/ui/": ui}}),
        json!({"extensions": {"ui": ui}}),
    ]
}

#[tokio::test]
async fn client_without_apps_reaches_neither_the_form_nor_its_tools() -> Result<()> {
    let target = Target::onboarding().await;
    let mut tally = Tally::default();
    // Callers over a stream have no name, either.
    let run = target.park(None, "onboard").await;
    let before = target.stored(&run.id).await;
    let answer = json!({"view": target.view, "id": run.id, "ticket": run.ticket, "responses": approve("5")});
    let calls = [
        ("ask_open", json!({"view": target.view, "id": run.id})),
        ("ask_answer", answer),
        ("task_question", json!({"id": run.id})),
    ];
    let listed = send(target.app.clone(), None, apps(), "tools/list", json!({})).await;
    let mut tools = listed["result"]["tools"].as_array().unwrap().iter();
    let shows = tools.find(|tool| tool["name"] == "task_question").unwrap();
    let uri = shows["_meta"]["ui"]["resourceUri"].as_str().unwrap();
    let uris = [uri, "ui://antiphon/form/0", "ui://antiphon/form/0123456789abcdef"];
    for revision in Revision::BOTH {
        for capabilities in without_apps() {
            let mut client = connect_with(&target.server, revision, capabilities.clone()).await?;
            for (tool, arguments) in &calls {
                let error = client.call(tool, arguments.clone()).await.unwrap_err();
                let failed = error.source().and_then(|source| source.downcast_ref::<Failed>()).unwrap();
                let hidden = failed.message == format!("there is no tool `{tool}`");
                tally.count("calls without apps", hidden, &json!(failed.message));
            }
            for uri in uris {
                let read = client.request("resources/read", json!({"uri": uri})).await;
                tally.count("reads without apps", read.is_err(), &read.unwrap_or_default());
            }
            client.request("tools/list", json!({})).await?;
            client.request("resources/list", json!({})).await?;
            for frame in client.frames() {
                assert!(!frame.message.to_string().contains(&target.view), "{capabilities}: {frame:?}");
            }
        }
    }
    // No answer for models contains the view key, not even in a client with apps.
    for revision in Revision::BOTH {
        let mut client = connect_with(&target.server, revision, apps()).await?;
        for method in ["tools/list", "resources/list"] {
            client.request(method, json!({})).await?;
        }
        client.call("pick", json!({})).await?;
        for tool in TOOLS {
            let arguments = match tool {
                "task_result" => json!({"id": run.id, "wait": 0}),
                "task_cancel" => json!({"id": "t_0"}),
                "task_question" => json!({"id": run.id}),
                "ask_open" => json!({"id": run.id, "view": ""}),
                _ => json!({"id": run.id, "view": "", "ticket": run.ticket, "responses": approve("5")}),
            };
            client.call(tool, arguments).await?;
        }
        for frame in client.frames() {
            let leaks = frame.message.to_string().contains(&target.view);
            tally.count("answers with the view key", !leaks, &frame.message);
        }
    }
    assert_eq!(target.stored(&run.id).await, before);
    target.finish(None, &run).await;

    println!("{}", tally.report());
    assert_eq!((tally.tried["calls without apps"], tally.tried["reads without apps"]), (48, 48));
    assert!(tally.tried["answers with the view key"] >= 16);
    Ok(())
}

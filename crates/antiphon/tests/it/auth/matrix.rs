//! Everybody tries everything that is somebody else's.

use std::fmt;

use antiphon::{
    ServerBuilder,
    auth::{ApiKey, Auth},
    http::{HttpConfig, OperatorConfig},
    prelude::*,
    task::TaskPolicy,
    testing::Revision,
};
use antiphon_results::{
    CreateOptions, DualResponse, DualResponseServer, DualResponseServerOptions, LinkKeys, Rows, Source,
};
use antiphon_store::{Memory, QueueConfig};
use axum::Router;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Answer, authority::Authority, caller::Caller, send, signer::Signer, trusting};

#[derive(Deserialize, JsonSchema)]
struct Seat {
    seat: String,
}

/// Asks for a seat: in a round, in a session, or as a task.
async fn book(ctx: &Ctx, _: ()) -> Result<String> {
    let who = ctx.principal().unwrap_or("nobody").to_owned();
    Ok(format!("{} for {who}", ctx.elicit::<Seat>("Which seat?").key("seat").await?.accepted()?.seat))
}

async fn search(ctx: &Ctx, _: ()) -> Result<DualResponse> {
    let mut rows = Rows::new();
    rows.push(&json!({"id": 1}))?;
    ctx.dual_response(CreateOptions::new("Found", Source::rows(rows))).await
}

/// Something that belongs to whoever made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    /// A suspended run, in its client's hands.
    Seal,
    Session,
    /// A task as 2026-07-28 has them.
    Task,
    /// A task as 2025-11-25 has them.
    OldTask,
    /// A result set, over its routes.
    Result,
    /// The same, as a resource of MCP's.
    Resource,
    /// What links there are to a result set.
    Link,
}

const OBJECTS: [Object; 7] = [
    Object::Seal,
    Object::Session,
    Object::Task,
    Object::OldTask,
    Object::Result,
    Object::Resource,
    Object::Link,
];

/// How somebody shows who they are.
#[derive(Clone, PartialEq, Eq)]
struct Who {
    name: &'static str,
    credential: Option<String>,
}

impl Who {
    /// Whether they are let in at all.
    fn is_known(&self) -> bool {
        !["nobody", "a forger"].contains(&self.name)
    }
}

impl fmt::Debug for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

struct World {
    app: Router,
    people: Vec<Who>,
}

impl World {
    async fn new(with: impl Fn(ServerBuilder) -> ServerBuilder) -> Self {
        let signer = Signer::new("1");
        let (ours, other) = (Authority::start(&[&signer]).await, Authority::start(&[&signer]).await);
        ours.issue(
            "opaque-joe",
            json!({"active": true, "sub": "joe", "aud": super::RESOURCE, "scope": "use"}),
        );
        let key = "k".repeat(32);
        let auth = trusting(&ours)
            .with_issuer(antiphon::auth::Issuer::new(&*other.issuer))
            .with_introspection(antiphon::auth::Introspection::new(
                &*ours.issuer,
                "reports server",
                "s3cr3t+",
            ))
            .with_api_keys([ApiKey::new("ada", &key).with_scopes(["use"])])
            .build()
            .unwrap();
        let token = |authority: &Authority, who: &str| Some(signer.sign(&authority.claims_of(who, "use")));
        let people = vec![
            Who { name: "ada", credential: token(&ours, "ada") },
            Who { name: "eve", credential: token(&ours, "eve") },
            // Three who would like to be taken for her: by another issuer, by a key, by a token that is asked about.
            Who { name: "ada elsewhere", credential: token(&other, "ada") },
            Who { name: "ada by key", credential: Some(key) },
            Who { name: "joe", credential: Some("opaque-joe".into()) },
            Who {
                name: "operator",
                credential: Some(signer.sign(&ours.claims_of("operator", "use operate"))),
            },
            Who { name: "nobody", credential: None },
            Who { name: "a forger", credential: Some(Signer::new("1").sign(&ours.claims())) },
        ];
        let app = Self::serve(auth, with);
        Self { app, people }
    }

    fn serve(auth: Auth, with: impl Fn(ServerBuilder) -> ServerBuilder) -> Router {
        let options = DualResponseServerOptions::new("https://mcp.example.com/resources")
            .with_authenticate(auth.clone())
            .with_link_keys(LinkKeys::random());
        let results = DualResponseServer::new(options).unwrap();
        let server = Server::builder("matrix", "1.0.0")
            .with_auth(auth)
            .with_results(results.clone())
            .with_tasks(crate::tasks::quick())
            .tool(Tool::new("book", "Books a seat", book).with_tasks(TaskPolicy::Never))
            .tool(Tool::new("book_later", "Books a seat", book).with_tasks(TaskPolicy::Always))
            .tool(Tool::new("search", "Finds something", search));
        let server = with(server).build().unwrap();
        let admin = server.operator_router(OperatorConfig::scope("operate")).unwrap();
        server.router(HttpConfig::default()).nest("/resources", results.router()).nest("/admin", admin)
    }

    async fn caller(&self, who: &Who, revision: Revision) -> Caller {
        match &who.credential {
            Some(credential) if who.is_known() => Caller::new(&self.app, credential, revision).await,
            credential => Caller { credential: credential.clone(), ..Caller::nobody(&self.app, revision) },
        }
    }

    /// Makes something, and says what it is called.
    async fn make(&self, object: Object, who: &Who) -> String {
        let new = self.caller(who, Revision::V2026_07_28).await;
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{object:?}: {value}")).to_owned();
        match object {
            Object::Seal => text(&new.call("book").await["result"]["requestState"]),
            Object::Session => self.caller(who, Revision::V2025_11_25).await.session.unwrap(),
            Object::Task => text(&new.call("book_later").await["result"]["taskId"]),
            Object::OldTask => {
                let old = self.caller(who, Revision::V2025_11_25).await;
                let call = json!({"name": "book_later", "arguments": {}, "task": {}});
                text(&old.ask("tools/call", call).await["result"]["task"]["taskId"])
            }
            Object::Result | Object::Resource | Object::Link => {
                let uri = text(&new.call("search").await["result"]["structuredContent"]["resource"]["uri"]);
                uri.strip_prefix("resource://").unwrap().to_owned()
            }
        }
    }

    /// All that somebody can try with something.
    async fn tries(&self, object: Object, name: &str, who: &Who) -> Vec<(&'static str, Answer)> {
        let new = self.caller(who, Revision::V2026_07_28).await;
        let old = self.caller(who, Revision::V2025_11_25).await;
        let rest = async |method: Method, path: &str, body: Option<Value>| {
            send(&self.app, new.plain(method, &format!("/resources/{name}{path}"), body)).await
        };
        match object {
            Object::Seal => {
                let answer = json!({"seat": {"action": "accept", "content": {"seat": "3A"}}});
                let call =
                    json!({"name": "book", "arguments": {}, "requestState": name, "inputResponses": answer});
                vec![("retry", new.send("tools/call", call).await)]
            }
            Object::Session => {
                let stolen = Caller { session: Some(name.to_owned()), ..old };
                let call = json!({"name": "search", "arguments": {}});
                vec![
                    ("ping", stolen.send("ping", json!({})).await),
                    ("call", stolen.send("tools/call", call).await),
                ]
            }
            Object::Task => {
                let task = json!({"taskId": name, "inputResponses": {}});
                let mut tried = Vec::new();
                for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
                    tried.push((method, new.send(method, task.clone()).await));
                }
                tried
            }
            Object::OldTask => {
                let task = json!({"taskId": name});
                let mut tried = Vec::new();
                for method in ["tasks/get", "tasks/cancel", "tasks/result"] {
                    tried.push((method, old.send(method, task.clone()).await));
                }
                tried
            }
            Object::Result => vec![
                ("describe", rest(Method::GET, "", None).await),
                ("rows", rest(Method::GET, "/rows", None).await),
                ("page", rest(Method::POST, "", Some(json!({}))).await),
                ("pin", rest(Method::PUT, "", Some(json!({"pinned": true}))).await),
                ("delete", rest(Method::DELETE, "", None).await),
            ],
            Object::Resource => {
                vec![("read", new.send("resources/read", json!({"uri": format!("resource://{name}")})).await)]
            }
            Object::Link => vec![
                ("sign", rest(Method::POST, "/links", Some(json!({"scopes": ["read"]}))).await),
                ("revoke", rest(Method::DELETE, "/links", None).await),
            ],
        }
    }
}

/// Whether an answer is the one that is given to whoever asks for what is not there.
fn is_not_there(object: Object, answer: &Answer) -> bool {
    let error = &answer.message()["error"];
    match object {
        Object::Seal => error["message"] == "Invalid or expired requestState" && error["code"] == -32602,
        Object::Session => {
            answer.status == StatusCode::NOT_FOUND && answer.body == "Not Found: Session not found"
        }
        Object::Task | Object::OldTask => {
            error["code"] == -32602
                && error["message"] == "there is no such task: its ID is wrong, or it has expired"
        }
        Object::Result | Object::Link => answer.status == StatusCode::NOT_FOUND,
        Object::Resource => error["code"] == -32602 && error["message"] == "Resource not found or expired",
    }
}

/// Whether an answer is somebody's own.
fn is_theirs(object: Object, answer: &Answer) -> bool {
    match object {
        Object::Result | Object::Link => answer.status.is_success(),
        _ => answer.status == StatusCode::OK && answer.message().get("result").is_some(),
    }
}

async fn try_everything(world: &World) {
    let mut foreign = 0;
    for owner in world.people.iter().filter(|who| who.is_known()) {
        for object in OBJECTS {
            let name = world.make(object, owner).await;
            for who in world.people.iter().filter(|who| *who != owner) {
                for (what, answer) in world.tries(object, &name, who).await {
                    let cell = format!("{what} of {owner:?}'s {object:?} by {who:?}");
                    if who.is_known() {
                        assert!(is_not_there(object, &answer), "{cell}: {} {}", answer.status, answer.body);
                    } else {
                        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{cell}: {}", answer.body);
                    }
                    foreign += 1;
                }
            }
            // Whatever the others tried, it is there for its owner, untouched. A task that asks is not waited for here.
            let own = if object == Object::OldTask {
                let old = world.caller(owner, Revision::V2025_11_25).await;
                vec![("tasks/get", old.send("tasks/get", json!({"taskId": name})).await)]
            } else {
                world.tries(object, &name, owner).await
            };
            for (what, answer) in &own {
                let cell = format!("{what} of {owner:?}'s own {object:?}");
                assert!(is_theirs(object, answer), "{cell}: {} {}", answer.status, answer.body);
            }
        }
    }
    // Six owners, seven others, seventeen things to try.
    assert_eq!(foreign, 6 * 7 * 17);
}

#[tokio::test]
async fn nothing_of_anybodys_is_there_for_anybody_else() {
    try_everything(&World::new(|builder| builder).await).await;
}

#[tokio::test]
async fn nothing_of_anybodys_is_there_for_anybody_else_on_a_backend() {
    let backend = Memory::default().backend(QueueConfig::default());
    try_everything(&World::new(move |builder| builder.with_backend(backend.clone())).await).await;
}

/// A link is for whoever has it, and opens what it was made for, as long as its owner lets it.
#[tokio::test]
async fn link_opens_one_set_and_is_its_owners_to_take_back() {
    let world = World::new(|builder| builder).await;
    let (ada, eve) = (&world.people[0], &world.people[1]);
    let (mine, other) = (world.make(Object::Link, ada).await, world.make(Object::Link, ada).await);
    let caller = world.caller(ada, Revision::V2026_07_28).await;
    let path = format!("/resources/{mine}/links");
    let signed = send(&world.app, caller.plain(Method::POST, &path, Some(json!({"scopes": ["read"]})))).await;
    assert_eq!(signed.status, StatusCode::CREATED, "{}", signed.body);
    let url = signed.message()["url"].as_str().unwrap().to_owned();
    let (_, link) = url.split_once("?link=").unwrap();
    let open = async |id: &str, method: Method, path: &str, who: &Caller| {
        let path = format!("/resources/{id}{path}?link={link}");
        send(&world.app, who.plain(method, &path, None)).await.status
    };
    let nobody = Caller::nobody(&world.app, Revision::V2026_07_28);
    assert_eq!(open(&mine, Method::GET, "/rows", &nobody).await, StatusCode::OK);
    // Neither another set, nor more than it says, nor other links: not even with a credential beside it.
    let eve = world.caller(eve, Revision::V2026_07_28).await;
    for who in [&nobody, &eve, &caller] {
        assert_eq!(open(&other, Method::GET, "/rows", who).await, StatusCode::UNAUTHORIZED);
        assert_eq!(open(&mine, Method::DELETE, "", who).await, StatusCode::FORBIDDEN);
        assert_eq!(open(&mine, Method::DELETE, "/links", who).await, StatusCode::FORBIDDEN);
    }
    assert_eq!(
        send(&world.app, caller.plain(Method::DELETE, &path, None)).await.status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(open(&mine, Method::GET, "/rows", &nobody).await, StatusCode::UNAUTHORIZED);
}

/// The operators' routes show everybody's runs, so they are for those who were granted that.
#[tokio::test]
async fn operators_are_those_who_were_granted_it() {
    let world = World::new(|builder| builder).await;
    world.make(Object::Task, &world.people[0]).await;
    for who in &world.people {
        let caller = world.caller(who, Revision::V2026_07_28).await;
        let mut rebound = caller.plain(Method::GET, "/admin/runs", None);
        rebound.headers_mut().insert("host", "evil.example".parse().unwrap());
        assert_eq!(send(&world.app, rebound).await.status, StatusCode::FORBIDDEN, "{who:?}");
        let listed = send(&world.app, caller.plain(Method::GET, "/admin/runs", None)).await;
        let run = listed.message()["runs"][0]["run"].as_str().unwrap_or("0/0").to_owned();
        let tries = [
            (Method::GET, format!("/admin/runs/{run}")),
            (Method::POST, format!("/admin/runs/{run}/retry")),
            (Method::POST, format!("/admin/runs/{run}/cancel")),
            (Method::DELETE, format!("/admin/runs/{run}")),
            (Method::GET, "/admin/elsewhere".to_owned()),
        ];
        for (method, path) in tries {
            let answer = send(&world.app, caller.plain(method.clone(), &path, None)).await;
            let cell = format!("{method} {path} by {who:?}: {}", answer.body);
            match who.name {
                // What is no route of theirs is nobody's to guard.
                _ if path.ends_with("elsewhere") => {
                    assert_eq!(answer.status, StatusCode::NOT_FOUND, "{cell}");
                }
                "operator" => {
                    assert!(answer.status.is_success() || answer.status == StatusCode::CONFLICT, "{cell}");
                }
                "nobody" | "a forger" => assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{cell}"),
                _ => {
                    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{cell}");
                    assert!(answer.challenge.unwrap().contains(r#"scope="use operate""#), "{cell}");
                }
            }
        }
    }
}

#[tokio::test]
async fn routes_for_operators_need_tasks_an_auth_and_a_scope() {
    let problem = |server: Server, scope: &str| {
        server.operator_router(OperatorConfig::scope(scope)).unwrap_err().to_string()
    };
    let tasks = || Server::builder("x", "1").with_tasks(crate::tasks::quick());
    assert!(problem(Server::builder("x", "1").build().unwrap(), "a").contains("it has no runs to operate"));
    assert!(problem(tasks().build().unwrap(), "a").contains("with_auth"));
    let auth =
        Auth::builder(super::RESOURCE).with_api_keys([ApiKey::new("x", &"x".repeat(32))]).build().unwrap();
    assert!(problem(tasks().with_auth(auth).build().unwrap(), "").contains("is not a valid scope"));
}

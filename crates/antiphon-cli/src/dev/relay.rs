//! Keeps the state of a host's connection when a new server replaces the running server. The module `relay` performs
//! no I/O.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::message::{self, Kind, Message};

/// The `_meta` key that names the subscription of a notification on MCP 2026-07-28.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The `_meta` key that names the protocol revision of a request on MCP 2026-07-28.
const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const LISTEN: &str = "subscriptions/listen";

/// The lists that a server can offer. Each entry of `LISTS` contains a capability, the notification that the list has
/// changed, and the key for this notification in the filter of a subscription.
const LISTS: [(&str, &str, &str); 3] = [
    ("tools", "notifications/tools/list_changed", "toolsListChanged"),
    ("prompts", "notifications/prompts/list_changed", "promptsListChanged"),
    ("resources", "notifications/resources/list_changed", "resourcesListChanged"),
];

/// The IDs of requests that `antiphon dev` sends to a server begin with this text, as JSON.
const OWN: &str = "\"antiphon-dev-";

/// A line that `antiphon dev` must send to the host or to the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Host(String),
    Server(String),
}

/// The state of the connection between a host and its current server. All request IDs are JSON text.
#[derive(Debug, Default)]
pub(super) struct Relay {
    /// The first request of the host: `initialize` or `server/discover`.
    hello: Option<Message>,
    /// Whether the host has completed `initialize`.
    initialized: bool,
    /// The server's capabilities, as the host received them.
    capabilities: Value,
    /// Requests of the host that have no response yet.
    pending: BTreeMap<String, Message>,
    /// A map from the ID of each MCP 2026-07-28 subscription to the filter that the server has accepted.
    subscriptions: BTreeMap<String, Value>,
    /// Requests with which the host has set the log level and has subscribed to resources. A new server receives
    /// these requests again.
    settings: BTreeMap<String, Message>,
    /// A map from the request ID that the host receives to the request ID that the server has sent. The host receives
    /// a new ID for each request, because two servers can use the same ID.
    asked: BTreeMap<String, String>,
    last: u64,
    /// The failed build that the next tool call returns.
    failure: Option<String>,
}

impl Relay {
    /// Handles a line from the host. Returns the messages to send.
    pub(super) fn host_sent(&mut self, line: &str) -> Vec<Outgoing> {
        let Some(mut message) = Message::read(line) else { return vec![Outgoing::Server(line.to_owned())] };
        match message.kind() {
            Some(Kind::Request { id, method }) => {
                if method == "tools/call"
                    && !is_continued(&message.get("params"))
                    && let Some(failure) = self.failure.take()
                {
                    let text = format!(
                        "{failure}\n\nThe tool did not run. The previous build of the server is still running; \
                         call the tool again to use it."
                    );
                    return vec![Outgoing::Host(message::failed_call(&id, &text, self.in_session()))];
                }
                self.pending.insert(id, message);
            }
            Some(Kind::Notification { method }) => match method.as_str() {
                "notifications/initialized" => self.initialized = true,
                "notifications/cancelled" => self.withdraw(&message.get("params")["requestId"].to_string()),
                _ => {}
            },
            Some(Kind::Response { id }) => {
                // If the question is from a replaced server, the answer is discarded.
                let Some(own) = self.asked.remove(&id) else { return Vec::new() };
                message.set_id(&own);
                return vec![Outgoing::Server(message.line())];
            }
            None => {}
        }
        vec![Outgoing::Server(line.to_owned())]
    }

    /// Handles a line from the server. Returns the messages to send, or `None` if the line is not a JSON-RPC message.
    pub(super) fn server_sent(&mut self, line: &str) -> Option<Vec<Outgoing>> {
        let mut message = Message::read(line)?;
        match message.kind()? {
            Kind::Response { id } if id.starts_with(OWN) => return Some(Vec::new()),
            Kind::Response { id } => {
                self.subscriptions.remove(&id);
                if let Some(request) = self.pending.remove(&id) {
                    self.answered(request, &mut message);
                }
            }
            Kind::Request { id, .. } => {
                let own = self.next_id();
                message.set_id(&own);
                self.asked.insert(own, id);
            }
            Kind::Notification { method } => match method.as_str() {
                "notifications/subscriptions/acknowledged" => {
                    let params = message.get("params");
                    let id = params["_meta"][SUBSCRIPTION].to_string();
                    let filter = params["notifications"].clone();
                    if self.subscriptions.insert(id, filter).is_some() {
                        // The host has already received an acknowledgment from an earlier server, so this
                        // acknowledgment is discarded.
                        return Some(Vec::new());
                    }
                }
                "notifications/cancelled" => {
                    let mut params = message.get("params");
                    let id = params["requestId"].to_string();
                    let asked = self.asked.iter().find(|(_, own)| **own == id).map(|(ours, _)| ours.clone());
                    match asked {
                        Some(ours) => {
                            self.asked.remove(&ours);
                            params["requestId"] = message::parsed(&ours);
                            message.set("params", &params);
                        }
                        None => self.withdraw(&id),
                    }
                }
                _ => {}
            },
        }
        Some(vec![Outgoing::Host(message.line())])
    }

    /// Returns the request to which a new server must respond before it replaces the current server.
    pub(super) fn greeting(&mut self) -> Option<Greeting> {
        let mut hello = self.hello.clone()?;
        let id = self.next_id();
        hello.set_id(&id);
        Some(Greeting { id, method: self.hello_method()?, hello: hello.line() })
    }

    /// Returns the method of the request to which a new server must respond first. Returns `None` if the host has sent
    /// no request yet.
    pub(super) fn hello_method(&self) -> Option<String> {
        match self.hello.as_ref()?.kind()? {
            Kind::Request { method, .. } => Some(method),
            _ => None,
        }
    }

    /// Returns whether a request of the host waits for its response. Subscriptions do not count as waiting requests,
    /// because a subscription has no response until it ends.
    pub(super) fn is_busy(&self) -> bool {
        self.pending.values().any(|request| !is_listening(request))
    }

    /// Makes a new server the current server of the connection. The new server must have responded to the greeting.
    pub(super) fn replace(&mut self) -> Vec<Outgoing> {
        self.failure = None;
        let mut out =
            self.end_requests("`antiphon dev` replaced the server during this request; send it again");
        if self.initialized {
            out.push(Outgoing::Server(message::notification("notifications/initialized", &json!({}))));
        }
        for mut request in self.settings.values().cloned().collect::<Vec<_>>() {
            request.set_id(&self.next_id());
            out.push(Outgoing::Server(request.line()));
        }
        for request in self.pending.values() {
            out.push(Outgoing::Server(request.line()));
        }
        if self.in_session() {
            for (capability, method, _) in LISTS {
                if self.capabilities.get(capability).is_some() {
                    out.push(Outgoing::Host(message::notification(method, &json!({}))));
                }
            }
        }
        for (id, filter) in &self.subscriptions {
            let meta = json!({"_meta": {SUBSCRIPTION: message::parsed(id)}});
            for (_, method, name) in LISTS {
                if filter[name] == json!(true) {
                    out.push(Outgoing::Host(message::notification(method, &meta)));
                }
            }
        }
        out
    }

    /// Reports a failed build, or a server that did not start. The previous server keeps running.
    pub(super) fn fail(&mut self, why: &str) -> Vec<Outgoing> {
        self.failure = Some(why.to_owned());
        if !self.in_session() || self.capabilities.get("logging").is_none() {
            return Vec::new();
        }
        let params = json!({"level": "error", "logger": "antiphon dev", "data": why});
        vec![Outgoing::Host(message::notification("notifications/message", &params))]
    }

    /// Clears the failed build, because a later build succeeded.
    pub(super) fn succeed(&mut self) {
        self.failure = None;
    }

    /// Ends all requests of the host, because their server has stopped. Subscriptions continue with the next server.
    pub(super) fn end_requests(&mut self, why: &str) -> Vec<Outgoing> {
        let mut out = Vec::new();
        self.pending.retain(|id, request| {
            let keep = is_listening(request);
            if !keep {
                out.push(Outgoing::Host(message::error(id, why)));
            }
            keep
        });
        for id in std::mem::take(&mut self.asked).into_keys() {
            let params = json!({"requestId": message::parsed(&id), "reason": why});
            out.push(Outgoing::Host(message::notification("notifications/cancelled", &params)));
        }
        out
    }

    /// Stores the parts of a request and its response that are needed for the next server.
    fn answered(&mut self, request: Message, response: &mut Message) {
        let (Some(Kind::Request { method, .. }), mut result) = (request.kind(), response.get("result"))
        else {
            return;
        };
        if result.is_null() {
            return;
        }
        let uri = || format!("subscribed {}", request.get("params")["uri"]);
        match method.as_str() {
            "initialize" => {
                // When the server is replaced, the lists can change, even if a server never changes its lists while it
                // runs.
                for (capability, ..) in LISTS {
                    if let Some(Value::Object(declared)) = result["capabilities"].get_mut(capability) {
                        declared.insert("listChanged".to_owned(), json!(true));
                    }
                }
                response.set("result", &result);
                self.capabilities = result["capabilities"].clone();
                self.hello = Some(request);
            }
            // A host can send `server/discover` first, and then use a session.
            "server/discover" if !self.in_session() => {
                self.capabilities = result["capabilities"].clone();
                self.hello = Some(request);
            }
            "logging/setLevel" => {
                self.settings.insert(method, request);
            }
            "resources/subscribe" => {
                self.settings.insert(uri(), request);
            }
            "resources/unsubscribe" => {
                self.settings.remove(&uri());
            }
            // A host of MCP 2026-07-28 can use a server without a handshake. Create the handshake for the next server
            // from the `_meta` of this request.
            _ if self.hello.is_none() => self.hello = discover(&request),
            _ => {}
        }
    }

    /// Removes a request that the host or the server has cancelled.
    fn withdraw(&mut self, id: &str) {
        self.pending.remove(id);
        self.subscriptions.remove(id);
    }

    /// Returns whether the host uses a session, as on MCP 2025-11-25.
    fn in_session(&self) -> bool {
        self.hello_method().is_some_and(|method| method == "initialize")
    }

    fn next_id(&mut self) -> String {
        self.last += 1;
        format!("{OWN}{}\"", self.last)
    }
}

/// The first request to a new server.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) id: String,
    pub(super) method: String,
    /// The first request, as a line of text.
    pub(super) hello: String,
}

/// Returns a `server/discover` request with the `_meta` of another request. Returns `None` if the other request does
/// not name its protocol revision.
fn discover(request: &Message) -> Option<Message> {
    let mut meta = request.get("params")["_meta"].clone();
    meta.get(REVISION)?;
    if let Some(meta) = meta.as_object_mut() {
        meta.remove("progressToken");
    }
    let params = json!({"_meta": meta});
    let discover = json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": params});
    Message::read(&discover.to_string())
}

/// Returns whether the call continues a suspended run.
fn is_continued(params: &Value) -> bool {
    params.get("requestState").is_some() || params.get("inputResponses").is_some()
}

fn is_listening(request: &Message) -> bool {
    matches!(request.kind(), Some(Kind::Request { method, .. }) if method == LISTEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(relay: &mut Relay, message: &Value) -> Vec<Value> {
        relay.host_sent(&message.to_string()).iter().map(sent).collect()
    }

    fn server(relay: &mut Relay, message: &Value) -> Vec<Value> {
        relay.server_sent(&message.to_string()).unwrap().iter().map(sent).collect()
    }

    fn sent(send: &Outgoing) -> Value {
        let (to, line) = match send {
            Outgoing::Host(line) => ("host", line),
            Outgoing::Server(line) => ("server", line),
        };
        json!({to: serde_json::from_str::<Value>(line).unwrap()})
    }

    fn session() -> Relay {
        let mut relay = Relay::default();
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
        host(&mut relay, &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        let result = json!({"capabilities": {"tools": {}, "logging": {}}});
        let read = server(&mut relay, &json!({"jsonrpc": "2.0", "id": 0, "result": result}));
        assert_eq!(read[0]["host"]["result"]["capabilities"]["tools"], json!({"listChanged": true}));
        host(&mut relay, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        relay
    }

    #[test]
    fn questions_of_two_servers_with_the_same_id_are_not_confused() {
        let mut relay = session();
        let ask = json!({"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {}});
        let first = server(&mut relay, &ask)[0]["host"]["id"].clone();
        let told: Vec<Value> = relay.replace().iter().map(sent).collect();
        assert_eq!(told[0]["host"]["params"]["requestId"], first, "the host can close the form");
        let second = server(&mut relay, &ask)[0]["host"]["id"].clone();
        assert_ne!(first, second);
        let answer = |id: &Value| json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept"}});
        assert_eq!(host(&mut relay, &answer(&first)), Vec::<Value>::new());
        assert_eq!(host(&mut relay, &answer(&second))[0]["server"]["id"], 0);
    }

    #[test]
    fn cancelled_question_keeps_the_id_that_the_host_knows() {
        let mut relay = session();
        let ask = json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {}});
        let id = server(&mut relay, &ask)[0]["host"]["id"].clone();
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        assert_eq!(server(&mut relay, &cancel)[0]["host"]["params"]["requestId"], id);
    }

    #[test]
    fn new_server_gets_the_handshake_and_the_settings_that_change_while_it_starts() {
        let mut relay = session();
        let greeting = relay.greeting().unwrap();
        let hello: Value = serde_json::from_str(&greeting.hello).unwrap();
        assert_eq!(hello["params"]["protocolVersion"], "2025-11-25");
        assert_eq!(hello["id"].to_string(), greeting.id);
        for (id, method, params) in [
            (1, "logging/setLevel", json!({"level": "info"})),
            (2, "resources/subscribe", json!({"uri": "a:1"})),
            (3, "resources/subscribe", json!({"uri": "a:2"})),
            (4, "resources/unsubscribe", json!({"uri": "a:1"})),
        ] {
            host(&mut relay, &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
            server(&mut relay, &json!({"jsonrpc": "2.0", "id": id, "result": {}}));
        }
        let told: Vec<Value> = relay.replace().iter().map(sent).collect();
        let then: Vec<&Value> = told.iter().filter_map(|message| message.get("server")).collect();
        let methods: Vec<&str> = then.iter().map(|message| message["method"].as_str().unwrap()).collect();
        assert_eq!(methods, ["notifications/initialized", "logging/setLevel", "resources/subscribe"]);
        assert_eq!(then[2]["params"]["uri"], "a:2");
        let answer = json!({"jsonrpc": "2.0", "id": then[1]["id"], "result": {}});
        assert_eq!(server(&mut relay, &answer), Vec::<Value>::new(), "the host did not send it");
    }

    #[test]
    fn new_server_gets_a_discovery_if_the_host_has_sent_requests_without_a_handshake() {
        let mut relay = Relay::default();
        let request = |id: u32, meta: &Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {"_meta": meta}});
        host(&mut relay, &request(1, &json!({})));
        server(&mut relay, &json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        let meta = json!({REVISION: "2026-07-28", "progressToken": 1});
        host(&mut relay, &request(2, &meta));
        server(&mut relay, &json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32022}}));
        assert!(relay.greeting().is_none(), "no request has named a revision that the server accepts");
        host(&mut relay, &request(3, &meta));
        server(&mut relay, &json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
        let greeting = relay.greeting().unwrap();
        let hello: Value = serde_json::from_str(&greeting.hello).unwrap();
        assert_eq!(hello["method"], "server/discover");
        assert_eq!(hello["params"]["_meta"], json!({REVISION: "2026-07-28"}));
        assert_eq!(hello["id"].to_string(), greeting.id);
    }

    #[test]
    fn request_that_runs_during_the_replacement_gets_an_error() {
        let mut relay = session();
        let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "slow"}});
        host(&mut relay, &call);
        assert!(relay.is_busy());
        let told: Vec<Value> = relay.replace().iter().map(sent).collect();
        assert_eq!(told[0]["host"]["id"], 5);
        assert!(told[0]["host"]["error"]["message"].as_str().unwrap().contains("replaced the server"));
        assert_eq!(told[1]["server"]["method"], "notifications/initialized");
        assert_eq!(told[2]["host"]["method"], "notifications/tools/list_changed");
        assert!(!relay.is_busy());
    }

    #[test]
    fn subscription_moves_to_the_new_server_and_its_host_reads_one_acknowledgment() {
        let mut relay = Relay::default();
        let filter = json!({"toolsListChanged": true});
        let params = json!({"notifications": filter});
        host(&mut relay, &json!({"jsonrpc": "2.0", "id": "s", "method": LISTEN, "params": params}));
        let meta = json!({SUBSCRIPTION: "s"});
        let ack = json!({
            "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": meta, "notifications": filter},
        });
        assert_eq!(server(&mut relay, &ack).len(), 1);
        assert!(!relay.is_busy());
        let told: Vec<Value> = relay.replace().iter().map(sent).collect();
        assert_eq!(told[0]["server"]["method"], LISTEN);
        assert_eq!(told[1]["host"]["method"], "notifications/tools/list_changed");
        assert_eq!(told[1]["host"]["params"]["_meta"], meta);
        assert_eq!(server(&mut relay, &ack), Vec::<Value>::new());
    }

    #[test]
    fn failed_build_is_the_answer_of_one_call_and_not_of_a_run_that_continues() {
        let mut relay = session();
        assert_eq!(relay.fail("error: x").len(), 1, "the session has logging");
        let call = |id: u32, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let continued = host(&mut relay, &call(1, json!({"name": "a", "requestState": "…"})));
        assert!(continued[0].get("server").is_some(), "{continued:?}");
        let told = host(&mut relay, &call(2, json!({"name": "a"})));
        assert_eq!(told[0]["host"]["result"]["isError"], true);
        assert!(told[0]["host"]["result"]["content"][0]["text"].as_str().unwrap().starts_with("error: x"));
        assert!(host(&mut relay, &call(3, json!({"name": "a"})))[0].get("server").is_some());
    }
}

//! The channels through which a user can answer a question that the user's client cannot show.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use http::Uri;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use crate::url_elicitation::Channel;
use crate::url_elicitation::RELAY_META;

/// The channels through which users can answer questions of a run. A form that the client shows during a call does not
/// count as a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Channels {
    /// Whether the client shows MCP Apps, and the server has the form that is an MCP App.
    #[serde(default)]
    pub(crate) app: bool,
    /// Whether the server has an answer page.
    #[serde(default)]
    pub(crate) page: bool,
    /// Whether the client itself can show the question when the model calls `task_result`.
    #[serde(default)]
    pub(crate) client: bool,
}

impl Channels {
    /// Returns `true` if the user has at least one channel.
    pub(crate) fn any(self) -> bool {
        self.app || self.page || self.client
    }

    /// Returns a copy of the channels in which the field `client` is `false`.
    pub(crate) fn without_client(self) -> Self {
        Self { client: false, ..self }
    }

    /// Returns `true` if the user can answer `request` through at least one of the channels. Every channel can show a
    /// form. Only the app form and the answer page can ask the user to open a link. Both show a link only if the server
    /// allows this kind of link.
    pub(crate) fn carry(self, request: &Value) -> bool {
        (self.any() && is_form(request)) || (self.show_links() && is_link(request))
    }

    /// Returns the reason why the server must not show the link that `request` contains. Returns `None` if a channel
    /// can show the link, if no channel shows links, or if `request` has no link.
    pub(crate) fn link_problem(self, request: &Value) -> Option<&'static str> {
        link(request).filter(|_| self.show_links())?.err()
    }

    fn show_links(self) -> bool {
        self.app || self.page
    }
}

/// Returns whether `request` asks a user to fill in a form.
pub(crate) fn is_form(request: &Value) -> bool {
    request["method"] == "elicitation/create" && request["params"]["mode"] != "url"
}

/// Returns whether the author of `request` allows the model to relay the user's answer.
pub(crate) fn allows_relay(request: &Value) -> bool {
    is_form(request) && request["params"]["_meta"][RELAY_META] == true
}

/// A link from a question that asks the user to open a web page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link<'a> {
    pub(crate) url: &'a str,
    /// The host and the port of the link.
    pub(crate) host: String,
}

/// Returns whether `request` asks the user to open a link that the app form and the answer page are allowed to show.
pub(crate) fn is_link(request: &Value) -> bool {
    matches!(link(request), Some(Ok(_)))
}

/// Returns the link that `request` asks the user to open, or the reason why the server must not show this link.
/// Returns `None` if `request` is not a question to open a web page.
pub(crate) fn link(request: &Value) -> Option<Result<Link<'_>, &'static str>> {
    let params = &request["params"];
    let is_url = request["method"] == "elicitation/create" && params["mode"] == "url";
    is_url.then(|| checked_link(params["url"].as_str().unwrap_or_default()))
}

fn checked_link(url: &str) -> Result<Link<'_>, &'static str> {
    // Browsers remove or replace these characters. So the browser could open another host than the host that the user
    // sees.
    if !url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        return Err("it has spaces, backslashes or characters that are not ASCII");
    }
    let uri: Uri = url.parse().map_err(|_| "it is not a valid URL")?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err("it has no scheme or no host");
    };
    if authority.as_str().contains('@') {
        return Err("it has a user name");
    }
    let host = authority.host().to_ascii_lowercase();
    let is_loopback = matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]");
    match scheme {
        "https" => {}
        "http" if is_loopback => {}
        _ => return Err("it does not begin with `https://`"),
    }
    Ok(Link { url, host: authority.as_str().to_ascii_lowercase() })
}

/// Returns `true` if `answer` declines or cancels the question, or if `answer` accepts a form but contains no values.
/// If an empty answer arrives faster than a user could answer, the client has not shown the question.
pub(crate) fn is_empty_answer(request: &Value, answer: &Value) -> bool {
    match answer["action"].as_str() {
        Some("decline" | "cancel") => true,
        Some("accept") => {
            let fields = request["params"]["requestedSchema"]["properties"].as_object();
            let asks = fields.is_none_or(|fields| !fields.is_empty());
            asks && answer["content"].as_object().is_none_or(serde_json::Map::is_empty)
        }
        _ => false,
    }
}

/// The settings for the questions that a call asks, and for calls that take a long time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AskOptions {
    /// The channels through which the user can answer, in addition to the client itself.
    pub(crate) channels: Channels,
    /// Whether the server allows the model to relay a user's answer. The question must also allow relayed answers.
    pub(crate) relay: bool,
    /// The shortest time in which a user could answer a question. If an empty answer arrives earlier, the server
    /// assumes that the client created the answer without the user.
    pub(crate) quick: Duration,
    /// How long a question stays open if the user must answer through a channel other than the client.
    pub(crate) expiry: Duration,
    /// If a call takes longer than this duration, the server returns from the call, and the run continues as a task.
    pub(crate) hand_over_after: Option<Duration>,
    /// The maximum time for which the server sends no message to the client. After this time, the server sends a
    /// heartbeat.
    pub(crate) heartbeat: Option<Duration>,
    /// The maximum number of the caller's runs that can wait for users.
    pub(crate) max_waiting: Option<usize>,
    /// Whether a question fails if the client answers the question without showing the question to the user. The tool
    /// can then tell the model how to reach the user in another way.
    pub(crate) checks_client: bool,
}

impl AskOptions {
    /// Returns `true` if the server ignores answers that the client created without the user. The server ignores such
    /// answers only if the user can also answer through a channel other than the client.
    pub(crate) fn watches_client(&self) -> bool {
        self.checks_client || self.channels.without_client().any()
    }
}

/// A set of names that remembers when each name was last recorded. The server removes old names.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<HashMap<String, Instant>>);

/// The maximum number of entries in a [`Recent`]. If the maximum is reached, the server removes the old entries. If no
/// entry is old, the server removes all entries, so that the memory is bounded.
const RECENT: usize = 4096;

impl Recent {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records `name` with the current time. An entry is old after the time `life`.
    pub(crate) fn put(&self, name: String, life: Duration) {
        let mut entries = self.lock();
        if entries.len() >= RECENT {
            entries.retain(|_, at| at.elapsed() < life);
            if entries.len() >= RECENT {
                entries.clear();
            }
        }
        entries.insert(name, Instant::now());
    }

    /// Returns whether `name` was recorded within the last `life`.
    pub(crate) fn has(&self, name: &str, life: Duration) -> bool {
        self.lock().get(name).is_some_and(|at| at.elapsed() < life)
    }
}

/// How long the server treats a client as unresponsive, after the client has answered a question without showing the
/// question to the user.
pub(crate) const UNRESPONSIVE: Duration = Duration::from_secs(600);

/// Returns `true` if `answer` accepts a form that has required fields, but `answer` contains no values. Some clients
/// accept forms that they cannot show.
pub(crate) fn lacks_content(request: &Value, answer: &Value) -> bool {
    let required = request["params"]["requestedSchema"]["required"].as_array();
    answer["action"] == "accept"
        && required.is_some_and(|required| !required.is_empty())
        && answer["content"].as_object().is_none_or(serde_json::Map::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mark_of_a_client_is_removed() {
        let mut answer = json!({"action": "accept", "_meta": {"antiphon/channel": "app", "other": 1}});
        Channel::Client.mark(&mut answer);
        assert_eq!(answer, json!({"action": "accept", "_meta": {"other": 1}}));
        assert_eq!(Channel::of(&answer), Channel::Client);
        Channel::Page.mark(&mut answer);
        assert_eq!(Channel::of(&answer), Channel::Page);
        let mut bare = json!({"action": "decline"});
        Channel::App.mark(&mut bare);
        assert_eq!(bare, json!({"action": "decline", "_meta": {"antiphon/channel": "app"}}));
        assert_eq!(Channel::of(&bare), Channel::App);
    }

    #[test]
    fn channel_of_a_later_version_is_not_the_client() {
        for mark in [json!("voice"), json!(7), json!(null)] {
            let answer = json!({"action": "accept", "_meta": {"antiphon/channel": mark}});
            assert_eq!(Channel::of(&answer), Channel::Relay, "{answer}");
        }
        for channel in [Channel::Client, Channel::App, Channel::Page, Channel::Relay] {
            let mut answer = json!({"action": "accept"});
            channel.mark(&mut answer);
            assert_eq!(Channel::of(&answer), channel);
            assert_eq!(serde_json::to_value(channel).unwrap(), channel.name());
        }
    }

    fn opens(url: &str) -> Value {
        json!({"method": "elicitation/create", "params": {"mode": "url", "url": url}})
    }

    #[test]
    fn forms_and_links_can_be_answered_elsewhere() {
        let channels = Channels { app: true, ..Channels::default() };
        let form = json!({"method": "elicitation/create", "params": {"message": "?"}});
        let url = opens("https://example.com/pay");
        let sampling = json!({"method": "sampling/createMessage", "params": {}});
        assert!(channels.carry(&form) && channels.carry(&url));
        assert!(!channels.carry(&sampling) && !Channels::default().carry(&form));
        // A client that does not support URL elicitation cannot show the link in any call.
        let client = Channels { client: true, ..Channels::default() };
        assert!(client.carry(&form) && !client.carry(&url));
    }

    #[test]
    fn only_safe_links_are_shown() {
        let host = |url: &str| link(&opens(url)).unwrap().map(|link| link.host);
        assert_eq!(host("https://Example.com:8443/a?b=c#d"), Ok("example.com:8443".to_owned()));
        assert_eq!(host("http://127.0.0.1:8000/pay"), Ok("127.0.0.1:8000".to_owned()));
        assert_eq!(host("http://[::1]/"), Ok("[::1]".to_owned()));
        let channels = Channels { page: true, ..Channels::default() };
        for wrong in [
            "",
            "/pay",
            "pay",
            "http://example.com/",
            "http://localhost.example.com/",
            "javascript:alert(1)",
            "JavaScript://example.com/%0aalert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "ftp://example.com/",
            "https:example.com",
            "https:///example.com",
            "https://user@example.com/",
            "https://example.com\\@evil.example/",
            "https://example.com/\t",
            " https://example.com/",
            "https://ex\u{430}mple.com/",
        ] {
            assert!(host(wrong).is_err(), "{wrong}");
            assert!(!channels.carry(&opens(wrong)), "{wrong}");
            assert!(channels.link_problem(&opens(wrong)).is_some(), "{wrong}");
        }
        let other =
            json!({"method": "elicitation/create", "params": {"mode": "form", "url": "https://example.com"}});
        assert_eq!(link(&other), None);
        assert_eq!(channels.link_problem(&other), None);
        assert_eq!(Channels::default().link_problem(&opens("ftp://example.com/")), None);
    }

    #[test]
    fn relay_needs_a_form_that_allows_it() {
        let of = |mode: &str, relay: Value| {
            let params =
                json!({"mode": mode, "url": "https://a.example", "_meta": {"antiphon/relay": relay}});
            allows_relay(&json!({"method": "elicitation/create", "params": params}))
        };
        assert!(of("form", json!(true)));
        assert!(!of("form", json!(false)) && !of("form", json!("true")) && !of("url", json!(true)));
        assert!(!allows_relay(&json!({"method": "elicitation/create", "params": {"message": "?"}})));
    }

    #[test]
    fn acceptance_without_content_is_empty_only_if_the_form_has_fields() {
        let form = |properties: Value| json!({"method": "elicitation/create", "params": {"requestedSchema": {"properties": properties}}});
        let (fields, none) = (form(json!({"desk": {"type": "string"}})), form(json!({})));
        assert!(is_empty_answer(&fields, &json!({"action": "accept"})));
        assert!(is_empty_answer(&fields, &json!({"action": "accept", "content": {}})));
        assert!(!is_empty_answer(&fields, &json!({"action": "accept", "content": {"desk": "4"}})));
        assert!(!is_empty_answer(&none, &json!({"action": "accept", "content": {}})));
        assert!(is_empty_answer(&none, &json!({"action": "cancel"})));
    }
}

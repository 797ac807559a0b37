//! Requests that nobody sends by accident. Every one must be refused, in one shape, and with nothing of the inside.

mod cases;

use antiphon_results::Owner;

use self::cases::{bodies, kinds, links, paths, queries, strangers};
use super::{Answer, House};

/// A request and how it must be refused.
struct Case {
    name: String,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
    refused: &'static [u16],
}

impl Case {
    fn new(
        name: impl Into<String>,
        method: &'static str,
        path: impl Into<String>,
        refused: &'static [u16],
    ) -> Self {
        Self {
            name: name.into(),
            method,
            path: path.into(),
            headers: Vec::new(),
            body: String::new(),
            refused,
        }
    }

    fn with_body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

#[tokio::test]
async fn nothing_hostile_is_let_through() {
    let open = House::open();
    let closed = House::with_callers();
    let set = open.people(20).await;
    let ada = closed.people_of(20, Owner::principal("ada").with_tenant("acme")).await;
    let mut cases: Vec<(&House, Case)> = Vec::new();
    let both = bodies(&set).into_iter().chain(queries(&set)).chain(paths(&set)).chain(kinds(&set));
    cases.extend(both.map(|case| (&open, case)));
    cases.extend(links(&open, &set).await.into_iter().map(|case| (&open, case)));
    cases.extend(strangers(&ada).into_iter().map(|case| (&closed, case)));
    let mut through = Vec::new();
    for (house, case) in &cases {
        let headers: Vec<(&str, &str)> = case.headers.iter().map(|(name, value)| (*name, &**value)).collect();
        let answer = house.ask_with(case.method, &case.path, &headers, case.body.clone()).await;
        if !case.refused.contains(&answer.status.as_u16()) || !is_discreet(&answer) {
            through.push(format!("{}: {} {}", case.name, answer.status, answer.text()));
        }
    }
    // They were only asked for; nothing was done.
    assert_eq!(open.ask("GET", &set, "").await.json()["access_count"], 0);
    println!("{} hostile cases, {} let through", cases.len(), through.len());
    assert!(through.is_empty(), "{through:#?}");
    assert!(cases.len() >= 80, "{} cases", cases.len());
}

/// The shape of an error, the headers of every answer, and no word about the inside.
fn is_discreet(answer: &Answer) -> bool {
    let (_, code) = answer.refusal();
    let text = answer.text();
    !code.is_empty()
        && text.len() < 1000
        && answer.header("x-content-type-options") == Some("nosniff")
        && answer.header("referrer-policy") == Some("no-referrer")
        && answer.header("cache-control") == Some("no-store")
        && !["src/", ".rs", "panicked", "Person "].iter().any(|inside| text.contains(inside))
}

#[tokio::test]
async fn whatever_is_wrong_with_a_link_the_answer_is_the_same() {
    let house = House::open();
    let set = house.people(1).await;
    let mut bodies = Vec::new();
    for case in links(&house, &set).await.into_iter().filter(|case| case.refused == [401]) {
        let answer = house.ask(case.method, &case.path, "").await;
        bodies.push((answer.text(), format!("{:?}", answer.headers)));
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:#?}");
}

#[tokio::test]
async fn odd_but_harmless_requests_are_answered() {
    let house = House::open();
    let set = house.people(3).await;
    let rows = format!("{set}/rows");
    for (name, value) in [
        ("range", "bytes=0-10"),
        ("if-none-match", "garbage"),
        ("if-none-match", "W/\"\", \"\", ,"),
        ("if-none-match", "W/*"),
        ("if-modified-since", "Wed, 21 Oct 2099 07:28:00 GMT"),
        ("if-match", "\"never\""),
        ("x-http-method-override", "DELETE"),
        ("accept", "text/html;q=0.9, */*;q=0.1"),
        ("accept-encoding", "br, unknown;q=0.5"),
    ] {
        let answer = house.ask_with("GET", &rows, &[(name, value)], "").await;
        assert_eq!(answer.status, 200, "{name}: {value}");
        assert_eq!(answer.json()["returned_count"], 3);
    }
    assert_eq!(house.ask("GET", &format!("{rows}?utm_source=x&_=1"), "").await.status, 200);
    assert_eq!(house.ask("GET", &set, "").await.status, 200, "nothing was deleted");
}

#[tokio::test]
async fn a_method_that_a_route_has_not_is_told_which_it_has() {
    let house = House::open();
    let set = house.people(1).await;
    for (path, allowed) in [
        (set.clone(), "GET,HEAD,POST,PUT,DELETE"),
        (format!("{set}/rows"), "GET,HEAD"),
        (format!("{set}/links"), "POST,DELETE"),
    ] {
        let answer = house.ask("PATCH", &path, "").await;
        assert_eq!(answer.refusal(), (405, "INVALID_REQUEST".to_owned()));
        let mut found: Vec<&str> = answer.header("allow").unwrap().split(',').collect();
        let mut allowed: Vec<&str> = allowed.split(',').collect();
        found.sort_unstable();
        allowed.sort_unstable();
        assert_eq!(found, allowed, "{path}");
    }
}

//! What is tried.

use antiphon_results::LinkKeys;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;

use super::{
    super::{House, bodies::every_route},
    Case,
};

pub(super) fn bodies(set: &str) -> Vec<Case> {
    let page = [
        ("sort injection, quote", r#"{"sort":{"field":"id\" DESC; DROP TABLE people; --"}}"#),
        ("sort injection, union", r#"{"sort":{"field":"id UNION SELECT password FROM users"}}"#),
        ("sort injection, case", r#"{"sort":{"field":"CASE WHEN 1=1 THEN id ELSE name END"}}"#),
        ("sort injection, comment", r#"{"sort":{"field":"id/**/"}}"#),
        ("sort injection, backtick", r#"{"sort":{"field":"`id`"}}"#),
        ("sort injection, sleep", r#"{"sort":{"field":"pg_sleep(10)"}}"#),
        ("sort injection, ordinal", r#"{"sort":{"field":"1"}}"#),
        ("sort injection, star", r#"{"sort":{"field":"*"}}"#),
        ("sort by the wrong case", r#"{"sort":{"field":"ID"}}"#),
        ("sort by a space", r#"{"sort":{"field":"id "}}"#),
        ("sort by nothing", r#"{"sort":{"field":""}}"#),
        ("sort by NUL", r#"{"sort":{"field":"id\u0000"}}"#),
        ("sort by a look-alike", r#"{"sort":{"field":"іd"}}"#),
        ("sort by __proto__", r#"{"sort":{"field":"__proto__"}}"#),
        ("sort by a number", r#"{"sort":{"field":1}}"#),
        ("sort without a field", r#"{"sort":{"order":"asc"}}"#),
        ("sort as text", r#"{"sort":"id"}"#),
        ("sort as an array", r#"{"sort":["id","desc"]}"#),
        ("order injection", r#"{"sort":{"field":"id","order":"asc; DROP TABLE people"}}"#),
        ("order in capitals", r#"{"sort":{"field":"id","order":"DESC"}}"#),
        ("order null", r#"{"sort":{"field":"id","order":null}}"#),
        ("order as an enum object", r#"{"sort":{"field":"id","order":{"asc":null}}}"#),
        ("sort with more", r#"{"sort":{"field":"id","nulls":"first"}}"#),
        ("negative offset", r#"{"offset":-1}"#),
        ("negative limit", r#"{"limit":-1}"#),
        ("limit 0", r#"{"limit":0}"#),
        ("limit 0.0", r#"{"limit":0.0}"#),
        ("half a row", r#"{"limit":0.5}"#),
        ("offset 1.0000001", r#"{"offset":1.0000001}"#),
        ("offset 2^53", r#"{"offset":9007199254740992}"#),
        ("offset 2^64", r#"{"offset":18446744073709551616}"#),
        ("offset 1e300", r#"{"offset":1e300}"#),
        ("offset 1e999", r#"{"offset":1e999}"#),
        ("offset NaN", r#"{"offset":NaN}"#),
        ("offset Infinity", r#"{"offset":Infinity}"#),
        ("offset hex", r#"{"offset":0x10}"#),
        ("offset octal", r#"{"offset":010}"#),
        ("offset as text", r#"{"offset":"1"}"#),
        ("offset true", r#"{"offset":true}"#),
        ("offset null", r#"{"offset":null}"#),
        ("limit null", r#"{"limit":null}"#),
        ("limit in an array", r#"{"limit":[1]}"#),
        ("limit in an object", r#"{"limit":{"$gt":0}}"#),
        ("the same member twice", r#"{"limit":1,"limit":100000}"#),
        ("the same member twice, escaped", r#"{"limit":1,"\u006cimit":100000}"#),
        ("a member in capitals", r#"{"Limit":1}"#),
        ("__proto__", r#"{"__proto__":{"limit":1}}"#),
        ("an unknown member", r#"{"where":"1=1"}"#),
        ("a filter", r#"{"filter":{"id":1}}"#),
        ("an array", "[0,10]"),
        ("null", "null"),
        ("text", r#""offset""#),
        ("half an object", r#"{"offset":1"#),
        ("two objects", "{}{}"),
        ("a comma too many", r#"{"offset":1,}"#),
        ("a comment", r#"{/**/"offset":1}"#),
        ("only a space", " "),
        ("a byte order mark", "\u{feff}{}"),
        ("a lone surrogate", r#"{"cursor":"\ud800"}"#),
        ("cursor of another house", r#"{"cursor":"eyJvIjoxMDAsImsiOlsxXX0"}"#),
        ("cursor that is none", r#"{"cursor":"' OR 1=1 --"}"#),
        ("cursor as a number", r#"{"cursor":1}"#),
    ];
    let mut cases: Vec<Case> =
        page.map(|(name, body)| Case::new(name, "POST", set, &[400]).with_body(body)).into_iter().collect();
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(20_000), close.repeat(20_000));
    cases.push(Case::new("deep arrays", "POST", set, &[400]).with_body(deep("[", "]")));
    cases.push(
        Case::new("deep in a member", "POST", set, &[400])
            .with_body(format!("{{\"sort\":{}", "{\"a\":".repeat(9000))),
    );
    cases.push(
        Case::new("a long name", "POST", set, &[400]).with_body(json!({"x".repeat(60_000): 1}).to_string()),
    );
    cases.push(Case::new("a huge body", "POST", set, &[413]).with_body(" ".repeat(100_000)));
    let life = [
        ("pinned as text", r#"{"pinned":"true"}"#),
        ("pinned 1", r#"{"pinned":1}"#),
        ("pinned null", r#"{"pinned":null}"#),
        ("pinned and extended", r#"{"pinned":true,"expires_in":1}"#),
        ("no life", r#"{"expires_in":0}"#),
        ("negative life", r#"{"expires_in":-5}"#),
        ("expires_at", r#"{"expires_at":"2099-01-01T00:00:00Z"}"#),
        ("owner", r#"{"owner":{"principal":"eve"}}"#),
    ];
    cases.extend(life.map(|(name, body)| Case::new(name, "PUT", set, &[400]).with_body(body)));
    let link = [
        ("no scopes", r#"{"scopes":[]}"#),
        ("unknown scope", r#"{"scopes":["admin"]}"#),
        ("scope as text", r#"{"scopes":"read"}"#),
        ("scope in capitals", r#"{"scopes":["READ"]}"#),
        ("scopes null", r#"{"scopes":null}"#),
        ("link for no time", r#"{"expires_in":0}"#),
        ("link for a set of its own", r#"{"id":"rs_other"}"#),
    ];
    let links = format!("{set}/links");
    cases.extend(link.map(|(name, body)| Case::new(name, "POST", &links, &[400]).with_body(body)));
    cases
}

pub(super) fn queries(set: &str) -> Vec<Case> {
    let bad = [
        "offset=-1",
        "offset=",
        "offset=1e2",
        "offset=0x10",
        "offset=%2B1",
        "offset=1.5",
        "offset=1%00",
        "offset=9007199254740992",
        "limit=0",
        "limit=0.0",
        "limit=ten",
        "limit=١",
        "limit=1&limit=2",
        "sort=id&sort=name",
        "sort=",
        "sort=id%00",
        "sort=id%20desc",
        "sort=id%22%3B--",
        "order=sideways",
        "sort=id&order=ASC",
        "cursor=",
        "cursor=%FF",
        "csv_safe=0",
        "csv_safe=",
        "csv_safe=true&csv_safe=false",
    ];
    let case = |query: &&str| {
        let query = query.replace('١', "%D9%A1");
        Case::new(format!("query {query}"), "GET", format!("{set}/rows?{query}"), &[400])
    };
    let mut cases: Vec<Case> = bad.iter().map(case).collect();
    let long = format!("{set}/rows?cursor={}", "A".repeat(30_000));
    cases.push(Case::new("a long query", "GET", long, &[414]));
    cases.push(Case::new(
        "a long cursor",
        "GET",
        format!("{set}/rows?cursor={}", "A".repeat(17_000)),
        &[400],
    ));
    cases
}

pub(super) fn paths(set: &str) -> Vec<Case> {
    let id = set.rsplit('/').next().unwrap();
    let paths = [
        "/resources/..".to_owned(),
        "/resources/%2e%2e".to_owned(),
        format!("/resources/%2e%2e%2f{id}"),
        format!("/resources/..%2f..%2f{id}"),
        format!("/resources/{id}%2frows"),
        format!("/resources/{id}%00"),
        format!("/resources/{id}%2500"),
        format!("/resources/{id}%20"),
        format!("/resources/{id}%0d%0aX-Injected:%201"),
        format!("/resources/{id};jsessionid=1"),
        format!("/resources/{id}/"),
        format!("/resources//{id}"),
        format!("/resources/./{id}"),
        format!("/resources/{id}/rows/"),
        format!("/resources/{id}/../{id}"),
        format!("/resources/{id}/unknown"),
        format!("/resources/{id}.json"),
        format!("/resources/{}", id.to_uppercase()),
        "/resources/%ff%fe".to_owned(),
        "/resources/%".to_owned(),
        "/resources/%c0%af".to_owned(),
        "/resources/'%20OR%201=1--".to_owned(),
        "/resources/*".to_owned(),
        "/resources/openapi".to_owned(),
        "/resources/openapi.json%00".to_owned(),
        format!("/resources/{}", "a".repeat(65)),
        format!("/resources/{}", "a".repeat(8000)),
    ];
    let methods = ["GET", "POST"];
    let all = paths.iter().flat_map(|path| methods.map(|method| (method, path)));
    all.map(|(method, path)| {
        let shown: String = path.chars().take(80).collect();
        Case::new(format!("{method} {shown}"), method, path, &[400, 404, 405])
    })
    .filter(|case| case.method == "GET" || case.path != "/resources/openapi.json")
    .collect()
}

pub(super) fn kinds(set: &str) -> Vec<Case> {
    let types = [
        "text/plain",
        "text/html",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/json; charset=utf-16",
        "application/jsonp",
        "json",
        "+json",
        "/",
        "application/json, text/plain",
    ];
    let typed = |kind: &&str| {
        Case::new(format!("type {kind}"), "POST", set, &[415])
            .with_body("{}")
            .with_header("content-type", *kind)
    };
    let mut cases: Vec<Case> = types.iter().map(typed).collect();
    cases.push(
        Case::new("two types", "POST", set, &[415])
            .with_body("{}")
            .with_header("content-type", "application/json")
            .with_header("content-type", "text/plain"),
    );
    cases.push(
        Case::new("a packed body", "POST", set, &[415])
            .with_body("{}")
            .with_header("content-encoding", "gzip"),
    );
    let rows = format!("{set}/rows");
    for accept in [
        "text/html",
        "*/*;q=0",
        "application/json;q=0",
        "application/json;q=1.001",
        "a",
        ",",
        "image/*, text/*;q=0",
    ] {
        cases.push(Case::new(format!("accept {accept}"), "GET", &rows, &[406]).with_header("accept", accept));
    }
    for method in ["PATCH", "TRACE", "OPTIONS", "CONNECT", "PROPFIND", "get"] {
        cases.push(Case::new(format!("method {method}"), method, set, &[405]));
    }
    // Methods are what they are, whatever headers say.
    for header in ["x-http-method-override", "x-http-method", "x-method-override"] {
        cases.push(Case::new(header, "PATCH", set, &[405]).with_header(header, "DELETE"));
    }
    cases.push(Case::new("rows by POST", "POST", rows, &[405]));
    cases
}

/// Everybody but the owner, on every route.
pub(super) fn strangers(set: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for (method, path) in every_route(set) {
        let case =
            |name: &str, refused| Case::new(format!("{name}, {method} {path}"), method, &path, refused);
        cases.push(case("nobody", &[401]));
        for (name, who) in [
            ("another person", "eve@acme"),
            ("another tenant", "ada@evil"),
            ("a prefix", "ada@acm"),
            ("no name", "@acme"),
        ] {
            cases.push(case(name, &[404]).with_header("authorization", format!("Bearer {who}")));
        }
        cases.push(case("another scheme", &[401]).with_header("authorization", "Basic YWRhOmFjbWU="));
        cases.push(case("forwarded", &[401]).with_header("x-forwarded-user", "ada@acme"));
        cases.push(case("an empty link", &[401]).with_header("authorization", "Bearer eve@acme"));
        let last = cases.last_mut().unwrap();
        last.path.push_str("?link=");
    }
    cases
}

/// Links that are not good, whatever is wrong with them.
pub(super) async fn links(house: &House, set: &str) -> Vec<Case> {
    let good = house.link(set, &json!({"scopes": ["read"]})).await;
    let token = good.strip_prefix("?link=").unwrap().to_owned();
    let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
    let rewritten = |from: &str, to: &str| {
        let end = bytes.len() - 32;
        let text = String::from_utf8(bytes[2..end].to_vec()).unwrap();
        assert!(text.contains(from), "{text}");
        let mut forged = bytes[..2].to_vec();
        forged.extend(text.replace(from, to).into_bytes());
        forged.extend(&bytes[end..]);
        URL_SAFE_NO_PAD.encode(forged)
    };
    let other = house.people(1).await;
    let foreign = house.link(&other, &json!({})).await;
    let revoked = house.link(&other, &json!({})).await;
    house.ask("DELETE", &format!("{other}/links"), "").await;
    let strange = House::with(|options| options.with_link_keys(LinkKeys::new(1, [8; 32])));
    let id = set.rsplit('/').next().unwrap();
    let other_id = other.rsplit('/').next().unwrap();
    let flipped = |at: usize| {
        let mut forged = bytes.clone();
        forged[at] ^= 1;
        URL_SAFE_NO_PAD.encode(forged)
    };
    let unknown = strange.people(1).await;
    let by_other_key = strange.link(&unknown, &json!({})).await.replace("?link=", "");
    let cases = vec![
        ("empty", String::new()),
        ("nonsense", "nonsense".to_owned()),
        ("not base64", "%2B%2F%3D".to_owned()),
        ("re-scoped", rewritten(r#"["read"]"#, r#"["read","delete"]"#)),
        ("re-targeted", rewritten(id, other_id)),
        ("for longer", rewritten(r#""e":17"#, r#""e":99"#)),
        ("next epoch", rewritten(r#""n":0"#, r#""n":1"#)),
        ("for another set", foreign.replace("?link=", "")),
        ("version flipped", flipped(0)),
        ("key number flipped", flipped(1)),
        ("first bit of the tag", flipped(bytes.len() - 32)),
        ("last bit of the tag", flipped(bytes.len() - 1)),
        ("truncated", token[..token.len() - 4].to_owned()),
        ("only the tag", URL_SAFE_NO_PAD.encode(&bytes[bytes.len() - 32..])),
        ("no tag", URL_SAFE_NO_PAD.encode(&bytes[..bytes.len() - 32])),
        ("by another key", by_other_key),
        ("padded", format!("{token}=")),
        ("with more", format!("{token}AAAA")),
        ("long", "A".repeat(600)),
        ("twice", format!("{token}&link={token}")),
        ("unsigned", URL_SAFE_NO_PAD.encode(format!(r#"{{"i":"{id}","s":["read"],"e":9999999999,"n":0}}"#))),
    ];
    let mut all: Vec<Case> = cases
        .into_iter()
        .flat_map(|(name, token)| {
            let methods = [("GET", set.to_owned()), ("POST", set.to_owned()), ("GET", format!("{set}/rows"))];
            methods.map(|(method, path)| {
                Case::new(format!("link {name}, {method}"), method, format!("{path}?link={token}"), &[401])
            })
        })
        .collect();
    all.push(Case::new("link of an old epoch", "GET", format!("{other}{revoked}"), &[401]));
    all.push(Case::new("link makes a link", "POST", format!("{set}/links{good}"), &[403]));
    all.push(Case::new("link revokes links", "DELETE", format!("{set}/links{good}"), &[403]));
    all.push(Case::new("link for reading deletes", "DELETE", format!("{set}{good}"), &[403]));
    all.push(Case::new("link for reading pins", "PUT", format!("{set}{good}"), &[403]));
    all
}

//! Signed links.

use antiphon_results::{LinkKeys, Owner};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;

use super::House;

const ADA: (&str, &str) = ("authorization", "Bearer ada@acme");

fn ada() -> Owner {
    Owner::principal("ada").with_tenant("acme")
}

#[tokio::test]
async fn a_link_opens_one_set_for_what_it_says() {
    let house = House::with_callers();
    let path = house.people_of(3, ada()).await;
    let minted = house
        .ask_with("POST", &format!("{path}/links"), &[ADA], r#"{"scopes":["read","read"],"expires_in":60}"#)
        .await;
    assert_eq!(minted.status, 201);
    let body = minted.json();
    assert_eq!(body["scopes"], json!(["read"]));
    assert_eq!(body["expires_at"], "2025-01-15T10:31:00Z");
    let mut members: Vec<&String> = body.as_object().unwrap().keys().collect();
    members.sort();
    assert_eq!(members, ["expires_at", "scopes", "url"]);
    let url = body["url"].as_str().unwrap();
    let (address, link) = url.split_once('?').unwrap();
    assert_eq!(address, format!("https://api.example.com{path}"));
    assert_eq!(house.ask("GET", &format!("{path}?{link}"), "").await.status, 200, "without credentials");
    assert_eq!(house.ask("POST", &format!("{path}?{link}"), "").await.status, 200);
    let rows = house.ask("GET", &format!("{path}/rows?{link}"), "").await;
    assert_eq!(rows.header("cache-control"), Some("private, no-cache"), "a link may be revoked");
    for (method, path) in [
        ("PUT", path.clone()),
        ("DELETE", path.clone()),
        ("POST", format!("{path}/links")),
        ("DELETE", format!("{path}/links")),
    ] {
        let refused = house.ask(method, &format!("{path}?{link}"), "").await;
        assert_eq!(refused.refusal(), (403, "FORBIDDEN".to_owned()), "{method} {path}");
        let with_credentials = house.ask_with(method, &format!("{path}?{link}"), &[ADA], "").await;
        assert_eq!(with_credentials.status, 403, "the link decides");
    }
    house.pass(60);
    assert_eq!(house.ask("GET", &format!("{path}?{link}"), "").await.status, 401);
}

/// A download is what links are for.
#[tokio::test]
async fn a_link_to_read_takes_all_rows_away_too() {
    let house = House::with_callers();
    let path = house.people_of(3, ada()).await;
    let link = async |scopes: &str| {
        let ask = format!(r#"{{"scopes":[{scopes}]}}"#);
        let minted = house.ask_with("POST", &format!("{path}/links"), &[ADA], ask).await.json();
        minted["url"].as_str().unwrap().split_once('?').unwrap().1.to_owned()
    };
    let export =
        async |link: String| house.ask("GET", &format!("{path}/export?format=ndjson&{link}"), "").await;
    let whole = export(link(r#""read""#).await).await;
    assert_eq!((whole.status.as_u16(), whole.text().lines().count()), (200, 3));
    let refused = export(link(r#""pin","delete","query""#).await).await;
    assert_eq!(refused.refusal(), (403, "FORBIDDEN".to_owned()));
}

#[tokio::test]
async fn a_link_may_allow_pinning_and_deleting() {
    let house = House::open();
    let path = house.people(1).await;
    let link = house.link(&path, &json!({"scopes": ["pin", "delete"]})).await;
    assert_eq!(house.ask("GET", &format!("{path}{link}"), "").await.status, 403);
    assert_eq!(house.ask("PUT", &format!("{path}{link}"), "").await.status, 200);
    assert_eq!(house.ask("DELETE", &format!("{path}{link}"), "").await.status, 204);
}

#[tokio::test]
async fn a_link_never_outlives_its_set_nor_the_servers_limit() {
    let house = House::open();
    let path = house.people(1).await;
    house.ask("PUT", &path, "").await;
    let minted = house.ask("POST", &format!("{path}/links"), r#"{"expires_in":9007199254740991}"#).await;
    assert_eq!(minted.json()["expires_at"], "2025-01-15T10:45:00Z");
    house.ask("PUT", &path, r#"{"expires_in":30}"#).await;
    let minted = house.ask("POST", &format!("{path}/links"), "").await;
    assert_eq!(minted.json()["expires_at"], "2025-01-15T10:30:30Z");
}

#[tokio::test]
async fn revoked_links_open_nothing() {
    let house = House::open();
    let path = house.people(1).await;
    let old = house.link(&path, &json!({})).await;
    assert_eq!(house.ask("DELETE", &format!("{path}/links"), "").await.status, 204);
    assert_eq!(
        house.ask("GET", &format!("{path}{old}"), "").await.refusal(),
        (401, "UNAUTHORIZED".to_owned())
    );
    let new = house.link(&path, &json!({})).await;
    assert_eq!(house.ask("GET", &format!("{path}{new}"), "").await.status, 200);
}

#[tokio::test]
async fn rotated_keys_open_old_links_until_they_are_dropped() {
    let old = || LinkKeys::new(1, [1; 32]);
    let house = House::with(|options| options.with_link_keys(old()));
    let path = house.people(1).await;
    let link = house.link(&path, &json!({"scopes": ["read"]})).await;
    let token = link.strip_prefix("?link=").unwrap();
    let good =
        |keys: LinkKeys| House::with(|options| options.with_link_keys(keys)).server.open_link(token).is_ok();
    assert!(good(old()));
    assert!(good(LinkKeys::new(2, [2; 32]).with_decryption_key(1, [1; 32])), "the spare opens it");
    assert!(!good(LinkKeys::new(2, [2; 32])), "dropped");
    assert!(!good(LinkKeys::new(1, [2; 32])), "the same number, another secret");
    assert!(!good(LinkKeys::new(2, [1; 32])), "the same secret, another number");
}

#[tokio::test]
async fn the_next_page_of_a_link_is_behind_the_same_link() {
    let house = House::open();
    let path = house.numbers(250).await;
    let link = house.link(&path, &json!({})).await;
    let page = house.ask("GET", &format!("{path}/rows{link}"), "").await;
    let next = page.header("link").unwrap();
    assert!(next.contains(&link[1..]), "who follows it must not lose the link");
}

/// Every bit of a token counts.
#[tokio::test]
async fn a_link_with_any_bit_flipped_opens_nothing() {
    let house = House::open();
    let path = house.people(1).await;
    let link = house.link(&path, &json!({})).await;
    let token = URL_SAFE_NO_PAD.decode(link.strip_prefix("?link=").unwrap()).unwrap();
    for bit in 0..token.len() * 8 {
        let mut forged = token.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        assert!(house.server.open_link(&URL_SAFE_NO_PAD.encode(forged)).is_err(), "bit {bit}");
    }
}

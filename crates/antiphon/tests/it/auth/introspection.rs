//! Tokens that say nothing by themselves.

use std::{sync::atomic::Ordering, time::Duration};

use antiphon::{
    auth::{Auth, Introspection},
    testing::Revision,
};
use axum::Router;
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    INVALID, RESOURCE, app, assert_invalid,
    authority::{Authority, now},
    signer::Signer,
    with_token,
};

fn asking(authority: &Authority) -> Introspection {
    Introspection::new(&*authority.issuer, "reports server", "s3cr3t+")
}

fn taking(introspection: Introspection) -> Router {
    app(Auth::builder(RESOURCE).with_introspection(introspection).with_scopes(["use"]).build().unwrap())
}

/// What the authorization server says of a good token of Ada's.
fn good() -> Value {
    json!({"active": true, "sub": "ada", "client_id": "chat", "aud": RESOURCE, "scope": "use more", "exp": now() + 300})
}

#[tokio::test]
async fn opaque_token_is_asked_about_once_and_known_for_a_while() {
    let authority = Authority::start(&[]).await;
    authority.issue("t-1", good());
    let app = taking(asking(&authority));
    for _ in 0..3 {
        assert_eq!(with_token(&app, "t-1").await.text(), format!("{}#ada ada", authority.issuer));
    }
    assert_eq!(authority.asked(), 1);
    // So is one that is not good, if for a shorter while.
    for _ in 0..3 {
        assert_invalid(&with_token(&app, "t-2").await, INVALID, "unknown");
    }
    assert_eq!(authority.asked(), 2);
}

#[tokio::test]
async fn token_that_is_taken_back_is_good_no_longer_than_it_is_known() {
    let authority = Authority::start(&[]).await;
    authority.issue("t", good());
    let app = taking(asking(&authority).with_cache(Duration::from_millis(200)));
    assert_eq!(with_token(&app, "t").await.status, StatusCode::OK);
    authority.issue("t", json!({"active": false}));
    let began = std::time::Instant::now();
    while with_token(&app, "t").await.status == StatusCode::OK {
        assert!(began.elapsed() < Duration::from_secs(10), "it is good for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_invalid(&with_token(&app, "t").await, INVALID, "taken back");
}

#[tokio::test]
async fn many_who_bring_one_token_ask_once() {
    let authority = Authority::start(&[]).await;
    *authority.desk.slow.lock().unwrap() = Duration::from_millis(100);
    authority.issue("t", good());
    let app = taking(asking(&authority));
    let calls = (0..20).map(|_| {
        let app = app.clone();
        tokio::spawn(async move { with_token(&app, "t").await.status })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(authority.asked(), 1);
}

#[tokio::test]
async fn what_is_said_of_a_token_is_held_against_all_that_is_held_against_signed_ones() {
    let authority = Authority::start(&[]).await;
    let app = taking(asking(&authority));
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut said = good();
        change(&mut said);
        said
    };
    let issuer = authority.issuer.clone();
    for (name, said) in [
        ("several audiences", changed(&|it| it["aud"] = json!(["x", RESOURCE]))),
        ("its issuer", changed(&|it| it["iss"] = json!(issuer))),
        ("no end", changed(&|it| drop(it.as_object_mut().unwrap().remove("exp")))),
        ("within the leeway", changed(&|it| it["exp"] = json!(now() - 30))),
        ("an end in fractions", changed(&|it| it["exp"] = json!(4e9 + 0.5))),
    ] {
        authority.issue(&name.replace(' ', "-"), said);
        assert_eq!(with_token(&app, &name.replace(' ', "-")).await.status, StatusCode::OK, "{name}");
    }
    for (name, said) in [
        ("not active", changed(&|it| it["active"] = json!(false))),
        ("active in words", changed(&|it| it["active"] = json!("true"))),
        ("another audience", changed(&|it| it["aud"] = json!("x"))),
        ("no audience", changed(&|it| drop(it.as_object_mut().unwrap().remove("aud")))),
        ("another issuer", changed(&|it| it["iss"] = json!("https://other.example"))),
        ("not yet", changed(&|it| it["nbf"] = json!(now() + 3600))),
        ("bound to a key", changed(&|it| it["cnf"] = json!({"jkt": "x"}))),
        ("nobody", json!({"active": true, "aud": RESOURCE, "scope": "use"})),
    ] {
        authority.issue(&name.replace(' ', "-"), said);
        assert_invalid(&with_token(&app, &name.replace(' ', "-")).await, INVALID, name);
    }
    authority.issue("old", changed(&|it| it["exp"] = json!(now() - 3600)));
    assert_invalid(&with_token(&app, "old").await, "the access token has expired", "old");
    // A client's own token, as some say it.
    authority.issue("machine", json!({"active": true, "client_id": "ci", "aud": RESOURCE, "scope": "use"}));
    assert_eq!(with_token(&app, "machine").await.text(), format!("{}?client_id#ci ci", authority.issuer));
    authority.issue("poor", changed(&|it| it["scope"] = json!("more")));
    assert_eq!(with_token(&app, "poor").await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn audience_is_left_out_only_where_that_was_said() {
    let authority = Authority::start(&[]).await;
    let mut said = good();
    said.as_object_mut().unwrap().remove("aud");
    authority.issue("t", said);
    assert_invalid(&with_token(&taking(asking(&authority)), "t").await, INVALID, "no audience");
    let app = taking(asking(&authority).with_any_audience(true));
    assert_eq!(with_token(&app, "t").await.status, StatusCode::OK);
}

#[tokio::test]
async fn secret_goes_in_the_body_where_that_was_said() {
    let authority = Authority::start(&[]).await;
    authority.issue("t", good());
    let endpoint = format!("{}/introspect", authority.issuer);
    let app = taking(asking(&authority).with_secret_in_body(true).with_endpoint(endpoint));
    assert_eq!(with_token(&app, "t").await.status, StatusCode::OK);
}

#[tokio::test]
async fn authority_that_does_not_know_us_is_no_verdict_on_a_token() {
    let authority = Authority::start(&[]).await;
    authority.issue("t", good());
    let app = taking(Introspection::new(&*authority.issuer, "reports server", "wrong"));
    assert_eq!(with_token(&app, "t").await.status, StatusCode::SERVICE_UNAVAILABLE);
    let app = taking(asking(&authority));
    authority.desk.down.store(true, Ordering::SeqCst);
    assert_eq!(with_token(&app, "t").await.status, StatusCode::SERVICE_UNAVAILABLE);
    authority.desk.down.store(false, Ordering::SeqCst);
    assert_eq!(with_token(&app, "t").await.status, StatusCode::OK);
}

#[tokio::test]
async fn token_that_names_another_issuer_is_shown_to_nobody() {
    let authority = Authority::start(&[]).await;
    let app = taking(asking(&authority));
    let mut claims = authority.claims();
    claims["iss"] = json!("https://other.example");
    assert_invalid(&with_token(&app, &Signer::new("1").sign(&claims)).await, INVALID, "another issuer's");
    assert_eq!(authority.asked(), 0);
    // One that names this issuer is asked about: it may have its reasons to sign what it could check itself.
    let token = Signer::new("1").sign(&authority.claims());
    authority.issue(&token, good());
    assert_eq!(with_token(&app, &token).await.status, StatusCode::OK);
}

/// A token that was good is asked about again while a flood of made-up ones waits, from wherever it comes; a new one only
/// if the flood comes from somewhere else.
#[tokio::test]
async fn flood_of_made_up_tokens_does_not_keep_good_ones_out() {
    let authority = Authority::start(&[]).await;
    for token in ["known", "new"] {
        authority.issue(token, good());
    }
    let app = taking(asking(&authority).with_cache(Duration::from_millis(50)));
    let call = |token: &str, peer: &str| {
        let mut request = super::call(Revision::V2026_07_28, "whoami", Some(&format!("Bearer {token}")));
        let peer: std::net::SocketAddr = peer.parse().unwrap();
        request.extensions_mut().insert(axum::extract::ConnectInfo(peer));
        let app = app.clone();
        async move { super::send(&app, request).await.status }
    };
    assert_eq!(call("known", "127.0.0.1:1").await, StatusCode::OK);
    *authority.desk.slow.lock().unwrap() = Duration::from_millis(400);
    let flood: Vec<_> =
        (0..400).map(|n| tokio::spawn(call(&format!("made-up-{n}"), "127.0.0.1:2"))).collect();
    let asked = authority.asked();
    while authority.asked() < asked + 8 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The flood needs ten seconds for itself.
    let began = std::time::Instant::now();
    assert_eq!(call("known", "127.0.0.1:3").await, StatusCode::OK);
    assert_eq!(call("new", "127.0.0.9:1").await, StatusCode::OK);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    for call in flood {
        call.abort();
    }
}

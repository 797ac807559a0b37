//! Keys that come and go while the server runs.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use antiphon::auth::{Auth, Issuer};
use axum::Router;
use http::{StatusCode, header};
use jsonwebtoken::Header;
use serde_json::json;

use super::{INVALID, RESOURCE, app, assert_invalid, authority::Authority, signer::Signer, with_token};

fn issuer(authority: &Authority) -> Issuer {
    Issuer::new(&*authority.issuer)
}

fn taking(issuer: Issuer) -> Router {
    app(Auth::builder(RESOURCE).with_issuer(issuer).with_scopes(["use"]).build().unwrap())
}

/// An authorization server shows its next key before it uses it, or does not.
#[tokio::test]
async fn rotation_is_followed_in_the_middle_of_everything() {
    let (old, new) = (Signer::new("old"), Signer::ec("new"));
    let authority = Authority::start(&[&old]).await;
    let app = taking(issuer(&authority).with_pause(Duration::ZERO));
    let before = old.sign(&authority.claims());
    assert_eq!(with_token(&app, &before).await.status, StatusCode::OK);
    authority.rotate(&[&new, &old]);
    let after = new.sign(&authority.claims());
    assert_eq!(with_token(&app, &after).await.status, StatusCode::OK);
    assert_eq!(with_token(&app, &before).await.status, StatusCode::OK);
    assert_eq!(authority.fetched(), 2);
    authority.rotate(&[&new]);
    // A key that was taken away is good until somebody looks again.
    assert_eq!(with_token(&app, &before).await.status, StatusCode::OK);
    let unknown = Signer::new("unknown").sign(&authority.claims());
    assert_invalid(&with_token(&app, &unknown).await, INVALID, "unknown");
    assert_eq!(authority.fetched(), 3);
    let (head, signature) = after.rsplit_once('.').unwrap();
    let forged = format!("{head}.{}", signature.chars().rev().collect::<String>());
    assert_invalid(&with_token(&app, &forged).await, INVALID, "forged");
    assert_eq!(with_token(&app, &after).await.status, StatusCode::OK);
    assert_eq!(authority.fetched(), 3);
    // From here on it is an unknown one.
    assert_invalid(&with_token(&app, &before).await, INVALID, "taken away");
}

#[tokio::test]
async fn key_that_was_taken_away_is_gone_after_the_refresh() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let authority = Authority::start(&[&old]).await;
    let app = taking(issuer(&authority).with_pause(Duration::ZERO).with_refresh(Duration::from_millis(200)));
    let token = old.sign(&authority.claims());
    assert_eq!(with_token(&app, &token).await.status, StatusCode::OK);
    authority.rotate(&[&new]);
    let began = Instant::now();
    while with_token(&app, &token).await.status == StatusCode::OK {
        assert!(began.elapsed() < Duration::from_secs(10), "the key stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_invalid(&with_token(&app, &token).await, INVALID, "taken away");
}

#[tokio::test]
async fn tokens_of_anybodys_making_do_not_have_keys_fetched_again_and_again() {
    let key = Signer::new("1");
    let authority = Authority::start(&[&key]).await;
    let app = taking(issuer(&authority));
    let good = key.sign(&authority.claims());
    assert_eq!(with_token(&app, &good).await.status, StatusCode::OK);
    for name in 0..50 {
        let header = Header { kid: Some(format!("made up {name}")), ..key.header() };
        let token = Signer::new("x").sign_as(&header, &authority.claims());
        assert_invalid(&with_token(&app, &token).await, INVALID, "made up");
    }
    // Once because there were none, and once because there might be another.
    assert_eq!(authority.fetched(), 2);
    assert_eq!(with_token(&app, &good).await.status, StatusCode::OK);
}

#[tokio::test]
async fn rotation_is_followed_at_once() {
    let (old, new) = (Signer::new("old"), Signer::new("new"));
    let authority = Authority::start(&[&old]).await;
    // With the pause as it is by default.
    let app = taking(issuer(&authority));
    assert_eq!(with_token(&app, &old.sign(&authority.claims())).await.status, StatusCode::OK);
    authority.rotate(&[&new]);
    assert_eq!(with_token(&app, &new.sign(&authority.claims())).await.status, StatusCode::OK);
}

#[tokio::test]
async fn keys_are_fetched_once_for_all_who_wait() {
    let key = Signer::new("1");
    let authority = Authority::start(&[&key]).await;
    *authority.desk.slow.lock().unwrap() = Duration::from_millis(200);
    let app = taking(issuer(&authority));
    let token = key.sign(&authority.claims());
    let calls = (0..20).map(|_| {
        let (app, token) = (app.clone(), token.clone());
        tokio::spawn(async move { with_token(&app, &token).await.status })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(authority.fetched(), 1);
}

#[tokio::test]
async fn caller_that_hangs_up_does_not_take_the_keys_along() {
    let key = Signer::new("1");
    let authority = Authority::start(&[&key]).await;
    *authority.desk.slow.lock().unwrap() = Duration::from_millis(200);
    let app = taking(issuer(&authority));
    let token = key.sign(&authority.claims());
    let gone = tokio::time::timeout(Duration::from_millis(50), with_token(&app, &token)).await;
    assert!(gone.is_err());
    assert_eq!(with_token(&app, &token).await.status, StatusCode::OK);
    assert_eq!(authority.fetched(), 1);
}

#[tokio::test]
async fn while_keys_cannot_be_fetched_nobody_is_called_a_liar() {
    let key = Signer::new("1");
    let authority = Authority::start(&[&key]).await;
    authority.desk.down.store(true, Ordering::SeqCst);
    let app = taking(issuer(&authority).with_pause(Duration::ZERO));
    let token = key.sign(&authority.claims());
    let answer = with_token(&app, &token).await;
    assert_eq!((answer.status, answer.challenge), (StatusCode::SERVICE_UNAVAILABLE, None));
    assert_eq!(answer.headers[header::RETRY_AFTER], "5");
    authority.desk.down.store(false, Ordering::SeqCst);
    assert_eq!(with_token(&app, &token).await.status, StatusCode::OK);
}

#[tokio::test]
async fn keys_at_hand_do_for_a_while_when_no_new_ones_are_to_be_had() {
    let key = Signer::new("1");
    let authority = Authority::start(&[&key]).await;
    let refresh = Duration::from_millis(300);
    let app = taking(issuer(&authority).with_pause(Duration::ZERO).with_refresh(refresh));
    let token = key.sign(&authority.claims());
    assert_eq!(with_token(&app, &token).await.status, StatusCode::OK);
    let began = Instant::now();
    authority.desk.down.store(true, Ordering::SeqCst);
    // Past the refresh they are asked for in vain, and good all the same.
    tokio::time::sleep(refresh * 2).await;
    assert_eq!(with_token(&app, &token).await.status, StatusCode::OK);
    while with_token(&app, &token).await.status == StatusCode::OK {
        assert!(began.elapsed() < Duration::from_secs(20), "keys are good for ever");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(began.elapsed() >= refresh * 5, "{:?}", began.elapsed());
    assert_eq!(with_token(&app, &token).await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn key_set_without_end_is_not_read_to_its_end() {
    let key = Signer::new("1");
    let authority = Authority::start(&[]).await;
    authority.show(json!({"keys": [key.jwk()], "more": "x".repeat(300 * 1024)}));
    let app = taking(issuer(&authority).with_pause(Duration::ZERO));
    let token = key.sign(&authority.claims());
    assert_eq!(with_token(&app, &token).await.status, StatusCode::SERVICE_UNAVAILABLE);
    // What is no key set has no key; what is no key is no obstacle to the others.
    authority.show(json!([]));
    assert_invalid(&with_token(&app, &token).await, INVALID, "no set");
    authority.show(json!({"keys": ["junk", {"kty": "oct", "k": "AA", "kid": "1"}, key.jwk()]}));
    assert_eq!(with_token(&app, &token).await.status, StatusCode::OK);
}

#[tokio::test]
async fn metadata_of_another_issuer_are_not_believed() {
    let key = Signer::new("1");
    let authority = Authority::start(&[&key]).await;
    // Its metadata name the address with another ending.
    let name = format!("{}/", authority.issuer);
    let app = taking(Issuer::new(&*name));
    let mut claims = authority.claims();
    claims["iss"] = json!(name);
    assert_eq!(with_token(&app, &key.sign(&claims)).await.status, StatusCode::SERVICE_UNAVAILABLE);
    // Said where they are, they are taken from there.
    let app = taking(Issuer::new(&*name).with_jwks_url(format!("{}/jwks", authority.issuer)));
    assert_eq!(with_token(&app, &key.sign(&claims)).await.status, StatusCode::OK);
}

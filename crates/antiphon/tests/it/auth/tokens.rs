//! Signed tokens: which are good, and every way in which one is not.

use antiphon::auth::{Auth, Issuer};
use http::StatusCode;
use jsonwebtoken::{Algorithm, Header, get_current_timestamp};
use serde_json::{Value, json};

use super::{
    INVALID, RESOURCE, app, assert_invalid,
    authority::{Authority, now},
    send,
    signer::{Signer, forged},
    tools, trusting, with_token,
};

#[tokio::test]
async fn token_of_every_public_key_algorithm_is_good() {
    let signers = [
        Signer::new("ed"),
        Signer::ec("ec"),
        Signer::rsa("rs", Algorithm::RS256),
        Signer::rsa("ps", Algorithm::PS384),
    ];
    let authority = Authority::start(&signers.iter().collect::<Vec<_>>()).await;
    let app = app(trusting(&authority).build().unwrap());
    for signer in &signers {
        let answer = with_token(&app, &signer.sign(&authority.claims())).await;
        assert_eq!(answer.text(), format!("{}#ada ada", authority.issuer));
    }
    // All were fetched once, for the first.
    assert_eq!(authority.fetched(), 1);
}

#[tokio::test]
async fn token_is_good_as_rfc_9068_and_its_relatives_have_it() {
    let key = Signer::new("1");
    let authority = Authority::start(&[&key]).await;
    let app = app(trusting(&authority).build().unwrap());
    let changed = |change: fn(&mut Value)| {
        let mut claims = authority.claims();
        change(&mut claims);
        claims
    };
    for claims in [
        changed(|it| it["aud"] = json!(["https://other.example", RESOURCE])),
        changed(|it| it["nbf"] = json!(now() + 30)),
        changed(|it| it["exp"] = json!(now() - 30)),
        changed(|it| it["scope"] = json!(["use"])),
        changed(|it| {
            it["scope"].take();
            it["scp"] = json!("use");
        }),
    ] {
        assert_eq!(with_token(&app, &key.sign(&claims)).await.status, StatusCode::OK, "{claims}");
    }
    for typ in [None, Some("JWT"), Some("application/at+jwt")] {
        let header = Header { typ: typ.map(Into::into), ..key.header() };
        let token = key.sign_as(&header, &authority.claims());
        assert_eq!(with_token(&app, &token).await.status, StatusCode::OK, "{typ:?}");
    }
    // There is one key, so it is the one.
    let header = Header { kid: None, ..key.header() };
    assert_eq!(with_token(&app, &key.sign_as(&header, &authority.claims())).await.status, StatusCode::OK);
    // A client that acts for itself may be named by that alone.
    let claims = changed(|it| drop(it["sub"].take()));
    assert_eq!(
        with_token(&app, &key.sign(&claims)).await.text(),
        format!("{}?client_id#chat chat", authority.issuer)
    );
}

#[tokio::test]
async fn token_that_is_wrong_in_any_way_is_refused_in_the_same_words() {
    let key = Signer::new("1");
    let stranger = Signer::new("1");
    let authority = Authority::start(&[&key]).await;
    let app = app(trusting(&authority).build().unwrap());
    let mut wrong = Vec::new();
    let mut change = |about: &'static str, change: &dyn Fn(&mut Value)| {
        let mut claims = authority.claims();
        change(&mut claims);
        wrong.push((about, key.sign(&claims)));
    };
    change("another audience", &|it| it["aud"] = json!("https://other.example/mcp"));
    change("an audience that begins like ours", &|it| it["aud"] = json!(format!("{RESOURCE}/more")));
    change("no audience", &|it| drop(it.as_object_mut().unwrap().remove("aud")));
    change("an audience that is none", &|it| it["aud"] = json!({}));
    change("no end", &|it| drop(it.as_object_mut().unwrap().remove("exp")));
    change("an end that is none", &|it| it["exp"] = json!("tomorrow"));
    change("not yet", &|it| it["nbf"] = json!(now() + 3600));
    change("another issuer", &|it| it["iss"] = json!("https://other.example"));
    change("no issuer", &|it| drop(it.as_object_mut().unwrap().remove("iss")));
    change("several issuers", &|it| it["iss"] = json!([it["iss"].clone()]));
    change("nobody", &|it| {
        it.as_object_mut().unwrap().retain(|name, _| name != "sub" && name != "client_id");
    });
    change("bound to a key", &|it| it["cnf"] = json!({"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}));
    let claims = authority.claims();
    let public = key.jwk()["x"].as_str().unwrap().to_owned();
    let hs256 = json!({"alg": "HS256", "typ": "at+jwt", "kid": "1"});
    let by_secret = jsonwebtoken::encode(
        &Header { kid: Some("1".into()), ..Header::new(Algorithm::HS256) },
        &claims,
        &jsonwebtoken::EncodingKey::from_secret(public.as_bytes()),
    );
    let signed = key.sign(&claims);
    let (head, signature) = signed.rsplit_once('.').unwrap();
    let other_type = Header { typ: Some("logout+jwt".into()), ..key.header() };
    let critical = Header { crit: Some(vec!["exp".into()]), ..key.header() };
    let unknown_key = Header { kid: Some("2".into()), ..key.header() };
    wrong.extend([
        ("somebody else's key of the same name", stranger.sign(&claims)),
        ("no such key", key.sign_as(&unknown_key, &claims)),
        ("no signature", forged(&json!({"alg": "none"}), &claims, b"")),
        ("an algorithm that nobody has", forged(&json!({"alg": "XX"}), &claims, b"x")),
        ("a secret for a signature", forged(&hs256, &claims, b"secret")),
        ("the public key as a secret", by_secret.unwrap()),
        ("another type", key.sign_as(&other_type, &claims)),
        ("something that must be understood", key.sign_as(&critical, &claims)),
        ("cut off", head.to_owned()),
        ("another signature", format!("{head}.{}", signature.chars().rev().collect::<String>())),
        ("four parts", format!("{signed}.{signature}")),
        ("no token at all", "opaque".to_owned()),
    ]);
    for (about, token) in &wrong {
        assert_invalid(&with_token(&app, token).await, INVALID, about);
    }
    assert_eq!(wrong.len(), 24);
    assert_eq!(with_token(&app, &signed).await.status, StatusCode::OK);
}

#[tokio::test]
async fn token_that_is_old_is_said_to_be() {
    let key = Signer::new("1");
    let authority = Authority::start(&[&key]).await;
    let app = app(trusting(&authority).build().unwrap());
    let mut claims = authority.claims();
    claims["exp"] = json!(get_current_timestamp() - 61);
    assert_invalid(&with_token(&app, &key.sign(&claims)).await, "the access token has expired", "old");
    claims["exp"] = json!(1);
    assert_invalid(&with_token(&app, &key.sign(&claims)).await, "the access token has expired", "very old");
    // Whose it is, is not told to whoever has no key to it.
    let forged = Signer::new("1").sign(&claims);
    assert_invalid(&with_token(&app, &forged).await, INVALID, "forged and old");
}

#[tokio::test]
async fn each_issuer_is_judged_by_its_own_keys() {
    let (one, two) = (Signer::new("k"), Signer::new("k"));
    let (first, second) = (Authority::start(&[&one]).await, Authority::start(&[&two]).await);
    let auth = trusting(&first).with_issuer(Issuer::new(&*second.issuer)).build().unwrap();
    let app = app(auth);
    let name = async |token: String| with_token(&app, &token).await.text();
    assert_eq!(name(one.sign(&first.claims())).await, format!("{}#ada ada", first.issuer));
    // The same subject at another issuer is somebody else.
    assert_eq!(name(two.sign(&second.claims())).await, format!("{}#ada ada", second.issuer));
    let crossed = two.sign(&first.claims());
    assert_invalid(&with_token(&app, &crossed).await, INVALID, "the other issuer's key");
}

#[tokio::test]
async fn strict_issuer_takes_typed_tokens_alone() {
    let key = Signer::new("1");
    let jwks = json!({"keys": [key.jwk()]});
    let issuer = Issuer::new("https://a.example").with_jwks(jwks).with_typed_tokens(true);
    let issuer = issuer.with_audience("api://reports");
    let auth = Auth::builder(RESOURCE).with_issuer(issuer).with_scopes(["use"]).build().unwrap();
    let app = app(auth);
    let claims = |audience: &str| json!({"iss": "https://a.example", "aud": audience, "sub": "ada", "exp": now() + 60, "scope": "use"});
    for audience in [RESOURCE, "api://reports"] {
        assert_eq!(with_token(&app, &key.sign(&claims(audience))).await.status, StatusCode::OK);
    }
    let header = Header { typ: Some("JWT".into()), ..key.header() };
    assert_invalid(&with_token(&app, &key.sign_as(&header, &claims(RESOURCE))).await, INVALID, "JWT");
}

#[tokio::test]
async fn caller_may_be_named_by_a_claim_or_turned_away_for_lack_of_one() {
    let key = Signer::new("1");
    let authority = Authority::start(&[&key]).await;
    let auth = trusting(&authority)
        .with_principal(|identity| Some(format!("employee {}", identity.claim("employee")?.as_u64()?)))
        .build()
        .unwrap();
    let app = app(auth);
    let mut claims = authority.claims();
    claims["employee"] = json!(7);
    assert_eq!(with_token(&app, &key.sign(&claims)).await.text(), "employee 7 ada");
    let answer = with_token(&app, &key.sign(&authority.claims())).await;
    assert_invalid(&answer, "the token is valid, but its subject is not a known principal", "no employee");
}

#[tokio::test]
async fn who_is_calling_is_said_in_one_place() {
    let authority = Authority::start(&[]).await;
    let builder = tools().with_auth(trusting(&authority).build().unwrap()).with_principal(|_| None);
    let error = builder.build().unwrap_err();
    assert!(error.problems()[0].contains("both `with_auth` and `with_principal`"), "{error}");
    let tool = antiphon::Tool::new("x", "X", super::whoami).with_scopes(["a b"]);
    assert!(tools().tool(tool).build().unwrap_err().problems()[0].contains("`a b` is not a valid scope"));
}

#[tokio::test]
async fn token_is_in_no_log() {
    let key = Signer::new("1");
    let authority = Authority::start(&[&key]).await;
    let auth = trusting(&authority).build().unwrap();
    let seen = axum::Router::new()
        .route("/", axum::routing::get(|headers: http::HeaderMap| async move { format!("{headers:?}") }))
        .layer(auth.layer());
    let token = key.sign(&authority.claims());
    let request = http::Request::get("/").header("authorization", format!("Bearer {token}"));
    let answer = send(&seen, request.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(answer.body, "{}", "there is nothing that could be logged");
}

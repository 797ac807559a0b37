//! Entry points for fuzzing. Do not use these functions in programs.

use std::{sync::OnceLock, time::SystemTime};

use serde_json::json;

use crate::seal::{Binding, KeyRing, Opened, SealConfig, SealedCall};

/// Changes a token of the form or the answer page according to `data`, and passes the changed token to all readers. The
/// form and the answer page use five kinds of tokens: tickets, view keys, links, forms and cookies.
///
/// # Panics
///
/// Panics if a reader accepts a changed token, or a token of another kind.
pub fn tokens(data: &[u8]) {
    crate::asking::page::fuzz::tokens(data);
}

/// Decrypts `data` as a sealed state from a client. Also parses `data` as a journal, as if a valid sealed state
/// contained `data`.
///
/// # Panics
///
/// Panics if a journal changes when it is parsed, encrypted and decrypted again.
pub fn seal(data: &[u8]) {
    static CONFIG: OnceLock<SealConfig> = OnceLock::new();
    let config = CONFIG.get_or_init(|| SealConfig::default().with_keys(KeyRing::new(1, [7; 32])));
    let binding = Binding::new("fuzz", "", "tools/call", "tool", &json!({}));
    let now = SystemTime::now();
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = config.open(text, &binding, now);
        let _ = config.inspect(text, &SealedCall::new("fuzz", "tool"));
    }
    // The server rejects bytes that are not encrypted with the encryption key. So this code encrypts the bytes, to also
    // test the code that runs after the authentication.
    let _ = config.open(&config.sealed_as_is(data, &binding, now), &binding, now);
    let kept = config.kept_as_is(data, b"name", now);
    let _ = config.open_kept(&kept, b"name");
    let Some(Ok(Opened::Journal(journal))) = data
        .first()
        .is_some_and(|kind| *kind < 2)
        .then(|| config.open(&config.sealed_as_is(data, &binding, now), &binding, now))
    else {
        return;
    };
    let Ok(again) = config.seal(&journal, &binding, now) else { return };
    match config.open(&again, &binding, now) {
        Ok(Opened::Journal(opened)) => assert_eq!(opened, journal),
        other => panic!("a sealed journal cannot be opened again: {other:?}"),
    }
}

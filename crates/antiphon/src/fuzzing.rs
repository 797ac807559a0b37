//! Entry points for fuzzing. Do not use these functions in programs.

use std::{sync::OnceLock, time::SystemTime};

use serde_json::json;

use crate::seal::{Binding, KeyRing, Opened, SealConfig, SealedCall};

/// Changes a token of the form or the answer page according to `data`, and passes the changed token to all readers.
/// Tokens are tickets, view keys, links, forms and cookies.
///
/// # Panics
///
/// Panics if a reader accepts a changed token, or a token that was not created for this reader.
pub fn tokens(data: &[u8]) {
    crate::asking::page::fuzz::tokens(data);
}

/// Decrypts `data` as a sealed state from a client. Also parses `data` as the decrypted content of a valid sealed
/// state.
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
    // Bytes that are not encrypted with the encryption key fail authentication. So this code encrypts the bytes, to
    // reach the code after the authentication.
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

//! Helpers for all modules: the clock, random IDs, digests, timestamps, sizes.

use std::{
    fmt::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

mod simulated;

#[cfg(not(feature = "__simulation"))]
pub(crate) use self::simulated::Defect;
#[cfg(feature = "__simulation")]
pub use self::simulated::Defect;
#[cfg(feature = "__simulation")]
pub(crate) use self::simulated::{count_repair, enter, leave, random, repairs};

/// Returns the current time in milliseconds since 1970.
pub(crate) fn now_millis() -> u64 {
    #[cfg(feature = "__simulation")]
    if let Some(now) = simulated::now() {
        return now;
    }
    millis_since_1970(SystemTime::now())
}

/// Returns a time in milliseconds since 1970. A time before 1970 becomes 0.
pub(crate) fn millis_since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// Returns a duration in whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Returns 128 random bits in hexadecimal: the ID of a run, a claim, or a piece.
pub(crate) fn random_id() -> String {
    #[cfg(feature = "__simulation")]
    if let (Some(first), Some(second)) = (simulated::random(), simulated::random()) {
        return format!("{first:016x}{second:016x}");
    }
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).expect("the operating system has random numbers");
    format!("{:032x}", u128::from_le_bytes(bits))
}

/// Returns a random duration that differs from `interval` by at most 25 %.
pub(crate) fn jitter(interval: Duration) -> Duration {
    #[cfg(feature = "__simulation")]
    if let Some(random) = simulated::random() {
        return interval * 3 / 4 + interval * u32::try_from(random % 1000).unwrap_or_default() / 2000;
    }
    antiphon_transport::jitter::around(interval)
}

/// Returns a SHA-256 digest in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the first 16 bytes of a SHA-256 digest of several texts, in hexadecimal. The digest also covers the length
/// of each text. So the texts `ab`, `c` and the texts `a`, `bc` have different digests.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize()[..16])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the approximate size of a value as JSON, in bytes. If the value contains escaped characters, the exact size
/// is a little larger than the returned size.
pub(crate) fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + json_bytes(item)).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + json_bytes(value)).sum::<usize>()
        }
    }
}

/// Returns the size of a value as JSON, in bytes.
pub(crate) fn serialized_bytes(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

/// Locks the mutex, even if another thread has panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Formats milliseconds since 1970 as an ISO 8601 timestamp.
pub(crate) fn timestamp(millis: u64) -> String {
    // The number of days since 0000-03-01. In a calendar that begins on March 1, a leap day is the last day of the
    // year.
    let (days, rest) = (millis / 86_400_000 + 719_468, millis % 86_400_000);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + u64::from(month <= 2);
    let (seconds, millis) = (rest / 1000, rest % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_iso_8601() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(timestamp(1_763_211_845_006), "2025-11-15T13:04:05.006Z");
        assert_eq!(timestamp(4_102_444_799_999), "2099-12-31T23:59:59.999Z");
    }
}

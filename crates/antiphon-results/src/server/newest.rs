//! Keeps the newest result set of each caller in the memory of this process.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use chrono::{DateTime, TimeDelta, Utc};

/// Time for which a result set counts as the newest of its caller.
const LIFE: TimeDelta = TimeDelta::minutes(10);

/// Maximum number of callers whose newest result set is in memory.
const CALLERS: usize = 10_000;

/// The newest result set of each caller. The map key is `None` if the process has a single caller without a name.
#[derive(Default)]
pub(super) struct Newest(Mutex<HashMap<Option<String>, Recorded>>);

struct Recorded {
    id: String,
    at: DateTime<Utc>,
}

impl Newest {
    pub(super) fn set(&self, caller: Option<&str>, id: &str, now: DateTime<Utc>) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.len() >= CALLERS {
            newest.retain(|_, recorded| now - recorded.at < LIFE);
        }
        // The newest set is only a convenience, so all entries can be removed if there are too many callers.
        if newest.len() >= CALLERS {
            newest.clear();
        }
        newest.insert(caller.map(str::to_owned), Recorded { id: id.to_owned(), at: now });
    }

    pub(super) fn get(&self, caller: Option<&str>, now: DateTime<Utc>) -> Option<String> {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = newest.get(&caller.map(str::to_owned))?;
        (now - recorded.at < LIFE).then(|| recorded.id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_set_is_of_its_caller_and_expires() {
        let (newest, now) = (Newest::default(), Utc::now());
        newest.set(Some("ada"), "rs_1", now);
        newest.set(Some("ada"), "rs_2", now);
        newest.set(None, "rs_3", now);
        assert_eq!(newest.get(Some("ada"), now).as_deref(), Some("rs_2"));
        assert_eq!(newest.get(None, now).as_deref(), Some("rs_3"));
        assert_eq!(newest.get(Some("eve"), now), None);
        assert_eq!(newest.get(Some("ada"), now + LIFE), None);
    }

    #[test]
    fn number_of_callers_is_limited() {
        let (newest, now) = (Newest::default(), Utc::now());
        for caller in 0..=CALLERS {
            newest.set(Some(&caller.to_string()), "rs_1", now);
        }
        assert_eq!(newest.0.lock().unwrap().len(), 1);
    }
}

use std::time::Duration;

/// The mapping from names (of records, logs, queues and topics) to the Redis keys of one space.
///
/// The part of a key in braces determines the hash slot. Names contain neither braces nor dots, so two names never map
/// to one key.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    space: String,
    buckets: u16,
}

impl Keys {
    pub(super) fn new(space: &str, buckets: u16) -> Self {
        Self { space: space.to_owned(), buckets }
    }

    /// Returns the Redis key under which the settings of the space are stored.
    pub(super) fn meta(&self) -> String {
        format!("antiphon:v1:{{{}}}", self.space)
    }

    pub(super) fn buckets(&self) -> u16 {
        self.buckets
    }

    pub(super) fn bucket(&self, number: u16) -> String {
        format!("antiphon:v1:{{{}.{number}}}", self.space)
    }

    /// Returns the bucket of a record.
    pub(super) fn bucket_of(&self, key: &str) -> String {
        let number = hash(key) % u64::from(self.buckets);
        self.bucket(u16::try_from(number).expect("less than the number of buckets"))
    }

    pub(super) fn log(&self, log: &str) -> String {
        format!("antiphon:v1:{{{}.l.{log}}}", self.space)
    }

    pub(super) fn queue(&self, queue: &str) -> String {
        format!("antiphon:v1:{{{}.q.{queue}}}", self.space)
    }

    pub(super) fn topic(&self, topic: &str) -> String {
        format!("{}:{topic}", self.topics())
    }

    /// Returns the prefix of all topics. All topics share a hash slot, so one connection receives all events.
    pub(super) fn topics(&self) -> String {
        format!("antiphon:v1:{{{}.b}}", self.space)
    }
}

/// Returns the FNV-1a hash of a key. The hash determines the bucket of a record, so the hash function must never
/// change.
fn hash(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Converts a duration to milliseconds, rounded up. Durations of more than a century are reduced to a century, so that
/// scripts can add a duration to a time without losing digits.
pub(super) fn millis(duration: Duration) -> u64 {
    const CENTURY: u64 = 100 * 365 * 24 * 60 * 60 * 1000;
    let millis = duration.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).unwrap_or(CENTURY).min(CENTURY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_stays_in_its_bucket_for_ever() {
        let keys = Keys::new("s", 16);
        assert_eq!(keys.bucket_of("a"), "antiphon:v1:{s.12}");
        assert_eq!(keys.bucket_of("run/1"), "antiphon:v1:{s.10}");
    }

    #[test]
    fn a_duration_is_never_cut_short() {
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_micros(1500)), 2);
        assert_eq!(millis(Duration::MAX), millis(Duration::from_secs(100 * 365 * 24 * 60 * 60)));
    }
}

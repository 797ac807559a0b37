use std::time::Duration;

/// How the names of the contract become keys of one space.
///
/// What is in braces decides the hash slot. No name has braces or a dot, so none is taken for another.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    space: String,
    buckets: u16,
}

impl Keys {
    pub(super) fn new(space: &str, buckets: u16) -> Self {
        Self { space: space.to_owned(), buckets }
    }

    /// What is known of the space itself.
    pub(super) fn meta(&self) -> String {
        format!("antiphon:v1:{{{}}}", self.space)
    }

    pub(super) fn buckets(&self) -> u16 {
        self.buckets
    }

    pub(super) fn bucket(&self, number: u16) -> String {
        format!("antiphon:v1:{{{}.{number}}}", self.space)
    }

    /// The bucket of a record.
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

    /// What all topics begin with: they share a slot, so that one connection hears them all.
    pub(super) fn topics(&self) -> String {
        format!("antiphon:v1:{{{}.b}}", self.space)
    }
}

/// FNV-1a. It decides where records are, so it never changes.
fn hash(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Whole milliseconds, at least as long; a century stands for all that is longer, so that scripts can add
/// it to a time without losing digits.
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

use std::fmt::Write;

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use sha2::{Digest, Sha256};

/// Which channels a space's notifications go through, and how they are written.
///
/// All of a database shares its channels, whose names hold 63 bytes: so they are digests. What a
/// notification is about stands in it too, so that not even a collision lets anybody hear another's topic.
#[derive(Debug)]
pub(super) struct Channels {
    schema: String,
    space: String,
}

impl Channels {
    pub(super) fn new(schema: &str, space: &str) -> Self {
        Self { schema: schema.to_owned(), space: space.to_owned() }
    }

    /// Where replicas tell each other which queues got jobs.
    pub(super) fn wakes(&self) -> String {
        digest(&format!("wake {} {}", self.schema, self.space))
    }

    /// Where the events of a topic go.
    pub(super) fn topic(&self, topic: &str) -> String {
        digest(&self.subject(topic))
    }

    /// What an event of a topic begins with.
    pub(super) fn subject(&self, topic: &str) -> String {
        // None of the three can have a blank in it.
        format!("event {} {} {topic}", self.schema, self.space)
    }

    /// An event as a notification.
    pub(super) fn write(&self, topic: &str, event: &[u8]) -> String {
        let mut payload = self.subject(topic);
        payload.push(' ');
        STANDARD_NO_PAD.encode_string(event, &mut payload);
        payload
    }
}

/// What a notification is about, and the event; `None` if somebody else wrote it.
pub(super) fn read(payload: &str) -> Option<(&str, Bytes)> {
    let (subject, event) = payload.rsplit_once(' ')?;
    Some((subject, STANDARD_NO_PAD.decode(event).ok()?.into()))
}

fn digest(text: &str) -> String {
    let mut name = String::from("antiphon_");
    for byte in &Sha256::digest(text)[..16] {
        // Writing to a string does not fail.
        write!(name, "{byte:02x}").ok();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bus::MAX_EVENT, name::MAX_NAME};

    #[test]
    fn largest_event_fits_in_a_notification() {
        let channels = Channels::new(&"s".repeat(63), &"s".repeat(MAX_NAME));
        let topic = "t".repeat(MAX_NAME);
        let event = vec![0xff; MAX_EVENT];
        let payload = channels.write(&topic, &event);
        assert!(payload.len() < 8000, "{}", payload.len());
        let (subject, back) = read(&payload).unwrap();
        assert_eq!(subject, channels.subject(&topic));
        assert_eq!(back, event);
        assert!(channels.topic(&topic).len() <= 63);
    }

    #[test]
    fn empty_event_is_read_back() {
        let channels = Channels::new("antiphon", "space");
        let payload = channels.write("a/b", b"");
        assert_eq!(read(&payload), Some((&*channels.subject("a/b"), Bytes::new())));
    }
}

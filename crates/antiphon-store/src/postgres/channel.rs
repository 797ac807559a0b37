use std::fmt::Write;

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The notification channels of a space, and the format of notifications.
///
/// All applications in a database share the channels of the database, and a channel name has at most 63 bytes. So each
/// channel name is a digest. Each notification also contains its topic. So even if two topics had the same digest, the
/// subscribers of one topic would not receive events of the other topic.
#[derive(Debug)]
pub(super) struct Channels {
    schema: String,
    space: String,
}

impl Channels {
    pub(super) fn new(schema: &str, space: &str) -> Self {
        Self { schema: schema.to_owned(), space: space.to_owned() }
    }

    /// Returns the channel on which replicas announce queues with new jobs.
    pub(super) fn wakes(&self) -> String {
        digest(&format!("wake {} {}", self.schema, self.space))
    }

    /// Returns the channel for the events of a topic.
    pub(super) fn topic(&self, topic: &str) -> String {
        digest(&self.subject(topic))
    }

    /// Returns the text with which each notification for `topic` starts.
    pub(super) fn subject(&self, topic: &str) -> String {
        // The three parts cannot contain a space character, so spaces can separate the parts.
        format!("event {} {} {topic}", self.schema, self.space)
    }

    /// Encodes an event as a notification.
    pub(super) fn write(&self, topic: &str, event: &[u8]) -> String {
        let mut payload = self.subject(topic);
        payload.push(' ');
        STANDARD_NO_PAD.encode_string(event, &mut payload);
        payload
    }
}

/// Returns the subject and the event of a notification. Returns `None` if another program sent the notification.
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

//! Sends the events of a session to the web page, in order.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use axum::response::sse::Event;
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use tokio::sync::watch;

/// The maximum number of stored events. A web page that reconnects receives the stored events that the page missed.
const KEPT: usize = 4_000;
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// The events of a session, numbered from 1.
#[derive(Debug)]
pub(super) struct Feed {
    kept: Mutex<Kept>,
    newest: watch::Sender<u64>,
    /// The time when the last listener disconnected, or when the feed was created.
    left: Mutex<Instant>,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<(u64, Arc<str>)>,
    bytes: usize,
    newest: u64,
    closed: bool,
}

impl Feed {
    pub(super) fn new() -> Self {
        Self { kept: Mutex::default(), newest: watch::Sender::new(0), left: Mutex::new(Instant::now()) }
    }

    /// Adds an event of the kind `kind`.
    pub(super) fn tell(&self, kind: &str, mut event: Value) {
        event["type"] = json!(kind);
        event["at"] = json!(now());
        let text: Arc<str> = event.to_string().into();
        let mut kept = self.lock();
        kept.newest += 1;
        kept.bytes += text.len();
        let number = kept.newest;
        kept.events.push_back((number, text));
        while kept.events.len() > KEPT || (kept.bytes > KEPT_BYTES && kept.events.len() > 1) {
            let gone = kept.events.pop_front().map_or(0, |(_, text)| text.len());
            kept.bytes -= gone;
        }
        drop(kept);
        self.newest.send_replace(number);
    }

    /// Ends all listeners after they have received all events.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.newest.send_modify(|_| {});
    }

    /// Returns how long the feed has had no listener, or `None` if the feed has a listener.
    pub(super) fn unheard_for(&self) -> Option<Duration> {
        let left = *self.left.lock().unwrap_or_else(PoisonError::into_inner);
        (self.newest.receiver_count() == 0).then(|| left.elapsed())
    }

    /// Returns the stored events after the event with the number `after`, and all future events.
    pub(super) fn listen(
        self: &Arc<Self>,
        after: u64,
    ) -> impl Stream<Item = Result<Event, Infallible>> + Send + use<> {
        // If the number is greater than the number of the newest event, the listener has received all events.
        let after = after.min(self.lock().newest);
        let listener = Listener { feed: Arc::clone(self), newest: self.newest.subscribe() };
        stream::unfold((listener, after), |(mut listener, after)| async move {
            loop {
                listener.newest.mark_unchanged();
                match listener.feed.next(after) {
                    Next::Event(number, text) => {
                        let event = Event::default().id(number.to_string()).data(&*text);
                        return Some((Ok(event), (listener, number)));
                    }
                    Next::End => return None,
                    Next::Wait => listener.newest.changed().await.ok()?,
                }
            }
        })
    }

    fn next(&self, after: u64) -> Next {
        let kept = self.lock();
        let Some((first, text)) = kept.events.front() else {
            return if kept.closed { Next::End } else { Next::Wait };
        };
        // Invariant: the event numbers have no gaps.
        if after + 1 < *first {
            // The event for the gap has the time of the first stored event, so that the times of events never
            // decrease.
            let at =
                serde_json::from_str(text).map_or_else(|_| json!(now()), |first: Value| first["at"].clone());
            let gap = json!({"type": "gap", "at": at, "lost": first - after - 1});
            return Next::Event(first - 1, gap.to_string().into());
        }
        let at = usize::try_from(after + 1 - first).unwrap_or(usize::MAX);
        match kept.events.get(at) {
            Some((number, text)) => Next::Event(*number, Arc::clone(text)),
            None if kept.closed => Next::End,
            None => Next::Wait,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A web page that listens to the feed. When a listener is dropped, the feed records the time.
struct Listener {
    feed: Arc<Feed>,
    newest: watch::Receiver<u64>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        *self.feed.left.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

enum Next {
    Event(u64, Arc<str>),
    Wait,
    End,
}

/// Returns the time in milliseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(feed: &Feed, after: u64) -> Option<(u64, Value)> {
        match feed.next(after) {
            Next::Event(number, text) => Some((number, serde_json::from_str(&text).unwrap())),
            Next::Wait | Next::End => None,
        }
    }

    #[test]
    fn who_comes_back_hears_what_was_missed_and_how_much_is_lost() {
        let feed = Feed::new();
        for number in 0..KEPT + 2 {
            feed.tell("log", json!({"number": number}));
        }
        let (number, event) = told(&feed, 0).unwrap();
        assert_eq!((number, &event["type"], &event["lost"]), (2, &json!("gap"), &json!(2)));
        let (number, event) = told(&feed, number).unwrap();
        assert_eq!((number, &event["number"]), (3, &json!(2)));
        assert!(told(&feed, (KEPT + 2) as u64).is_none());
        feed.close();
        assert!(matches!(feed.next((KEPT + 2) as u64), Next::End));
    }

    #[test]
    fn feed_knows_how_long_nobody_has_listened() {
        let feed = Arc::new(Feed::new());
        let hour = Duration::from_hours(1);
        *feed.left.lock().unwrap() -= hour;
        assert!(feed.unheard_for().unwrap() >= hour);
        let stream = feed.listen(0);
        assert_eq!(feed.unheard_for(), None);
        drop(stream);
        assert!(feed.unheard_for().unwrap() < hour, "counted from the beginning");
    }
}

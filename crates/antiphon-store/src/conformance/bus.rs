//! Contract tests for [`Bus`].

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::timeout;

use super::Buses;
use crate::{
    bus::{BUFFER, Bus, Event, MAX_EVENT, Subscription},
    error::Error,
};

/// The maximum time until an expected event arrives.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that a test waits for an event that must not arrive.
const NONE: Duration = Duration::from_millis(300);

fn bytes(text: impl Into<String>) -> Bytes {
    Bytes::from(text.into())
}

async fn publish(bus: &dyn Bus, topic: &str, text: impl Into<String>) {
    bus.publish(topic, bytes(text)).await.unwrap();
}

async fn hear(subscription: &mut Subscription) -> Event {
    let event = timeout(EVENT_TIMEOUT, subscription.next()).await.expect("an event comes");
    event.expect("the bus is open")
}

/// Checks that the event `text` arrives next. If events can repeat, the previous event `last` can arrive again before
/// `text`.
async fn assert_hears(buses: &Buses, subscription: &mut Subscription, text: &str, last: Option<&str>) {
    loop {
        let event = hear(subscription).await;
        if buses.may_repeat() && last.is_some_and(|last| event == Event::Message(bytes(last))) {
            continue;
        }
        assert_eq!(event, Event::Message(bytes(text)));
        return;
    }
}

async fn assert_silent(subscription: &mut Subscription, known: &[&str]) {
    while let Ok(event) = timeout(NONE, subscription.next()).await {
        let expected = known.iter().any(|text| event == Some(Event::Message(bytes(*text))));
        assert!(expected, "{event:?}");
    }
}

/// Tests that a listener receives events from every handle after `subscribe` has returned.
pub async fn listener_hears_what_another_opening_publishes(buses: &Buses) {
    let (one, two) = (buses.open().await, buses.open().await);
    for round in 0..10 {
        let topic = format!("topic/{round}");
        let mut subscription = one.subscribe(&topic).await.unwrap();
        publish(&*two, &topic, "from two").await;
        publish(&*one, &topic, "from one").await;
        let (a, mut b) = (hear(&mut subscription).await, hear(&mut subscription).await);
        while buses.may_repeat() && b == a {
            b = hear(&mut subscription).await;
        }
        let heard = [&a, &b];
        for text in ["from one", "from two"] {
            assert!(heard.contains(&&Event::Message(bytes(text))), "{heard:?}");
        }
    }
}

/// Tests that every listener receives every event.
pub async fn every_listener_hears(buses: &Buses) {
    let (one, two) = (buses.open().await, buses.open().await);
    let mut subscriptions = Vec::new();
    for number in 0..6 {
        let bus = if number % 2 == 0 { &one } else { &two };
        subscriptions.push(bus.subscribe("topic").await.unwrap());
    }
    publish(&*one, "topic", "first").await;
    publish(&*one, "topic", "second").await;
    for subscription in &mut subscriptions {
        assert_hears(buses, subscription, "first", None).await;
        assert_hears(buses, subscription, "second", Some("first")).await;
    }
}

/// Tests that the events of one publisher arrive in the order in which they were published.
pub async fn events_come_in_order(buses: &Buses) {
    let (one, two) = (buses.open().await, buses.open().await);
    let mut subscription = one.subscribe("topic").await.unwrap();
    let talker = async {
        for number in 0..500 {
            publish(&*two, "topic", format!("{number}")).await;
        }
    };
    let listener = async {
        let mut last: Option<String> = None;
        for number in 0..500 {
            let text = format!("{number}");
            assert_hears(buses, &mut subscription, &text, last.as_deref()).await;
            last = Some(text);
        }
    };
    tokio::join!(talker, listener);
}

/// Tests that a listener does not receive events of other topics and spaces.
pub async fn other_topics_and_spaces_are_not_heard(buses: &Buses) {
    let (bus, other) = (buses.open().await, buses.open_other().await);
    let mut subscription = bus.subscribe("a/b").await.unwrap();
    for topic in ["a", "a/b/c", "a/c", "A/b", "a:b", "b/a"] {
        publish(&*bus, topic, "not for you").await;
    }
    publish(&*other, "a/b", "not for you").await;
    assert_silent(&mut subscription, &[]).await;
    publish(&*bus, "a/b", "for you").await;
    assert_hears(buses, &mut subscription, "for you", None).await;
}

/// Tests that a listener does not receive events that were published long before the listener subscribed.
pub async fn nothing_is_kept_for_later(buses: &Buses) {
    let (one, two) = (buses.open().await, buses.open().await);
    publish(&*one, "topic", "too early").await;
    let mut subscription = two.subscribe("topic").await.unwrap();
    publish(&*one, "topic", "in time").await;
    assert_hears(buses, &mut subscription, "in time", None).await;
}

/// Tests that a listener can unsubscribe and subscribe again while other listeners still receive events.
pub async fn one_listener_leaves_and_the_others_hear(buses: &Buses) {
    let bus = buses.open().await;
    let mut stays = bus.subscribe("topic").await.unwrap();
    let mut last: Option<String> = None;
    for round in 0..5 {
        let leaves = bus.subscribe("topic").await.unwrap();
        drop(leaves);
        let text = format!("round {round}");
        publish(&*bus, "topic", text.as_str()).await;
        assert_hears(buses, &mut stays, &text, last.as_deref()).await;
        last = Some(text);
    }
    drop(stays);
    publish(&*bus, "topic", "to nobody").await;
    let mut back = bus.subscribe("topic").await.unwrap();
    publish(&*bus, "topic", "hello again").await;
    // An event that was published shortly before the subscription can still arrive.
    let mut heard = hear(&mut back).await;
    while heard == Event::Message(bytes("to nobody")) {
        heard = hear(&mut back).await;
    }
    assert_eq!(heard, Event::Message(bytes("hello again")));
}

/// Tests that an event can contain any bytes.
pub async fn any_event_is_carried(buses: &Buses) {
    let (one, two) = (buses.open().await, buses.open().await);
    let mut subscription = one.subscribe("topic").await.unwrap();
    let every = Bytes::from((0..=255).collect::<Vec<u8>>());
    let mut last = None;
    for event in [Bytes::new(), every, bytes("'; --"), Bytes::from(vec![0xFF; MAX_EVENT])] {
        two.publish("topic", event.clone()).await.unwrap();
        let mut heard = hear(&mut subscription).await;
        while buses.may_repeat() && last.as_ref() == Some(&heard) {
            heard = hear(&mut subscription).await;
        }
        assert!(heard == Event::Message(event), "the event came different");
        last = Some(heard);
    }
}

/// Tests that a slow listener receives a gap and uses bounded memory, and that the publisher does not wait.
pub async fn slow_listener_is_told_of_a_gap_and_holds_up_nobody(buses: &Buses) {
    let (one, two) = (buses.open().await, buses.open().await);
    let mut slow = one.subscribe("topic").await.unwrap();
    let mut quick = one.subscribe("topic").await.unwrap();
    let events = 2 * BUFFER;
    let began = Instant::now();
    let talker = async {
        for number in 0..events {
            publish(&*two, "topic", format!("{number}")).await;
            // The in-memory bus never yields, so this task must yield to let the other listener run.
            tokio::task::yield_now().await;
        }
    };
    let listener = async {
        let end = Event::Message(bytes(format!("{}", events - 1)));
        while hear(&mut quick).await != end {}
    };
    tokio::join!(talker, listener);
    assert!(began.elapsed() < Duration::from_secs(60), "publishing took {:?}", began.elapsed());
    let mut heard = 0;
    let mut gap = false;
    while let Ok(Some(event)) = timeout(NONE, slow.next()).await {
        gap |= event == Event::Gap;
        heard += 1;
    }
    assert!(gap, "{heard} of {events} were heard, and nothing was said to be missing");
    // The 64 additional events are the gap, and events that were still in flight when the listener started to read.
    assert!(heard <= BUFFER + 64, "{heard} events were kept for it");
    publish(&*two, "topic", "after").await;
    assert_hears(buses, &mut slow, "after", None).await;
}

/// Tests that every bus returns the same errors for invalid topics and for events that are too large.
pub async fn bad_topics_and_large_events_are_refused(buses: &Buses) {
    let bus = buses.open().await;
    for topic in ["", "a b", "a.b", "a/*", "a/>", "ä", "a//b"] {
        let published = bus.publish(topic, bytes("x")).await;
        assert!(matches!(published, Err(Error::BadName { .. })), "`{topic}`: {published:?}");
        let subscribed = bus.subscribe(topic).await;
        assert!(matches!(subscribed, Err(Error::BadName { .. })), "`{topic}`: {subscribed:?}");
    }
    let large = bus.publish("topic", Bytes::from(vec![0; MAX_EVENT + 1])).await;
    assert!(matches!(large, Err(Error::TooLarge { .. })), "{large:?}");
}

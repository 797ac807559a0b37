//! The timers that make expired records known.

use std::time::Duration;

use antiphon_store::{QueueConfig, conformance::service};
use bytes::Bytes;
use futures_util::TryStreamExt as _;

use super::open;

/// An alarm is such a record: it expires, is claimed, and is created anew, for as long as its run lives.
#[tokio::test]
async fn timers_of_a_record_that_is_created_again_do_not_add_up() {
    const SPACE: &str = "timers-do-not-add-up";
    let Some(nats) = open(SPACE).await else { return };
    let store = nats.backend(QueueConfig::default()).store;
    let moment = Duration::from_millis(100);
    for cycle in 0..12 {
        store.create("due/a", Bytes::new(), Some(moment)).await.unwrap();
        tokio::time::sleep(2 * moment).await;
        let claimed = store.claim_expired("due/", 3 * moment, 10).await.unwrap();
        assert_eq!(claimed.len(), 1, "cycle {cycle}");
    }
    let url = service("ANTIPHON_TEST_NATS_URL").unwrap();
    let login = url.split("//").nth(1).and_then(|rest| rest.split_once('@')?.0.split_once(':'));
    let options = match login {
        Some((user, password)) => {
            async_nats::ConnectOptions::with_user_and_password(user.into(), password.into())
        }
        None => async_nats::ConnectOptions::new(),
    };
    let client = async_nats::jetstream::new(options.connect(&url).await.unwrap());
    let stream = client.get_stream("antiphon_v1_timers").await.unwrap();
    let subjects = stream.info_with_subjects(format!("antiphon.v1.timers.{SPACE}.>")).await.unwrap();
    let subjects: Vec<(String, usize)> = subjects.try_collect().await.unwrap();
    let timers: usize = subjects.iter().map(|(_, count)| count).sum();
    assert!(timers <= 4, "{timers} timers for one record");
    let record = store.create("due/a", Bytes::new(), None).await.unwrap();
    store.delete("due/a", record).await.unwrap();
}

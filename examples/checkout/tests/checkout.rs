//! An order is charged and shipped once, however badly the day goes.

use antiphon::store::{Memory, QueueConfig};
use antiphon::{
    Result,
    testing::{Answers, Replicas},
};
use serde_json::json;

#[tokio::test]
async fn every_order_is_charged_once_on_a_bad_day() -> Result<()> {
    let path = std::env::temp_dir().join(format!("checkout-{}.txt", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let backend = Memory::default().backend(QueueConfig::default());
    let ledger = checkout::Ledger::new(&path);
    let replicas = Replicas::new(move || checkout::server(ledger.clone()).with_backend(backend.clone()));
    let answers = || {
        Answers::new()
            .accept("address", json!({"address": "12 Elm Street"}))
            .accept("note", json!({"note": "Enjoy!"}))
    };
    let report = replicas.run("checkout", json!({"item": "tea", "price": 450}), answers).await?;
    assert_eq!(
        report.result["content"][0]["text"],
        "tea to 12 Elm Street: charged 450, shipped, with \"Enjoy!\""
    );
    let ledger = std::fs::read_to_string(&path)?;
    let _ = std::fs::remove_file(&path);
    let mut keys: Vec<_> = ledger.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    let effects = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), effects, "something was done twice:\n{ledger}");
    // Requests that were sent twice at the start are two runs; every schedule had at least one.
    assert!(effects >= 2 * usize::try_from(report.schedules)?, "{effects} effects in {report:?}");
    Ok(())
}

//! Statements that must work.

use serde_json::Value;

use crate::sql_rows::{ask_of, colleges, kinds, opened, small, write};

const STATEMENTS: &str = include_str!("hostile/innocent.txt");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn innocent_statements_are_answered() {
    let config = small().with_query_time(std::time::Duration::from_secs(20));
    let snapshots = opened(config);
    write(&snapshots, "rs_result", vec![colleges(2_000)]).await;
    write(&snapshots, "rs_kinds", vec![kinds()]).await;
    let mut wrong = Vec::new();
    let mut asked = 0;
    for line in STATEMENTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (rows, statement) = line.split_once(": ").unwrap();
        asked += 1;
        match ask_of(&snapshots, &[("result", "rs_result"), ("kinds", "rs_kinds")], statement).await {
            Ok(found) if rows == found.len().to_string() => {}
            // One row of one value.
            Ok(found) if found.len() == 1 && value(&found[0]) == rows => {}
            Ok(found) => {
                wrong.push(format!("{} rows, the first {:?}: {statement}", found.len(), found.first()));
            }
            Err(error) => wrong.push(format!("{error}: {statement}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked >= 60, "{asked}");
}

fn value(row: &Value) -> String {
    match row.as_object().and_then(|row| row.values().next()) {
        Some(Value::String(text)) => format!("={text}"),
        Some(value) => format!("={value}"),
        None => "=".into(),
    }
}

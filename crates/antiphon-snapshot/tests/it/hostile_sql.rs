//! Statements that must not do what they try: `hostile/statements.txt`, each with the rule that stops it.

use std::time::{Duration, Instant};

use antiphon_results::{
    DualResponseError, Owner,
    snapshot::{SnapshotId, SnapshotStore as _, SnapshotWriteOptions},
};
use antiphon_snapshot::{Batches, Snapshots};
use futures_util::stream;

use crate::sql_rows::{MIB, ask_of, colleges, kinds, opened, small, write};

const STATEMENTS: &str = include_str!("hostile/statements.txt");
/// How long one statement may take in all.
const PATIENCE: Duration = Duration::from_secs(10);

/// `{{3|x}}` as `xxx`.
fn expanded(statement: &str) -> String {
    let mut whole = String::new();
    let mut rest = statement;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some(((times, text), after)) =
            after.split_once("}}").and_then(|(inside, after)| Some((inside.split_once('|')?, after)))
        else {
            break;
        };
        whole.push_str(before);
        whole.push_str(&text.repeat(times.parse().unwrap()));
        rest = after;
    }
    whole + rest
}

fn of_rule(rule: &str) -> Vec<String> {
    let lines = STATEMENTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pairs = lines.map(|line| line.split_once(": ").unwrap_or_else(|| panic!("no rule: {line}")));
    pairs.filter(|(its, _)| *its == rule).map(|(_, statement)| expanded(statement)).collect()
}

/// The rule that stopped a statement.
fn rule(answer: &Result<Vec<serde_json::Value>, DualResponseError>) -> &'static str {
    match answer {
        Ok(_) => "answered",
        Err(DualResponseError::Refused { rule, .. }) => rule,
        Err(DualResponseError::Timeout { .. }) => "time",
        Err(DualResponseError::Busy { .. }) => "busy",
        Err(_) => "failed",
    }
}

async fn world(time: Duration) -> Snapshots {
    let config = small().with_query_time(time);
    let snapshots = opened(config);
    write(&snapshots, "rs_result", vec![colleges(20_000)]).await;
    write(&snapshots, "rs_kinds", vec![kinds()]).await;
    // Somebody else's, and one of the same owner that the query was not given.
    write(&snapshots, "rs_secret", vec![kinds()]).await;
    let others = SnapshotId::found(SnapshotId::place(Some("another")), "rs_secret");
    let batch = kinds();
    let row_source = Batches::new(batch.schema(), stream::iter([Ok(batch)])).into();
    snapshots.begin(&others, row_source, SnapshotWriteOptions::default()).await.unwrap().rest.await.unwrap();
    snapshots
}

fn shown(statement: &str) -> String {
    statement.chars().take(120).collect()
}

async fn are_stopped_by(expected: &str, at_least: usize) {
    let statements = of_rule(expected);
    assert!(statements.len() >= at_least, "{} statements for {expected}", statements.len());
    // Many of those that are allowed go on until they are stopped.
    let time = if expected == "bounded" { Duration::from_millis(500) } else { Duration::from_secs(5) };
    let snapshots = world(time).await;
    let before = resident();
    let mut wrong = Vec::new();
    for statement in statements {
        let begun = Instant::now();
        let asked = ask_of(&snapshots, &[("result", "rs_result"), ("kinds", "rs_kinds")], &statement);
        let Ok(answer) = tokio::time::timeout(2 * PATIENCE, asked).await else {
            wrong.push(format!("hangs: {}", shown(&statement)));
            continue;
        };
        let (rule, took) = (rule(&answer), begun.elapsed());
        let right = match expected {
            "bounded" => !matches!(rule, "failed" | "busy"),
            expected => rule == expected,
        };
        if !right || took > PATIENCE {
            let why = answer.err().map(|error| format!("{error}: {error:?}"));
            wrong.push(format!("{rule} after {took:?}: {}\n    {why:?}", shown(&statement)));
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(wrong.is_empty(), "{} not stopped by {expected}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(grown < 384 * MIB, "it grew by {} MiB", grown / MIB);
    // Whatever was tried, others are served.
    let rows =
        ask_of(&snapshots, &[("result", "rs_result")], "SELECT count(*) AS n FROM result").await.unwrap();
    assert_eq!(rows, [serde_json::json!({"n": 20_000})]);
}

macro_rules! stopped {
    ($($name:ident: $rule:literal, $at_least:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            are_stopped_by($rule, $at_least).await;
        }
    )*};
}

stopped! {
    what_writes_defines_or_sets_is_not_run: "read_only", 150;
    what_is_more_than_one_statement_is_not_run: "one_statement", 20;
    what_was_not_given_is_no_table: "unknown_table", 100;
    functions_are_no_tables: "no_table_function", 50;
    functions_that_are_not_listed_are_not_there: "unknown_function", 120;
    nothing_recurs: "no_recursion", 14;
    what_is_too_long_is_not_read: "too_long", 10;
    what_is_too_deep_is_not_planned: "too_deep", 30;
    not_every_row_meets_every_other: "cartesian", 20;
    nobody_takes_all_the_memory: "memory", 20;
    pattern_that_is_no_small_literal_is_rejected: "pattern", 40;
    what_is_allowed_still_ends: "bounded", 40;
    what_makes_no_sense_is_said_to: "not_valid", 40;
}

#[test]
fn there_are_five_hundred_of_them_and_no_two_are_the_same() {
    let mut statements: Vec<_> =
        STATEMENTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let all = statements.len();
    statements.sort_unstable();
    statements.dedup();
    assert_eq!(statements.len(), all);
    assert!(all >= 500, "{all}");
}

#[tokio::test]
async fn another_tenants_set_is_not_found_even_if_it_is_given() {
    let snapshots = world(Duration::from_secs(1)).await;
    let others = SnapshotId::found(SnapshotId::place(Some("another")), "rs_secret");
    let asked = snapshots.query(&[("result".into(), others)], "SELECT * FROM result", &Owner::nobody()).await;
    assert!(matches!(asked, Err(DualResponseError::NotFound)), "{asked:?}");
}

/// How many bytes of memory this process has.
pub(crate) fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

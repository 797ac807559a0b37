//! A result set: made by a tool, read page by page to its end, taken away whole, and compared with what was made.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use serde_json::{Value, json};

use super::{is_curious, must_not_open};
use crate::soak::caller::Caller;
use crate::soak::tally::Failure;

const PAGE: u64 = 500;

pub(super) fn visit(caller: &Caller<'_>, rng: &mut Rng) -> Result<(), Failure> {
    let (team, size) = (format!("team-{}", caller.world.number()), rng.u64(300..1500));
    let made = caller.call("roster", &json!({ "team": team, "size": size }))?;
    let path = path(&made)?;
    let mut paged = Vec::new();
    for offset in (0..size).step_by(usize::try_from(PAGE).unwrap_or(usize::MAX)) {
        let page = json!({ "offset": offset, "limit": PAGE });
        paged.extend(rows(&caller.fetch("POST", &path, Some(&page), Instant::now())?)?);
    }
    compare(&paged, &team, size).context("of the pages")?;
    let export = caller.fetch("GET", &format!("{path}/export?format=ndjson"), None, Instant::now())?;
    compare(&lines(&export)?, &team, size).context("of the export")?;
    caller.world.tally.count(|counts| counts.rows += 2 * size);
    if is_curious(rng) {
        let other = caller.as_person(caller.world.people.other(caller.person, rng));
        let found = other.fetch("GET", &path, None, Instant::now())?;
        must_not_open(caller, "foreign result set", found.status() == 404, &found.start)?;
    }
    // Half of them are left to expire.
    if rng.bool() {
        let deleted = caller.fetch("DELETE", &path, None, Instant::now())?;
        // Deleted by a try whose answer was lost, it is not there any more.
        ensure_status(deleted.status(), &[200, 204, 404, 410])?;
        let gone = caller.fetch("GET", &path, None, Instant::now())?;
        ensure_status(gone.status(), &[404, 410])?;
    }
    Ok(())
}

fn path(made: &Value) -> Result<String> {
    let uri = made["structuredContent"]["resource"]["uri"].as_str();
    let id = uri.and_then(|uri| uri.rsplit('/').next());
    Ok(format!("/resources/{}", id.with_context(|| format!("no link to a set: {made}"))?))
}

fn rows(page: &crate::http::Message) -> Result<Vec<Value>> {
    ensure_status(page.status(), &[200])?;
    let mut page: Value = serde_json::from_slice(&page.body).context("a page is no JSON")?;
    let rows = page["data"].take();
    serde_json::from_value(rows).with_context(|| format!("a page without rows: {page}"))
}

fn lines(export: &crate::http::Message) -> Result<Vec<Value>> {
    ensure_status(export.status(), &[200])?;
    let lines = export.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).context("a line of an export is no JSON")).collect()
}

fn ensure_status(status: u16, expected: &[u16]) -> Result<()> {
    ensure!(expected.contains(&status), "status {status}, not one of {expected:?}");
    Ok(())
}

/// Every row, in its place, as the tool makes it.
fn compare(rows: &[Value], team: &str, size: u64) -> Result<()> {
    ensure!(rows.len() as u64 == size, "{} rows, not {size}", rows.len());
    for (id, row) in (0..size).zip(rows) {
        let made = json!({ "id": id, "name": format!("{team}-{id}"), "desk": id * 7919 % 10_007 });
        ensure!(*row == made, "row {id} is {row}, not {made}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_missing_doubled_or_another_teams_is_seen() {
        let row = |team: &str, id: u64| json!({"id": id, "name": format!("{team}-{id}"), "desk": id * 7919 % 10_007});
        let rows: Vec<Value> = (0..3).map(|id| row("a", id)).collect();
        assert!(compare(&rows, "a", 3).is_ok());
        assert!(compare(&rows[..2], "a", 3).is_err());
        assert!(compare(&[row("a", 0), row("a", 1), row("a", 1)], "a", 3).is_err());
        assert!(compare(&rows, "b", 3).is_err());
    }
}

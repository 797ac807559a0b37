use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Client, Field};
use crate::http::Message;

/// The clocks of the replicas. The first replica has the clock of the store.
const CLOCKS: [&str; 3] = ["+0", "+1h", "-20m"];

/// How late an effect may be: twice the lease of `examples/deployed`.
const LATE: Duration = Duration::from_mins(1);

/// How long a result set lives by default, and how far its end may differ.
const LIFE: Duration = Duration::from_mins(15);
const NEAR: Duration = Duration::from_secs(30);

/// Three replicas share a store. The clock of one is an hour ahead, and the clock of another is 20 minutes behind.
///
/// Pass: each replica serves the result sets of each replica, and a new set ends in 15 minutes for all of
/// them. Each replica finishes the runs of each replica, with each effect once.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let library = library()?;
    let snapshots = format!("file://{}", field.folder.join("snapshots").display());
    let mut fleet = field.fleet(CLOCKS.len(), &[("SNAPSHOTS_URL", &snapshots)])?;
    for (number, clock) in CLOCKS.iter().enumerate().skip(1) {
        fleet.set(number, "LD_PRELOAD", &library.display().to_string());
        fleet.set(number, "FAKETIME", clock);
        // Like a machine whose clock is wrong: time passes as it does everywhere.
        fleet.set(number, "DONT_FAKE_MONOTONIC", "1");
    }
    fleet.start_all()?;
    let mut reads = 0;
    for (maker, clock) in CLOCKS.iter().enumerate() {
        let arguments = json!({ "team": format!("t{maker}"), "size": 100 });
        let params = json!({ "name": "roster", "arguments": arguments });
        let made = Client::new(fleet.address(maker)).ask("tools/call", "roster", params)?;
        let text = made.to_string();
        let id =
            text.split("/resources/").nth(1).and_then(|rest| rest.split(['"', '?', '/', '\\', '#']).next());
        let id = id.with_context(|| format!("the tool returned no result set: {text}"))?;
        for (reader, other) in CLOCKS.iter().enumerate() {
            let what = format!("a set of the replica at {clock}, read at {other}");
            let path = format!("/resources/{id}/rows?limit=100");
            let rows = Client::new(fleet.address(reader)).send(get(fleet.address(reader), &path))?;
            let status = rows.status();
            ensure!(status == 200, "{what}: {status} {}", String::from_utf8_lossy(&rows.body));
            // The rows can be cached until the set ends.
            let cached = rows.header("cache-control").unwrap_or_default();
            let left = cached.strip_prefix("private, max-age=").and_then(|left| left.parse().ok());
            let left = Duration::from_secs(left.with_context(|| format!("{what}: `{cached}`"))?);
            ensure!(LIFE.abs_diff(left) < NEAR, "{what}: it ends in {} s", left.as_secs());
            reads += 1;
        }
    }
    let mut runs = 0;
    for (from, clock) in CLOCKS.iter().enumerate() {
        for (to, other) in CLOCKS.iter().enumerate() {
            let name = format!("from-{from}-to-{to}");
            let acts = json!([{ "effect": "a" }, { "ask": "Go on?" }, { "once": "b" }, { "effect": "c" }]);
            let task = Client::new(fleet.address(from)).start(&name, &acts)?;
            let client = Client::new(fleet.address(to));
            client.wait_for(&task, "input_required", LATE)?;
            client.answer(&task)?;
            let done = field.ledger.wait(&name, "c", Instant::now() + LATE);
            done.with_context(|| format!("begun at {clock}, answered at {other}: the run did not end"))?;
            for what in ["a", "b", "c"] {
                let times = field.ledger.count(&name, what);
                ensure!(times == 1, "the effect `{what}` of `{name}` happened {times} times");
            }
            runs += 1;
        }
    }
    Ok(format!("{reads} reads, {runs} runs"))
}

fn get(address: SocketAddr, path: &str) -> Message {
    let headers = vec![("host".into(), address.to_string())];
    Message { start: format!("GET {path} HTTP/1.1"), headers, body: Vec::new() }
}

/// Finds the library that gives a program another clock.
fn library() -> Result<PathBuf> {
    let folders = fs::read_dir("/usr/lib").context("this needs Linux")?.filter_map(Result::ok);
    let mut paths = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    paths.find(|path| path.is_file()).context("libfaketime is missing; install the package `faketime`")
}

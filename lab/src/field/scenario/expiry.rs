use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Break, Client, Field};

/// How many expired records one replica must remove in a second.
const RATE: f64 = 5_000.0;

/// Expired records are in PostgreSQL: 1 million claims of at-most-once steps, in a short run 100,000, and one replica.
///
/// Pass: the replica removes all of them at a rate of at least 5,000 a second, from the first removal on, and answers its
/// readiness probe meanwhile.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let records: u64 = field.pick(100_000, 1_000_000);
    let mut fleet = field.fleet(1, &[])?;
    fleet.start_all()?;
    let client = Client::new(fleet.address(0));
    let task = client.start("claims", &json!([{ "once": "claimed" }]))?;
    client.wait_for(&task, "completed", Duration::from_secs(20))?;
    let store = field.store();
    // Copies of a claim that a server wrote.
    let fill = format!(
        "insert into antiphon.records (space, key, value, expires_at, claim_at) \
         select r.space, split_part(r.key, '/', 1) || '/copy-' || n, r.value, now() - interval '1 minute', \
             now() - interval '1 minute' \
         from (select * from antiphon.records where key like 'step/%' limit 1) r, generate_series(1, {records}) n"
    );
    store.sql(&fill).context("the records could not be written")?;
    let count = || -> Result<u64> {
        let counted = "select count(*) from antiphon.records where key like '%/copy-%'";
        Ok(store.sql(counted)?.trim().parse()?)
    };
    ensure!(count()? > records / 2, "there are no claims to copy");
    let limit = Duration::from_secs(field.pick(90, 400));
    let began = Instant::now();
    // The sweep begins at its own time; its rate counts from then.
    let mut first = None;
    loop {
        let left = count()?;
        if first.is_none() && left < records {
            first = Some((Instant::now(), left));
        }
        if left == 0 {
            break;
        }
        let (status, said) = fleet.probe(0, "/readyz")?;
        ensure!(status == 200, "the replica is not ready while it sweeps: {said}");
        ensure!(
            began.elapsed() < limit,
            "after {:.0} s, {left} of {records} expired records are left",
            began.elapsed().as_secs_f64()
        );
        thread::sleep(Duration::from_millis(200));
    }
    let (from, left) = first.context("nothing was removed")?;
    let seconds = from.elapsed().as_secs_f64().max(0.2);
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no last digits")]
    let rate = left as f64 / seconds;
    let wanted = if field.is_broken(Break::Time) { f64::MAX } else { RATE };
    ensure!(
        rate >= wanted,
        "expired records were removed at {rate:.0} a second, and {wanted:.0} are required"
    );
    Ok(format!("{records} expired records removed, {rate:.0} a second"))
}

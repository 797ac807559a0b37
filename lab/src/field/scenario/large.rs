use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Break, Client, Field};

/// The pause of a client between two reads.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs whose record is above 256 KiB, and is therefore stored in pieces, write it again and again. Two clients read them all
/// the while, each at its own replica.
///
/// Pass: no read reports that there is no such task, every read succeeds, and every run ends with all its effects.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let mut fleet = field.fleet(2, &[])?;
    fleet.start_all()?;
    let writes = field.pick(15, 60);
    let mut acts = vec![json!({ "pad": 800 })];
    acts.extend((0..writes).map(|number| json!({ "effect": format!("write-{number}") })));
    let tasks: Vec<_> = (0..2)
        .map(|number| Client::new(fleet.address(number)).start(&format!("large-{number}"), &json!(acts)))
        .collect::<Result<_>>()?;
    if field.is_broken(Break::DropRecords) {
        field.store().drop_tasks()?;
    }
    let began = Instant::now();
    let limit = Duration::from_mins(5);
    let fleet = &fleet;
    let reads = thread::scope(|scope| {
        let readers: Vec<_> = tasks
            .iter()
            .enumerate()
            .map(|(number, task)| {
                scope.spawn(move || {
                    // The replica that does not serve the client that began it.
                    let client = Client::new(fleet.address((number + 1) % 2));
                    let mut reads = 0_u64;
                    loop {
                        let found = client
                            .get(task)
                            .with_context(|| format!("read {reads} of a large run failed"))?;
                        reads += 1;
                        match found["status"].as_str() {
                            Some("completed") => return Ok(reads),
                            Some("working") => {}
                            _ => anyhow::bail!("a large run became {found}"),
                        }
                        ensure!(began.elapsed() < limit, "a large run did not end: {found}");
                        // A read decrypts the whole record. Without a pause, the readers leave the runs no processor.
                        thread::sleep(PAUSE);
                    }
                })
            })
            .collect();
        readers.into_iter().map(|it| it.join().expect("a reader does not panic")).sum::<Result<u64>>()
    })?;
    for number in 0..2 {
        for write in 0..writes {
            let times = field.ledger.count(&format!("large-{number}"), &format!("write-{write}"));
            ensure!(times >= 1, "the effect `write-{write}` did not happen");
        }
    }
    Ok(format!("{reads} reads during {} writes", 2 * (writes + 1)))
}

//! Work that shows what becomes of it: a tool that runs the acts it is given, and reports each effect to a ledger outside
//! of everything that is deployed. `cargo xtask field` uses it to see what really happened.

use std::{fmt::Write as _, time::Duration};

use antiphon::{ServerBuilder, State, prelude::*, task::TaskPolicy};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// Adds the tool twice: `errand` runs as a task, `errand_now` runs while the client waits. If `is_scoped`, both need the
/// scope `errands`.
pub(crate) fn add(builder: ServerBuilder, ledger: &str, replica: &str, is_scoped: bool) -> ServerBuilder {
    let effects = Effects { ledger: ledger.to_owned(), replica: replica.to_owned() };
    let scopes: &[&str] = if is_scoped { &["errands"] } else { &[] };
    let later = Tool::new("errand", "Runs acts as a task", errand).with_tasks(TaskPolicy::Always);
    let now =
        Tool::new("errand_now", "Runs acts while the client waits", errand).with_tasks(TaskPolicy::Never);
    let (later, now) = (later.with_scopes(scopes.to_vec()), now.with_scopes(scopes.to_vec()));
    builder.with_state(effects).tool(later).tool(now)
}

/// The acts to run, one after the other.
#[derive(Deserialize, JsonSchema)]
struct Errand {
    /// The name under which the ledger records the effects.
    name: String,
    /// The acts.
    acts: Vec<Act>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Act {
    /// Reports an effect of this name, in a step.
    Effect(String),
    /// Reports an effect of this name, in a step that runs at most once.
    Once(String),
    /// Sleeps for this many milliseconds. The run holds no process meanwhile.
    Sleep(u64),
    /// Works for this many milliseconds, in a step.
    Work(u64),
    /// Asks the user to confirm this text.
    Ask(String),
    /// Records this many kibibytes in the journal.
    Pad(u64),
}

async fn errand(ctx: &Ctx, State(effects): State<Effects>, errand: Errand) -> Result<String> {
    let name = &errand.name;
    for (number, act) in errand.acts.iter().enumerate() {
        let place = format!("act-{number}");
        match act {
            Act::Effect(what) => ctx.step_with_key(&place, |key| effects.report(name, what, key)).await?,
            Act::Once(what) => {
                ctx.step_with_key(&place, |key| effects.report(name, what, key)).at_most_once().await?;
            }
            Act::Sleep(millis) => ctx.sleep(Duration::from_millis(*millis)).await?,
            Act::Work(millis) => ctx.step(&place, || work(*millis)).await?,
            Act::Ask(what) => {
                let schema = json!({"type": "object", "properties": {"yes": {"type": "boolean"}}});
                let _: Value = ctx.elicit_value(&place, what, schema).await?.accepted()?;
            }
            Act::Pad(kib) => {
                let _: String = ctx.step(&place, || async { Ok(pad(*kib)) }).await?;
            }
        }
    }
    Ok(format!("{name} is done"))
}

async fn work(millis: u64) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    Ok(())
}

/// Text that does not compress well.
fn pad(kib: u64) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = String::new();
    for _ in 0..kib * 64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Writing to a string does not fail.
        let _ = write!(text, "{state:016x}");
    }
    text
}

/// The ledger, which takes reports and returns nothing but a receipt.
#[derive(Clone, Debug)]
struct Effects {
    ledger: String,
    replica: String,
}

impl Effects {
    /// Reports an effect in one line, and returns when the ledger has written it down.
    async fn report(&self, name: &str, what: &str, key: String) -> Result<()> {
        let (replica, pid) = (&self.replica, std::process::id());
        let line = json!({"name": name, "what": what, "key": key, "replica": replica, "pid": pid});
        let mut stream = BufReader::new(TcpStream::connect(&self.ledger).await?);
        stream.write_all(format!("{line}\n").as_bytes()).await?;
        let mut receipt = String::new();
        stream.read_line(&mut receipt).await?;
        if receipt.trim() == "ok" { Ok(()) } else { Err(Error::tool("the ledger refused the effect")) }
    }
}

//! Orders something: asks where to, charges, asks for a note, ships.
//!
//! Charging and shipping change the world, so each is taken at most once: whoever sends a `requestState` twice,
//! to whichever replica, at whatever moment, pays once. If a replica dies between charging and writing
//! down that it has, nobody can know; then a person has to look, and the tool says so.

use std::{fs::OpenOptions, io::Write as _, path::PathBuf};

use antiphon::{ErrorKind, ServerBuilder, State, prelude::*};

/// What to order.
#[derive(Deserialize, JsonSchema)]
struct Order {
    /// What it is.
    item: String,
    /// What it costs, in cents.
    price: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Address {
    /// Where it goes.
    address: String,
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    /// What to write on the card.
    note: String,
}

async fn checkout(ctx: &Ctx, State(bank): State<Ledger>, order: Order) -> Result<String> {
    let Address { address } = ctx.elicit("Where should it go?").await?.accepted()?;

    let entry = format!("charge {} {} {address}", order.price, order.item);
    let charged = ctx.step_with_key("charge", |key| bank.write(key, entry)).at_most_once().await;
    if let Some(unknown) = indeterminate(&charged) {
        return Ok(format!("{} to {address}: {unknown}", order.item));
    }
    charged?;

    let Note { note } = ctx.elicit("What should the card say?").await?.accepted()?;
    let entry = format!("ship {} {address}", order.item);
    let shipped = ctx.step_with_key("ship", |key| bank.write(key, entry)).at_most_once().await;
    let shipped = match indeterminate(&shipped) {
        Some(unknown) => unknown,
        None => shipped.map(|()| "shipped".to_owned())?,
    };
    Ok(format!("{} to {address}: charged {}, {shipped}, with \"{note}\"", order.item, order.price))
}

/// What a person has to be told when nobody can know.
fn indeterminate<T>(result: &Result<T>) -> Option<String> {
    let error = result.as_ref().err()?;
    matches!(error.kind(), ErrorKind::Indeterminate(_)).then(|| error.to_string())
}

/// The world outside: a file that remembers what was done to it, in the order in which it was done.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// A ledger in this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    async fn write(&self, key: String, entry: String) -> Result<()> {
        let path = self.path.clone();
        let line = format!("{key} {entry}\n");
        tokio::task::spawn_blocking(move || {
            let mut file = OpenOptions::new().append(true).create(true).open(path)?;
            // One write, so that lines of several replicas do not mix.
            file.write_all(line.as_bytes())?;
            file.sync_data()
        })
        .await??;
        Ok(())
    }
}

/// The tool, under whichever name. Its server needs a [`Ledger`] as state.
pub fn tool(name: &str) -> Tool {
    Tool::new(name, "Orders something", checkout).needs_backend()
}

/// The server, but for its store and its keys.
pub fn server(ledger: Ledger) -> ServerBuilder {
    Server::builder("checkout", env!("CARGO_PKG_VERSION")).with_state(ledger).tool(tool("checkout"))
}

//! Three steps and one wait, as a workflow on Restate.
//!
//! On stdout the first line is where it listens; each line after is `RUN ANSWER`, an open question: the
//! workflow of that key waits, and whoever resolves the awakeable of that id lets it go on.

use std::future::{self, Ready};
use std::io::{self, Write as _};

use restate_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::net::TcpListener;

struct Trip;

#[restate_sdk::workflow]
impl Trip {
    #[handler]
    async fn run(&self, ctx: WorkflowContext<'_>, traveller: Json<Value>) -> HandlerResult<Json<Value>> {
        let Json(traveller) = traveller;
        let Json(quote) = ctx.run(|| step("quote", 1)).name("quote").await?;
        let Json(hold) = ctx.run(|| step("hold", 2)).name("hold").await?;
        let (id, answer) = ctx.awakeable::<Json<Value>>();
        // Told beside the journal: a step that tells would be a fourth one.
        writeln!(io::stdout(), "{} {id}", ctx.key())?;
        let Json(answer) = answer.await?;
        let Json(receipt) = ctx.run(|| step("charge", 3)).name("charge").await?;
        let done = json!({ "traveller": traveller, "answer": answer, "steps": [quote, hold, receipt] });
        Ok(Json(done))
    }
}

/// What a step brings back: as little work as can be, so that the engine is what is measured.
fn step(name: &str, number: u32) -> Ready<HandlerResult<Json<Value>>> {
    future::ready(Ok(Json(json!({ "step": name, "number": number }))))
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    HttpServer::new(Endpoint::builder().bind(Trip).build()).serve(listener).await;
    Ok(())
}

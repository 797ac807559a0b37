//! A help desk that asks who is calling before it files a ticket.

// ANCHOR: program
use antiphon::{ServerBuilder, prelude::*};

/// The arguments of the tool.
#[derive(Deserialize, JsonSchema)]
struct Problem {
    /// The problem, in one sentence.
    problem: String,
}

/// The question to the user. Each field becomes a field of the form.
#[derive(Deserialize, JsonSchema)]
struct Caller {
    /// Whom do we call back?
    name: String,
    /// Does it keep you from working?
    urgent: bool,
}

async fn file_ticket(ctx: &Ctx, Problem { problem }: Problem) -> Result<String> {
    let Caller { name, urgent } = ctx.elicit("Who is calling?").await?.accepted()?;
    let when = if urgent { "today" } else { "this week" };
    Ok(format!("{problem}: we call {name} back {when}."))
}

fn desk() -> ServerBuilder {
    Server::builder("desk", "1.0.0").tool(Tool::new("file_ticket", "Files a ticket", file_ticket))
}

#[tokio::main]
async fn main() -> Result<()> {
    desk().build()?.serve_stdio().await?;
    Ok(())
}
// ANCHOR_END: program

// ANCHOR: tests
#[cfg(test)]
mod tests {
    use antiphon::testing::{Answers, Client, Replicas, Revision};
    use serde_json::json;

    use super::*;

    fn ada() -> Answers {
        Answers::new().accept("caller", json!({"name": "Ada", "urgent": true}))
    }

    #[tokio::test]
    async fn caller_is_asked_and_called_back() {
        for revision in Revision::BOTH {
            let server = desk().build().unwrap();
            let mut client = Client::connect(&server, revision).await.unwrap().with_answers(ada());
            let talk = client.call("file_ticket", json!({"problem": "No coffee"})).await.unwrap();
            assert_eq!(talk.text(), "No coffee: we call Ada back today.");
            println!("{}: {} -> {}", revision.as_str(), talk.asked[0].message(), talk.text());
        }
    }

    #[tokio::test]
    async fn any_replica_takes_the_answer() {
        let report =
            Replicas::new(desk).run("file_ticket", json!({"problem": "No coffee"}), ada).await.unwrap();
        println!("{} replicas, {} requests sent twice", report.replicas, report.duplicates);
    }
}
// ANCHOR_END: tests

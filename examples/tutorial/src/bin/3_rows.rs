//! A help desk that finds more tickets than a model can read.
#![expect(clippy::print_stderr, reason = "whoever starts it wants to know where it is")]

// ANCHOR: tool
use antiphon::results::{
    CreateOptions, DualResponse, DualResponseServer, DualResponseServerOptions, Rows, Source,
};
use antiphon::{
    ServerBuilder,
    http::{HttpConfig, ServeConfig, shutdown_signal},
    prelude::*,
};
use tokio::net::TcpListener;

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// Only tickets of this team.
    team: Option<Team>,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Team {
    Billing,
    Hardware,
    Network,
}

#[derive(Serialize)]
struct Ticket {
    number: u32,
    team: Team,
    urgency: u32,
}

/// Stands for a database query. Returns the same 847 tickets every time.
fn tickets() -> impl Iterator<Item = Ticket> {
    let teams = [Team::Billing, Team::Hardware, Team::Network];
    (1..=847).map(move |number| Ticket {
        number,
        team: teams[number as usize % 3],
        urgency: number * 7 % 5 + 1,
    })
}

async fn find_tickets(ctx: &Ctx, Search { team }: Search) -> Result<DualResponse> {
    let mut rows = Rows::new();
    for ticket in tickets().filter(|ticket| team.is_none_or(|team| ticket.team == team)) {
        rows.push(&ticket)?;
    }
    ctx.dual_response(CreateOptions::new("Tickets", Source::rows(rows))).await
}

fn desk(results: &DualResponseServer) -> ServerBuilder {
    let tool = Tool::new("find_tickets", "Finds tickets", find_tickets);
    Server::builder("desk", "1.0.0").with_results(results.clone()).tool(tool)
}
// ANCHOR_END: tool

// ANCHOR: main
#[tokio::main]
async fn main() -> Result<()> {
    let address = std::env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:8000".into());
    let listener = TcpListener::bind(address).await?;
    let origin = format!("http://{}", listener.local_addr()?);
    let results = DualResponseServer::new(DualResponseServerOptions::new(format!("{origin}/resources")))?;
    let server = desk(&results).build()?;
    let app = server.router(HttpConfig::default()).nest("/resources", results.router());
    eprintln!("listening on {origin}/mcp");
    server.serve_router(listener, app, ServeConfig::default(), shutdown_signal()).await;
    results.shutdown().await?;
    Ok(())
}
// ANCHOR_END: main

// ANCHOR: tests
#[cfg(test)]
mod tests {
    use antiphon::testing::{Client, Revision};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn model_sees_fifteen_rows_and_is_told_of_the_others() {
        let results =
            DualResponseServer::new(DualResponseServerOptions::new("http://127.0.0.1:8000/resources"));
        let server = desk(&results.unwrap()).build().unwrap();
        let mut client = Client::connect(&server, Revision::V2026_07_28).await.unwrap();
        let talk = client.call("find_tickets", json!({"team": "Network"})).await.unwrap();
        println!("{}", talk.text());
        assert!(talk.text().starts_with("Found 282 results."));
        assert_eq!(talk.result["structuredContent"]["results"].as_array().unwrap().len(), 15);
    }
}
// ANCHOR_END: tests

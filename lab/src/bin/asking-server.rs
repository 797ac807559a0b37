//! A server whose tools ask users. `cargo xtask asking` calls it from scripted hosts that do not show questions, and
//! `cargo xtask hosts` from open-source hosts.
//!
//! `asking-server --http 127.0.0.1:8000 [--defaults] [--page]`. The header `x-user` of a request names the caller, or the
//! visitor of the answer page. With `--defaults`, the server has the default times of `AskPolicy`. With `--page`, it has
//! an answer page.

use std::time::Duration;

use antiphon::{
    elicitation::{AskPage, AskPolicy},
    http::HttpConfig,
    prelude::*,
    results::{CreateOptions, DualResponse, DualResponseServer, DualResponseServerOptions, Rows, Source},
    task::TaskConfig,
};
use anyhow::Context as _;
use tokio::net::TcpListener;

/// The scripted hosts answer within milliseconds. The limit is longer than the default for machines that are busy.
const QUICK: Duration = Duration::from_secs(1);

/// Longer than the scripted hosts wait for an unanswered question, and shorter than `REPORT`.
const HAND_OVER_AFTER: Duration = Duration::from_secs(5);

/// The duration of `report`.
const REPORT: Duration = Duration::from_secs(7);

#[derive(Deserialize, JsonSchema)]
struct Onboard {
    /// The new colleague.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Place {
    /// A letter, a hyphen and a number, such as B-12
    // The form does not check patterns, so a wrong desk reaches the server.
    #[schemars(title = "Which desk?", extend("pattern" = "^[A-Z]-[0-9]+$"))]
    desk: String,
    #[schemars(title = "Note for the first day", length(max = 400))]
    note: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Start {
    #[schemars(title = "First day", extend("format" = "date"))]
    day: String,
    #[schemars(title = "Private address", email)]
    email: String,
}

/// Asks two questions in a row.
async fn onboard(ctx: &Ctx, Onboard { name }: Onboard) -> Result<String> {
    let place = ctx.elicit::<Place>(format!("Which desk does {name} get?")).await?.accepted()?;
    let start = ctx.elicit::<Start>(format!("When does {name} start?")).await?.accepted()?;
    let note = place.note.as_deref().unwrap_or("no note");
    Ok(format!("{name} has desk {} ({note}), starts on {}, {}", place.desk, start.day, start.email))
}

/// An order, which is the form and the result.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Order {
    #[schemars(title = "Size")]
    size: Size,
    #[schemars(title = "City")]
    city: City,
    #[schemars(title = "Count", range(min = 1, max = 9))]
    count: u8,
    #[schemars(title = "It is a gift")]
    gift: bool,
    #[schemars(title = "Colors", length(min = 1, max = 2))]
    colors: Vec<Color>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Size {
    /// Small, 44 to 46
    Small,
    /// Medium, 48 to 50
    Medium,
    /// Large, 52 to 54
    Large,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum City {
    Athens,
    Berlin,
    Lisbon,
    Oslo,
    Paris,
    Rome,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Color {
    Blue,
    Green,
    Red,
}

/// Asks for a value of each other kind, and returns structured content.
async fn pick(ctx: &Ctx, _: ()) -> Result<Json<Order>> {
    let stock = serde_json::json!({"shirts": 412, "delivery": {"days": 3}});
    Ok(Json(ctx.elicit::<Order>("Which shirts do you order?").context(&stock).await?.accepted()?))
}

/// Takes longer than a call of a client without tasks.
async fn report(ctx: &Ctx, _: ()) -> Result<&'static str> {
    ctx.sleep(REPORT).await?;
    Ok("42 orders, 3 of them late")
}

/// Finds more rows than a model reads.
async fn orders(ctx: &Ctx, _: ()) -> Result<DualResponse> {
    let mut rows = Rows::new();
    for number in 1..=847 {
        rows.push(&serde_json::json!({"order": number, "city": "Lisbon", "shirts": number % 9 + 1}))?;
    }
    ctx.dual_response(CreateOptions::new("Orders", Source::rows(rows))).await
}

/// Asks nothing.
async fn quiet(_: &Ctx, _: ()) -> Result<&'static str> {
    Ok("All is well")
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().skip_while(|argument| argument != "--http").nth(1);
    let address = address.context("--http is missing; pass an address: --http 127.0.0.1:8000")?;
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let mut asking = AskPolicy::default();
    if !has("--defaults") {
        asking = asking.with_quick(QUICK).with_hand_over_after(HAND_OVER_AFTER);
    }
    if has("--page") {
        let page = AskPage::at(format!("http://{address}"));
        let page = page.with_visitor(|parts| Some(parts.headers.get("x-user")?.to_str().ok()?.to_owned()));
        asking = asking.with_page(page);
    }
    let results = DualResponseServer::new(DualResponseServerOptions::new("http://127.0.0.1/resources"))?;
    let server = Server::builder("asking", "1.0.0")
        .with_title("Shirts and Desks")
        .with_principal(|parts| Some(parts.headers.get("x-user")?.to_str().ok()?.to_owned()))
        .with_tasks(TaskConfig::default())
        .with_asking(asking)
        .with_results(results)
        .tool(Tool::new("onboard", "Gives a new colleague a desk", onboard).with_title("Take on a colleague"))
        .tool(Tool::new("pick", "Orders shirts", pick).with_title("Order shirts"))
        .tool(Tool::new("report", "Counts the orders of a year", report))
        .tool(Tool::new("orders", "Lists the orders of a year", orders))
        .tool(Tool::new("quiet", "Says whether all is well", quiet))
        .build()?;
    let listener =
        TcpListener::bind(&address).await.with_context(|| format!("cannot listen on {address}"))?;
    Ok(server.serve_listener(listener, HttpConfig::default(), std::future::pending()).await?)
}

//! A tool that asks two questions in a row and three at once, then books.
//!
//! `tour --stdio`, or `tour --http 127.0.0.1:8000`. Replicas share a key ring: `--keys 2=<64 hex
//! digits>,1=<64 hex digits>`; the first seals, all of them open.

use antiphon::{HttpConfig, KeyRing, SealConfig, prelude::*};
use anyhow::{Context as _, bail, ensure};
use tokio::net::TcpListener;

#[derive(Deserialize, JsonSchema)]
struct PlanTrip {
    /// Who travels.
    traveller: String,
}

#[derive(Deserialize, JsonSchema)]
struct Destination {
    /// A city.
    destination: String,
}

#[derive(Deserialize, JsonSchema)]
struct Month {
    /// The month to travel in.
    month: String,
}

#[derive(Deserialize, JsonSchema)]
struct Hotel {
    hotel: String,
}

#[derive(Deserialize, JsonSchema)]
struct Meal {
    meal: String,
}

#[derive(Deserialize, JsonSchema)]
struct Seat {
    seat: String,
}

#[derive(Serialize, JsonSchema)]
struct Booking {
    traveller: String,
    destination: String,
    month: String,
    hotel: String,
    meal: String,
    seat: String,
    reference: String,
}

async fn plan_trip(ctx: &Ctx, trip: PlanTrip) -> Result<antiphon::ToolOutput> {
    let Destination { destination } = ctx.elicit("Where would you like to go?").await?.accepted()?;
    let Month { month } =
        ctx.elicit(format!("When would you like to see {destination}?")).await?.accepted()?;
    let (hotel, meal, seat) = tokio::join!(
        ctx.elicit::<Hotel>("Which hotel?"),
        ctx.elicit::<Meal>("Which meal on the way?"),
        ctx.elicit::<Seat>("Which seat?"),
    );
    let Hotel { hotel } = hotel?.accepted()?;
    let Meal { meal } = meal?.accepted()?;
    let Seat { seat } = seat?.accepted()?;
    let reference = ctx.step_with_key("book", async |key: String| Ok(format!("ref-{}", &key[..8]))).await?;
    let traveller = trip.traveller;
    let text = format!("{traveller}: {destination} in {month}, {hotel}, {meal}, {seat}; booked {reference}");
    let booking = Booking { traveller, destination, month, hotel, meal, seat, reference };
    let output = antiphon::ToolOutput::text(text);
    Ok(output.with_structured(serde_json::to_value(booking)?))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut seal = SealConfig::default();
    if let Some(keys) = value_of(&arguments, "--keys") {
        seal = seal.with_keys(key_ring(keys)?);
    }
    let server = Server::builder("tour", "1.0.0")
        .with_seal(seal)
        .tool(Tool::new("plan_trip", "Plans a trip with you and books it", plan_trip).title("Plan a trip"))
        .build()?;
    let served = match value_of(&arguments, "--http") {
        Some(address) => {
            let listener =
                TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
            server.serve_listener(listener, HttpConfig::default(), std::future::pending()).await
        }
        None => server.serve_stdio().await,
    };
    served.map_err(|error| anyhow::anyhow!("{error:#}"))
}

fn value_of<'a>(arguments: &'a [String], flag: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| argument == flag)?;
    arguments.get(at + 1).map(String::as_str)
}

/// `2=<hex>,1=<hex>`: the first key seals.
fn key_ring(keys: &str) -> anyhow::Result<KeyRing> {
    let mut ring: Option<KeyRing> = None;
    for key in keys.split(',') {
        let Some((id, secret)) = key.split_once('=') else {
            bail!("`{key}` is no key; write 1=<64 hex digits>")
        };
        let id = id.parse().with_context(|| format!("`{id}` is no key number from 0 to 255"))?;
        ensure!(secret.len() == 64, "key {id} must have 64 hex digits");
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(secret.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits)?, 16)?;
        }
        ring = Some(match ring {
            None => KeyRing::new(id, bytes),
            Some(ring) => ring.with_spare(id, bytes),
        });
    }
    ring.context("the key ring is empty")
}

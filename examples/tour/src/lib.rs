//! A tool that asks two questions in a row and three at once, then books.

use antiphon::{ServerBuilder, ToolOutput, prelude::*, seal::SealConfig};

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

async fn plan_trip(ctx: &Ctx, trip: PlanTrip) -> Result<ToolOutput> {
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
    let output = ToolOutput::text(text);
    Ok(output.with_structured(serde_json::to_value(booking)?))
}

/// The server; replicas share what they seal with.
pub fn server(seal: SealConfig) -> ServerBuilder {
    Server::builder("tour", "1.0.0").with_seal(seal).tool(
        Tool::new("plan_trip", "Plans a trip with you and books it", plan_trip).with_title("Plan a trip"),
    )
}

//! The code of `docs/guides/tools.md`.

const RADAR: &[u8] = b"\x89PNG\r\n";
const CITIES: [&str; 3] = ["Basel", "Bergen", "Bern"];

// ANCHOR: arguments
use antiphon::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Forecast {
    /// The city, for example `Bern`.
    city: String,
    /// The number of days.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 14))]
    days: u8,
    /// The unit of the temperatures. Default: the unit of the country.
    unit: Option<Unit>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Celsius,
    Fahrenheit,
}

fn three() -> u8 {
    3
}

async fn forecast(_: &Ctx, Forecast { city, days, unit }: Forecast) -> Result<String> {
    let degrees = if matches!(unit, Some(Unit::Fahrenheit)) { "64 °F" } else { "18 °C" };
    Ok(format!("{city}: sun for {days} days, {degrees}"))
}
// ANCHOR_END: arguments

// ANCHOR: structured
#[derive(Deserialize, JsonSchema)]
struct Place {
    /// The city.
    city: String,
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    city: String,
    /// The temperature in degrees Celsius.
    celsius: f64,
}

async fn weather(_: &Ctx, Place { city }: Place) -> Result<Json<Weather>> {
    Ok(Json(Weather { city, celsius: 18.5 }))
}
// ANCHOR_END: structured

// ANCHOR: content
use antiphon::{
    ToolOutput,
    model::{ContentBlock, ResourceLink},
};

async fn radar(_: &Ctx, Place { city }: Place) -> Result<ToolOutput> {
    let uri = format!("weather://history/{city}");
    let text = format!("The rain radar of {city}. Older measurements are in {uri}.");
    let history = ResourceLink::new(uri, "history").with_mime_type("text/csv");
    Ok(ToolOutput::text(text).with_image(RADAR, "image/png").with(ContentBlock::resource_link(history)))
}
// ANCHOR_END: content

// ANCHOR: annotations
use antiphon::model::ToolAnnotations;

fn tools() -> [Tool; 3] {
    let reads = || ToolAnnotations::new().read_only(true).open_world(true);
    [
        Tool::new("forecast", "Returns the forecast for a city", forecast)
            .with_title("Weather forecast")
            .with_annotations(reads()),
        Tool::new("weather", "Returns the current weather in a city", weather).with_annotations(reads()),
        Tool::new("radar", "Returns the rain radar of a city", radar).with_annotations(reads()),
    ]
}
// ANCHOR_END: annotations

// ANCHOR: prompt
use antiphon::{
    Prompt,
    model::{PromptMessage, Role},
};

async fn packing_list(_: &Ctx, Place { city }: Place) -> Result<Vec<PromptMessage>> {
    Ok(vec![
        PromptMessage::new_text(Role::User, format!("I travel to {city}.")),
        PromptMessage::new_text(Role::User, "Read the forecast, and write a packing list."),
    ])
}
// ANCHOR_END: prompt

// ANCHOR: resources
use antiphon::{Resource, ResourceTemplate};

async fn cities(_: &Ctx, _: ()) -> Result<String> {
    Ok(CITIES.join("\n"))
}

async fn history(_: &Ctx, Place { city }: Place) -> Result<String> {
    Ok(format!("city,day,celsius\n{city},2026-11-17,8.5\n"))
}
// ANCHOR_END: resources

// ANCHOR: completions
use antiphon::prompt::Completion;

async fn complete_city(typed: Completion) -> Result<Vec<String>> {
    Ok(CITIES.into_iter().filter(|city| city.starts_with(&typed.value)).map(String::from).collect())
}
// ANCHOR_END: completions

// ANCHOR: server
use antiphon::ServerBuilder;

fn server() -> ServerBuilder {
    let measurements = ResourceTemplate::new("weather://history/{city}", "history", history)
        .with_mime_type("text/csv")
        .completes("city", complete_city);
    Server::builder("weather", "1.0.0")
        .with_instructions("Weather of cities. Call `forecast` for plans, and `weather` for now.")
        .tools(tools())
        .prompt(
            Prompt::new("packing_list", "Writes a packing list", packing_list)
                .completes("city", complete_city),
        )
        .resource(Resource::new("weather://cities", "cities", cities).with_mime_type("text/plain"))
        .resource_template(measurements)
}
// ANCHOR_END: server

#[cfg(test)]
mod tests {
    use antiphon::testing::{Client, Revision};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn tools_return_text_data_and_blocks() -> Result<()> {
        for revision in Revision::BOTH {
            let mut client = Client::connect(&server().build()?, revision).await?;
            let talk = client.call("forecast", json!({"city": "Bern"})).await?;
            assert_eq!(talk.text(), "Bern: sun for 3 days, 18 °C");
            let talk = client.call("forecast", json!({"city": "Bern", "days": 15})).await?;
            assert!(talk.is_error() && talk.text().contains("days"), "{}", talk.text());
            let talk = client.call("weather", json!({"city": "Bern"})).await?;
            assert_eq!(talk.result["structuredContent"], json!({"city": "Bern", "celsius": 18.5}));
            let talk = client.call("radar", json!({"city": "Bern"})).await?;
            assert_eq!(talk.result["content"][1]["type"], "image");
            assert_eq!(talk.result["content"][2]["type"], "resource_link");
        }
        Ok(())
    }

    #[tokio::test]
    async fn prompts_resources_and_completions_are_served() -> Result<()> {
        for revision in Revision::BOTH {
            let mut client = Client::connect(&server().build()?, revision).await?;
            let get = json!({"name": "packing_list", "arguments": {"city": "Bern"}});
            let prompt = client.request("prompts/get", get).await?;
            assert_eq!(prompt["messages"][0]["content"]["text"], "I travel to Bern.");
            let read = client.request("resources/read", json!({"uri": "weather://history/Bern"})).await?;
            assert_eq!(read["contents"][0]["mimeType"], "text/csv");
            let typed = json!({
                "ref": {"type": "ref/prompt", "name": "packing_list"},
                "argument": {"name": "city", "value": "Ber"},
            });
            let found = client.request("completion/complete", typed).await?;
            assert_eq!(found["completion"]["values"], json!(["Bergen", "Bern"]));
        }
        Ok(())
    }
}

//! A whole server: state, errors, a header, a confirmation, progress, and a page of its own.

// ANCHOR: state
use std::sync::{Arc, Mutex};

use antiphon::{
    Prompt, Resource, ToolOutput,
    http::{HttpConfig, ServeConfig, shutdown_signal},
    prelude::*,
};
use anyhow::Context as _;
use axum::{Router, routing::get};
use tokio::net::TcpListener;

/// Stands for a pool of database connections: cheap to clone, and shared by all tools.
#[derive(Clone, Default)]
struct Plants(Arc<Mutex<Vec<Plant>>>);

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Plant {
    /// The unique name of the plant.
    name: String,
    /// The number of days that it can live without water.
    days: u32,
}

async fn list_plants(_: &Ctx, State(plants): State<Plants>, _: ()) -> Result<Json<Vec<Plant>>> {
    Ok(Json(plants.all()))
}
// ANCHOR_END: state

// ANCHOR: errors
/// Code without MCP, with its own error type.
impl Plants {
    fn insert(&self, plant: Plant) -> anyhow::Result<()> {
        let mut plants = self.0.lock().map_err(|_| anyhow::anyhow!("the greenhouse is locked"))?;
        anyhow::ensure!(plants.iter().all(|it| it.name != plant.name), "there is a {} already", plant.name);
        plants.push(plant);
        Ok(())
    }
}

async fn add_plant(ctx: &Ctx, State(plants): State<Plants>, plant: Plant) -> anyhow::Result<String> {
    let gardener = ctx.headers().and_then(|headers| headers.get("x-gardener")?.to_str().ok());
    let gardener = gardener.context("the request has no header `x-gardener`")?;
    let said = format!("{gardener} added the {}", plant.name);
    plants.insert(plant).context("the plant was not added")?;
    Ok(said)
}
// ANCHOR_END: errors

// ANCHOR: asks
#[derive(Deserialize, JsonSchema)]
struct Name {
    /// The name of the plant.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Remove it?
    sure: bool,
}

async fn remove_plant(ctx: &Ctx, State(plants): State<Plants>, Name { name }: Name) -> Result<String> {
    let Confirm { sure } = ctx.elicit(format!("Remove the {name}?")).await?.accepted()?;
    if !sure {
        return Ok(format!("The {name} stays."));
    }
    // Put a side effect into a step, because the code around it can run more than once.
    let was_there = ctx.step("remove", || async { Ok(plants.remove(&name)) }).await?;
    Ok(if was_there { format!("The {name} is gone.") } else { format!("There is no {name}.") })
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Diagnosis {
    /// The name of the illness.
    illness: String,
    /// The treatment.
    cure: String,
}

async fn diagnose(ctx: &Ctx, Name { name }: Name) -> Result<Json<Diagnosis>> {
    let diagnosis = ctx.sample_schema::<Diagnosis>(format!("The {name} has yellow leaves.")).await?;
    Ok(Json(diagnosis.parsed))
}

async fn water_all(ctx: &Ctx, State(plants): State<Plants>, _: ()) -> Result<ToolOutput> {
    let plants = plants.all();
    for (done, plant) in plants.iter().enumerate() {
        ctx.progress(Progress::of(done, plants.len()).message(format!("Watering the {}", plant.name)));
    }
    Ok(ToolOutput::text(format!("{} plants have water.", plants.len())))
}
// ANCHOR_END: asks

impl Plants {
    fn all(&self) -> Vec<Plant> {
        self.0.lock().map(|plants| plants.clone()).unwrap_or_default()
    }

    /// Says whether there was such a plant.
    fn remove(&self, name: &str) -> bool {
        let Ok(mut plants) = self.0.lock() else { return false };
        let before = plants.len();
        plants.retain(|plant| plant.name != name);
        plants.len() < before
    }
}

// ANCHOR: server
async fn care_plan(_: &Ctx, Name { name }: Name) -> Result<String> {
    Ok(format!("Write a plan for a week of care for the {name}."))
}

async fn inventory(_: &Ctx, State(plants): State<Plants>, _: ()) -> Result<String> {
    let names: Vec<_> = plants.all().into_iter().map(|plant| plant.name).collect();
    Ok(names.join("\n"))
}

fn greenhouse() -> Result<Server, antiphon::BuildError> {
    Server::builder("greenhouse", "1.0.0")
        .with_state(Plants::default())
        .tool(Tool::new("list_plants", "Lists the plants", list_plants))
        .tool(Tool::new("add_plant", "Adds a plant", add_plant))
        .tool(Tool::new("remove_plant", "Removes a plant, after a confirmation", remove_plant))
        .tool(Tool::new("diagnose", "Says what a plant has", diagnose))
        .tool(Tool::new("water_all", "Waters all plants", water_all))
        .prompt(Prompt::new("care_plan", "Asks for a plan of care", care_plan))
        .resource(Resource::new("greenhouse://inventory", "inventory", inventory))
        .build()
}
// ANCHOR_END: server

// ANCHOR: axum
async fn serve() -> anyhow::Result<()> {
    let server = greenhouse()?;
    let app = Router::new()
        .route("/", get(async || "The greenhouse is open."))
        .nest("/api", server.router(HttpConfig::default()));
    let listener = TcpListener::bind("127.0.0.1:8000").await?;
    // Also runs the workers of tasks. At shutdown, it completes the requests in flight.
    server.serve_router(listener, app, ServeConfig::default(), shutdown_signal()).await;
    Ok(())
}
// ANCHOR_END: axum

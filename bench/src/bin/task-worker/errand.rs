//! The tool: it takes steps, some of them at most once, asks, waits, and does two things at the same time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use antiphon::{ErrorKind, prelude::*};

use crate::ledger::Ledger;

/// What to do.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Order {
    /// The name of the run, by which the world tells it from others.
    run: String,
    /// How long to wait in the middle.
    wait_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Word {
    /// Anything.
    word: String,
}

/// What became of it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Report {
    run: String,
    word: String,
    /// What each step returned.
    values: BTreeMap<String, String>,
    /// The steps of which nobody knows whether they were taken.
    unknown: Vec<String>,
}

pub(crate) async fn errand(ctx: &Ctx, order: Order) -> Result<Json<Report>> {
    let Order { run, wait_ms } = order;
    let world = World { ledger: Arc::clone(ctx.state::<Arc<Ledger>>()?), run: run.clone() };
    world.ledger.leg(&run)?;
    let mut seen = Seen::default();

    seen.add("begin", ctx.step("begin", || change(world.clone(), "begin", seen.clone())).await?);
    let charged = ctx
        .step_with_key("charge", |_| change_once(world.clone(), "charge", seen.clone()))
        .at_most_once()
        .await;
    seen.add_once("charge", charged)?;
    let Word { word } = ctx.elicit("Which word?").await?.accepted()?;
    seen.add("heard", ctx.step("heard", || change(world.clone(), "heard", seen.clone())).await?);
    ctx.sleep(Duration::from_millis(wait_ms)).await?;
    let (left, right) = tokio::join!(
        async {
            let mut seen = seen.clone();
            seen.add("left", ctx.step("left", || change(world.clone(), "left", seen.clone())).await?);
            seen.add(
                "left-again",
                ctx.step("left-again", || change(world.clone(), "left-again", seen.clone())).await?,
            );
            Ok::<_, Error>(seen)
        },
        ctx.step("right", || change(world.clone(), "right", seen.clone())),
    );
    seen = left?;
    seen.add("right", right?);
    let shipped =
        ctx.step_with_key("ship", |_| change_once(world.clone(), "ship", seen.clone())).at_most_once().await;
    seen.add_once("ship", shipped)?;
    seen.add("end", ctx.step("end", || change(world.clone(), "end", seen.clone())).await?);
    Ok(Json(Report { run, word, values: seen.values, unknown: seen.unknown }))
}

/// What a run may change.
#[derive(Clone)]
struct World {
    ledger: Arc<Ledger>,
    run: String,
}

/// The body of a step.
async fn change(world: World, step: &'static str, seen: Seen) -> Result<String> {
    world.ledger.effect(&world.run, step, &seen.values).await
}

/// The body of a step that may be taken once.
async fn change_once(world: World, step: &'static str, seen: Seen) -> Result<String> {
    world.ledger.effect_once(&world.run, step, &seen.values).await
}

/// What the tool has seen of its steps.
#[derive(Clone, Default)]
struct Seen {
    values: BTreeMap<String, String>,
    unknown: Vec<String>,
}

impl Seen {
    fn add(&mut self, step: &str, value: String) {
        self.values.insert(step.to_owned(), value);
    }

    /// That nobody can know is something to go on with; that the store was away is not.
    fn add_once(&mut self, step: &str, value: Result<String>) -> Result<()> {
        match value {
            Ok(value) => self.add(step, value),
            Err(error) if matches!(error.kind(), ErrorKind::Indeterminate(_)) => {
                self.unknown.push(step.to_owned());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

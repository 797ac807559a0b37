//! The tool: it takes steps, some of them at most once, asks, waits, and does two things at the same time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use antiphon::{ErrorKind, prelude::*};

use crate::ledger::{Ledger, Leg};

/// What to do.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Order {
    /// The name of the run, by which the world tells it from others.
    run: String,
    /// How long to wait in the middle.
    wait_ms: u64,
    /// Whether to ask for a word. If not, the run needs nobody.
    asks: bool,
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
    let Order { run, wait_ms, asks } = order;
    let leg = Arc::new(ctx.state::<Arc<Ledger>>()?.leg(&run)?);
    let mut seen = Seen::default();

    let value = ctx.step("begin", || change(Arc::clone(&leg), "begin", seen.clone())).await?;
    seen.add(&leg, "begin", value)?;
    let charged = ctx
        .step_with_key("charge", |_| change_once(Arc::clone(&leg), "charge", seen.clone()))
        .at_most_once()
        .await;
    seen.add_once(&leg, "charge", charged)?;
    let word = if asks {
        let Word { word } = ctx.elicit("Which word?").await?.accepted()?;
        word
    } else {
        format!("word-{run}")
    };
    let value = ctx.step("heard", || change(Arc::clone(&leg), "heard", seen.clone())).await?;
    seen.add(&leg, "heard", value)?;
    ctx.sleep(Duration::from_millis(wait_ms)).await?;
    let (left, right) = tokio::join!(
        async {
            let mut seen = seen.clone();
            for step in ["left", "left-again"] {
                let value = ctx.step(step, || change(Arc::clone(&leg), step, seen.clone())).await?;
                seen.add(&leg, step, value)?;
            }
            Ok::<_, Error>(seen)
        },
        ctx.step("right", || change(Arc::clone(&leg), "right", seen.clone())),
    );
    seen = left?;
    seen.add(&leg, "right", right?)?;
    let shipped = ctx
        .step_with_key("ship", |_| change_once(Arc::clone(&leg), "ship", seen.clone()))
        .at_most_once()
        .await;
    seen.add_once(&leg, "ship", shipped)?;
    let value = ctx.step("end", || change(Arc::clone(&leg), "end", seen.clone())).await?;
    seen.add(&leg, "end", value)?;
    Ok(Json(Report { run, word, values: seen.values, unknown: seen.unknown }))
}

/// The body of a step.
async fn change(leg: Arc<Leg>, step: &'static str, seen: Seen) -> Result<String> {
    leg.effect(step, &seen.values).await
}

/// The body of a step that may be taken once.
pub(crate) async fn change_once(leg: Arc<Leg>, step: &'static str, seen: Seen) -> Result<String> {
    leg.effect_once(step, &seen.values).await
}

/// What the tool has seen of its steps.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) unknown: Vec<String>,
}

impl Seen {
    pub(crate) fn add(&mut self, leg: &Leg, step: &str, value: String) -> Result<()> {
        leg.saw(step, &value)?;
        self.values.insert(step.to_owned(), value);
        Ok(())
    }

    /// That nobody can know is something to go on with; that the store was away is not.
    pub(crate) fn add_once(&mut self, leg: &Leg, step: &str, value: Result<String>) -> Result<()> {
        match value {
            Ok(value) => self.add(leg, step, value),
            Err(error) if matches!(error.kind(), ErrorKind::Indeterminate(_)) => {
                leg.unknown(step)?;
                self.unknown.push(step.to_owned());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

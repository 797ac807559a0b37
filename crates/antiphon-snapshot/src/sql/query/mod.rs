//! Read-only SQL in a closed world.
//!
//! A query goes through four gates, each of which knows only what it allows: the [text](text) and its tokens, the
//! [tree](tree) the parser makes of it, the [plan](check) the planner makes of that, in a [world](world) that has
//! nothing but the tables that were given and the [functions] that are listed with [patterns] that are literals, and
//! the [joins](joins) the engine would do. Whatever does not pass is refused by a rule that has a name. What then runs is
//! bounded in memory, disk and time, and stops when nobody takes its rows.

mod answer;
mod bounded;
mod check;
mod functions;
mod joins;
mod literals;
mod narrow;
mod patterns;
mod retained;
mod size;
mod sum;
mod text;
mod tree;
mod world;

use std::{sync::Arc, time::Instant};

use antiphon_results::{
    DualResponseError, Owner,
    snapshot::{RowSource, SnapshotId, View},
};
use datafusion::{
    execution::{SessionState, TaskContext},
    physical_plan::{ExecutionPlan, execute_stream},
    sql::planner::{ParserOptions, SqlToRel},
};
use futures_util::{StreamExt as _, TryStreamExt as _, future, stream};
use tokio::{runtime::Handle, sync::oneshot};

use self::{answer::Answer, world::World};
use super::scan::{self, SnapshotTable};
use crate::{
    Batches,
    engine::{self, Running, Turn, refusal},
    error::Error,
    inner::Inner,
};

/// What a query is read and planned on: its tree may be deeper than what runs.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// How many times as wide as a value that a query makes a row may be that a join repeats.
const WIDE: usize = 8;
/// The most tables at once.
const MAX_TABLES: usize = 16;

/// Rows that a query gives over snapshots.
pub(crate) async fn query(
    inner: &Arc<Inner>,
    tables: &[(String, SnapshotId)],
    sql: &str,
    owner: &Owner,
) -> Result<RowSource, DualResponseError> {
    // What is refused for its length alone costs nobody a turn.
    text::check_length(sql)?;
    if tables.len() > MAX_TABLES {
        return Err(DualResponseError::Invalid(format!("a query reads {MAX_TABLES} sets at most")));
    }
    let place = SnapshotId::place(owner.tenant.as_deref());
    let mut known = Vec::new();
    for (name, id) in tables {
        // Whoever calls has checked whose they are. Another tenant's are not even looked for.
        if id.place != place {
            return Err(DualResponseError::NotFound);
        }
        let opened = inner.opened(id, &View::default()).await?;
        known.push((name.clone(), SnapshotTable::new(inner, opened, engine::PARTITIONS)));
    }
    let turn = inner.engine.turn(&SnapshotId::share_of(owner)).await?;
    let limit = inner.engine.time;
    let begun = Instant::now();
    let state = inner.engine.state(engine::PARTITIONS);
    let world = World::new(known, inner.engine.call_bytes())?;
    let planning = planned(inner.engine.threads.handle()?, world, state, sql.to_owned(), turn);
    let ((plan, context), turn) =
        tokio::time::timeout(limit, planning).await.map_err(|_| refusal::timeout(limit))??;
    let answer = Answer::new(&plan, tables);
    let schema = answer.schema();
    let open = async move {
        let rows = execute_stream(plan, context).map_err(refusal::of_query)?;
        Ok(rows.map_err(refusal::of_query).and_then(move |batch| future::ready(answer.take(&batch))).boxed())
    };
    let running = Running::start(&inner.engine, Arc::new(turn), begun, open)?;
    let rows = stream::try_unfold(running, async |mut running| {
        let batch = running.next().await?;
        Ok(batch.map(|batch| (batch, running)))
    });
    Ok(Batches::new(schema, rows).into())
}

/// A plan and what it runs in.
type Planned = (Arc<dyn ExecutionPlan>, Arc<TaskContext>);

/// Reads and plans a query on a thread whose stack is deep enough for any tree that the text may hold. The turn
/// goes along: planning that takes too long is waited for by nobody, but counts until it ends.
async fn planned(
    runtime: Handle,
    world: World,
    state: SessionState,
    sql: String,
    turn: Turn,
) -> Result<(Planned, Turn), DualResponseError> {
    let (done, outcome) = oneshot::channel();
    let work = move || {
        let planned = runtime.block_on(plan(&world, state, &sql));
        let _ = done.send(planned.map(|plan| (plan, turn)));
    };
    std::thread::Builder::new()
        .name("antiphon-plan".into())
        .stack_size(STACK_BYTES)
        .spawn(work)
        .map_err(|error| Error::Broken(error.into()))?;
    outcome.await.map_err(|error| Error::Broken(error.into()))?
}

async fn plan(world: &World, mut state: SessionState, sql: &str) -> Result<Planned, DualResponseError> {
    let tokens = text::tokens(sql)?;
    let statement = tree::parsed(tokens)?;
    tree::check(&statement, world)?;
    let options = ParserOptions::new().with_map_string_types_to_utf8view(false);
    let planned = SqlToRel::new_with_options(world, options).sql_statement_to_plan(statement);
    let planned = planned.map_err(refusal::of_query)?;
    check::check(&planned)?;
    patterns::check(&planned)?;
    size::check(&planned)?;
    let optimized = state.optimize(&planned).map_err(refusal::of_query)?;
    patterns::check_optimized(&optimized)?;
    literals::check(&optimized, bounded::repeated(world.call_bytes))?;
    scan::fit(&mut state, &optimized).map_err(refusal::of_query)?;
    let plan = state.query_planner().create_physical_plan(&optimized, &state).await;
    let plan = plan.map_err(refusal::of_query)?;
    joins::check(&plan)?;
    let plan = retained::bounded(plan, WIDE * bounded::repeated(world.call_bytes));
    Ok((plan.map_err(refusal::of_query)?, state.task_ctx()))
}

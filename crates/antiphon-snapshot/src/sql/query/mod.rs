//! Runs read-only SQL on a fixed set of tables and functions.
//!
//! A query passes four checks. Each check has a list of allowed input, and rejects all other input:
//! 1. The first check is for the [text](text) of the query and its tokens.
//! 2. The second check is for the syntax [tree](tree) that the parser returns.
//! 3. The third check is for the logical [plan](check). The [world](world) of the plan contains only the given tables
//!    and the listed [functions]. All [patterns] in the plan must be literals.
//! 4. The fourth check is for the [joins](joins) of the physical plan.
//!
//! If a query is rejected, the error contains the name of the rule. A running query has limits for memory, disk and
//! time, and stops when its rows are no longer read.

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

/// The stack size in bytes for parsing and planning a query. The syntax tree of a query can be deeper than its running
/// plan.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// A row that a join repeats can have at most this many times the maximum size of a repeated value.
const WIDE: usize = 8;
/// The maximum number of tables of a query.
const MAX_TABLES: usize = 16;

/// Runs an SQL query over snapshots, and returns its rows.
pub(crate) async fn query(
    inner: &Arc<Inner>,
    tables: &[(String, SnapshotId)],
    sql: &str,
    owner: &Owner,
) -> Result<RowSource, DualResponseError> {
    // A query that is too long is rejected before it takes a turn.
    text::check_length(sql)?;
    if tables.len() > MAX_TABLES {
        return Err(DualResponseError::Invalid(format!("the query has more than {MAX_TABLES} tables")));
    }
    let place = SnapshotId::place(owner.tenant.as_deref());
    let mut known = Vec::new();
    for (name, id) in tables {
        // The caller of `query` has already checked the owners. This second check rejects snapshots of another tenant
        // before they are opened.
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

/// A physical plan with the context in which it runs.
type Planned = (Arc<dyn ExecutionPlan>, Arc<TaskContext>);

/// Parses and plans a query on a thread with a large stack. The turn of the query moves to the planning thread. If
/// planning takes too long, the caller stops waiting, but the turn is held until planning ends.
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

//! Reads a snapshot as a table of the query engine. The table has the rows of the snapshot in order, optionally with
//! their row numbers.

use std::{fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array},
    datatypes::{DataType, Field, Schema, SchemaRef},
    record_batch::{RecordBatch, RecordBatchOptions},
};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{
        Statistics, config::ConfigNonZeroUsize, internal_err, stats::Precision, tree_node::TreeNodeRecursion,
    },
    datasource::{TableType, source_as_provider},
    error::DataFusionError,
    execution::{SendableRecordBatchStream, SessionState, TaskContext},
    logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown},
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions,
        execute_stream,
        execution_plan::{Boundedness, EmissionType},
        statistics::StatisticsArgs,
        stream::RecordBatchStreamAdapter,
    },
};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use tokio::runtime::Handle;

use crate::{
    engine::BATCH_ROWS,
    error::Error,
    inner::{Inner, Opened},
    read::{StoredFile, guard},
};

type Result<T, E = DataFusionError> = std::result::Result<T, E>;

/// A snapshot as a table of the query engine.
#[derive(Clone)]
pub(super) struct SnapshotTable {
    inner: Arc<Inner>,
    pub(super) opened: Arc<Opened>,
    schema: SchemaRef,
    /// Whether the last column of the table is the row number.
    numbered: bool,
    partitions: usize,
    /// The runtime for requests to the object store. The requests run on the server's runtime, because queries do not
    /// block that runtime.
    requests: Handle,
}

impl SnapshotTable {
    /// Creates a table that is read in `partitions` partitions. Call `new` on the server's runtime.
    pub(super) fn new(inner: &Arc<Inner>, opened: Arc<Opened>, partitions: usize) -> Self {
        let schema = Self::plain_schema(&opened);
        let requests = Handle::current();
        Self { inner: Arc::clone(inner), opened, schema, numbered: false, partitions, requests }
    }

    /// Returns the columns of a snapshot without the metadata of the file.
    pub(super) fn plain_schema(opened: &Opened) -> SchemaRef {
        Arc::new(Schema::new(opened.schema().fields().clone()))
    }

    /// Adds the row number as the last column of the table. Returns the table and the name of the new column.
    pub(super) fn numbered(mut self) -> (Self, String) {
        let mut name = String::from("__row");
        while self.schema.column_with_name(&name).is_some() {
            name.push('_');
        }
        let number = Arc::new(Field::new(&name, DataType::Int64, false));
        let fields: Vec<_> = self.schema.fields().iter().cloned().chain([number]).collect();
        self.schema = Arc::new(Schema::new(fields));
        self.numbered = true;
        (self, name)
    }

    /// Returns all chunks as [`Group`]s.
    fn groups(&self) -> Vec<Group> {
        let group = |chunk: antiphon_results::snapshot::Chunk| Group {
            index: usize::try_from(chunk.index).unwrap_or(usize::MAX),
            first: chunk.row_offset,
            rows: chunk.row_count,
        };
        self.opened.chunks().into_iter().map(group).collect()
    }

    /// Returns the number of rows to read in one batch, for the selected columns or for all columns. If rows are large,
    /// the returned number is smaller.
    fn batch_rows(&self, columns: Option<&[usize]>) -> usize {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let stored = columns.unwrap_or(&all).iter().copied().filter(|column| self.in_file(*column));
        let mask = ProjectionMask::roots(self.opened.metadata.parquet_schema(), stored);
        guard::batch_of(&self.opened, &(0..self.opened.starts.len() - 1), &mask, BATCH_ROWS)
    }

    /// Returns `true` if the stored file contains a column. The column with the row number is not in the file.
    fn in_file(&self, column: usize) -> bool {
        !self.numbered || column + 1 < self.schema.fields().len()
    }

    /// Reads the selected columns of the selected chunks, one chunk after the other.
    fn read(
        self,
        columns: Vec<usize>,
        schema: SchemaRef,
        groups: Vec<Group>,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
        let stored: Vec<usize> = columns.iter().copied().filter(|column| self.in_file(*column)).collect();
        let mask = ProjectionMask::roots(self.opened.metadata.parquet_schema(), stored.iter().copied());
        // The reader returns each column once, in the order of the file.
        let mut read = stored;
        read.sort_unstable();
        read.dedup();
        let place = move |column: usize| read.binary_search(&column).ok();
        let sources: Arc<[Option<usize>]> = columns.into_iter().map(place).collect();
        let open = move |group: Group| {
            let batches = ParquetRecordBatchStreamBuilder::new_with_metadata(
                StoredFile::new(&self.inner, &self.opened, self.requests.clone()),
                self.opened.metadata.clone(),
            )
            .with_row_groups(vec![group.index])
            .with_projection(mask.clone())
            .with_batch_size(guard::batch_of(
                &self.opened,
                &(group.index..group.index + 1),
                &mask,
                BATCH_ROWS,
            ))
            .build()
            .map_err(outside)?;
            let (schema, sources) = (Arc::clone(&schema), Arc::clone(&sources));
            Ok::<_, DataFusionError>(stream::try_unfold(
                (batches, group.first),
                move |(mut batches, first)| {
                    let (schema, sources) = (Arc::clone(&schema), Arc::clone(&sources));
                    async move {
                        let Some(batch) = batches.try_next().await.map_err(outside)? else {
                            group.ends(first)?;
                            return Ok(None);
                        };
                        let next = first + batch.num_rows() as u64;
                        Ok(Some((arrange(&schema, &sources, &batch, first)?, (batches, next))))
                    }
                },
            ))
        };
        stream::iter(groups).map(open).try_flatten()
    }
}

/// Returns the requested columns in the requested order. The column with the row numbers is not in the file, so this
/// function creates it.
fn arrange(
    schema: &SchemaRef,
    sources: &[Option<usize>],
    batch: &RecordBatch,
    first: u64,
) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let first = i64::try_from(first).unwrap_or(i64::MAX);
    let numbers = || Int64Array::from_iter_values((first..).take(rows));
    let column = |source: &Option<usize>| match source {
        Some(source) => Arc::clone(batch.column(*source)),
        None => Arc::new(numbers()) as ArrayRef,
    };
    let columns = sources.iter().map(column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Converts an error of the file or the object store. The text of a query cannot cause an error of the file or the
/// object store.
fn outside(error: parquet::errors::ParquetError) -> DataFusionError {
    DataFusionError::External(Box::new(Error::from(error)))
}

/// A chunk of a snapshot, with the row number at which the chunk starts.
#[derive(Clone, Copy, Debug)]
struct Group {
    index: usize,
    first: u64,
    rows: u64,
}

impl Group {
    /// Checks that the chunk has all its rows. `next` is the row number after the last row that was read.
    fn ends(self, next: u64) -> Result<()> {
        if next == self.first + self.rows {
            return Ok(());
        }
        let found = next - self.first;
        let (index, rows) = (self.index, self.rows);
        let altered = format!(
            "the Parquet file is damaged: chunk {index} has {found} rows, but the footer lists {rows} rows"
        );
        Err(DataFusionError::External(Box::new(Error::Altered(altered))))
    }
}

/// Sets the batch size of the query engine for the tables that a plan reads. Operators collect a batch of rows before
/// they forward the batch. So the batch size must be small if rows are large.
pub(super) fn fit(state: &mut SessionState, plan: &LogicalPlan) -> Result<()> {
    let mut rows = BATCH_ROWS;
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::TableScan(scan) = plan {
            let provider = source_as_provider(&scan.source)?;
            let provider: &dyn std::any::Any = provider.as_ref();
            if let Some(table) = provider.downcast_ref::<SnapshotTable>() {
                rows = rows.min(table.batch_rows(scan.projection.as_deref()));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    state.config_mut().options_mut().execution.batch_size = ConfigNonZeroUsize::try_new(rows)?;
    Ok(())
}

/// Optimizes a logical plan, and starts to run it.
pub(super) async fn run(mut state: SessionState, plan: &LogicalPlan) -> Result<SendableRecordBatchStream> {
    let plan = state.optimize(plan)?;
    fit(&mut state, &plan)?;
    let plan = state.query_planner().create_physical_plan(&plan, &state).await?;
    execute_stream(plan, state.task_ctx())
}

#[async_trait]
impl TableProvider for SnapshotTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// The scan uses filters only to skip chunks. The query engine filters the rows of the remaining chunks.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = match projection {
            Some(projection) => projection.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&columns)?);
        let mut groups = self.groups();
        if let Some(kept) = super::prune::kept(state, &self.opened, &self.schema, filters) {
            groups.retain(|group| kept.get(group.index).copied().unwrap_or(true));
        }
        Ok(Arc::new(Scan::new(self.clone(), columns, schema, split(groups, self.partitions))))
    }
}

/// Splits chunks into at most `parts` parts of consecutive chunks, each with a similar number of rows.
fn split(groups: Vec<Group>, parts: usize) -> Vec<Vec<Group>> {
    let rows: u64 = groups.iter().map(|group| group.rows).sum();
    let share = rows.div_ceil(parts as u64).max(1);
    let mut split = vec![Vec::new(); parts];
    let mut before = 0;
    for group in groups {
        let part = usize::try_from(before / share).unwrap_or(usize::MAX).min(parts - 1);
        split[part].push(group);
        before += group.rows;
    }
    split.retain(|part| !part.is_empty());
    if split.is_empty() {
        split.push(Vec::new());
    }
    split
}

impl fmt::Debug for SnapshotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotTable").field("data", &self.opened.data).finish_non_exhaustive()
    }
}

/// A plan node that reads the chunks of a snapshot.
#[derive(Debug)]
pub(super) struct Scan {
    table: SnapshotTable,
    columns: Vec<usize>,
    parts: Vec<Vec<Group>>,
    properties: Arc<PlanProperties>,
}

impl Scan {
    fn new(table: SnapshotTable, columns: Vec<usize>, schema: SchemaRef, parts: Vec<Vec<Group>>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(parts.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { table, columns, parts, properties: Arc::new(properties) }
    }

    /// Returns the number of rows that the scan reads.
    pub(super) fn rows(&self) -> u64 {
        self.parts.iter().flatten().map(|group| group.rows).sum()
    }
}

impl DisplayAs for Scan {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scan: columns={:?}, rows={}", self.columns, self.rows())
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &'static str {
        "Scan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(groups) = self.parts.get(partition) else {
            return internal_err!("a scan of {} parts has no part {partition}", self.parts.len());
        };
        let schema = self.schema();
        let batches = self.table.clone().read(self.columns.clone(), Arc::clone(&schema), groups.clone());
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = match args.partition().and_then(|part| self.parts.get(part)) {
            Some(groups) => groups.iter().map(|group| group.rows).sum(),
            None => self.rows(),
        };
        let mut statistics = Statistics::new_unknown(&self.schema());
        statistics.num_rows = Precision::Exact(usize::try_from(rows).unwrap_or(usize::MAX));
        Ok(Arc::new(statistics))
    }
}

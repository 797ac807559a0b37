//! The names that a query can use: the given tables and the listed functions.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use antiphon_results::DualResponseError;
use arrow::datatypes::DataType;
use datafusion::{
    common::TableReference,
    config::ConfigOptions,
    datasource::provider_as_source,
    error::{DataFusionError, Result},
    execution::SessionStateDefaults,
    logical_expr::{
        AggregateUDF, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF,
        planner::{ContextProvider, ExprPlanner},
    },
};

use super::{bounded, functions, sum};
use crate::{engine::refusal::refused, sql::scan::SnapshotTable};

pub(super) struct World {
    /// The tables of the query. The key is the table name in lower case.
    tables: BTreeMap<String, Arc<dyn TableSource>>,
    scalars: HashMap<String, Arc<ScalarUDF>>,
    aggregates: HashMap<String, Arc<AggregateUDF>>,
    windows: HashMap<String, Arc<WindowUDF>>,
    planners: Vec<Arc<dyn ExprPlanner>>,
    options: ConfigOptions,
    /// The maximum number of bytes that one call of an SQL function can produce for one batch.
    pub(super) call_bytes: usize,
}

impl World {
    /// Creates a `World` with these tables, and with a limit on the bytes that one function call can produce for one
    /// batch.
    pub(super) fn new(
        given: Vec<(String, SnapshotTable)>,
        call_bytes: usize,
    ) -> Result<Self, DualResponseError> {
        let mut tables = BTreeMap::new();
        for (name, table) in given {
            let name = name.to_lowercase();
            if tables.insert(name.clone(), provider_as_source(Arc::new(table))).is_some() {
                return Err(DualResponseError::Invalid(format!("two tables have the name `{name}`")));
            }
        }
        let mut scalars = HashMap::new();
        for function in SessionStateDefaults::default_scalar_functions() {
            let name = function.name().to_owned();
            let function = match () {
                () if functions::SCALARS.contains(&&*name) => function,
                () if functions::GROWING.contains(&&*name) => bounded::bounded(function, call_bytes),
                () => continue,
            };
            for name in function.aliases().iter().chain([&name]) {
                scalars.insert(name.clone(), Arc::clone(&function));
            }
        }
        let mut aggregates = HashMap::new();
        for function in SessionStateDefaults::default_aggregate_functions() {
            if functions::AGGREGATES.contains(&function.name()) {
                for name in function.aliases().iter().map(String::as_str).chain([function.name()]) {
                    aggregates.insert(name.to_owned(), Arc::clone(&function));
                }
            }
        }
        aggregates.insert("sum".to_owned(), sum::wide());
        let mut windows = HashMap::new();
        for function in SessionStateDefaults::default_window_functions() {
            if functions::WINDOWS.contains(&function.name()) {
                for name in function.aliases().iter().map(String::as_str).chain([function.name()]) {
                    windows.insert(name.to_owned(), Arc::clone(&function));
                }
            }
        }
        // This planner comes first, because it limits the operators that concatenate text.
        let overlay = scalars.get("overlay").cloned();
        let mut planners = vec![bounded::planner(overlay, call_bytes)];
        planners.extend(SessionStateDefaults::default_expr_planners());
        Ok(Self { tables, scalars, aggregates, windows, planners, options: ConfigOptions::new(), call_bytes })
    }

    pub(super) fn has_table(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }

    pub(super) fn unknown_table(&self, name: &str) -> DualResponseError {
        let tables: Vec<_> = self.tables.keys().map(|name| format!("`{name}`")).collect();
        let shown: String = name.chars().filter(|character| !character.is_control()).take(80).collect();
        let tables = tables.join(", ");
        refused("unknown_table", format!("table `{shown}` does not exist; the tables are {tables}"))
    }

    pub(super) fn knows_function(&self, name: &str) -> bool {
        self.scalars.contains_key(name)
            || self.aggregates.contains_key(name)
            || self.windows.contains_key(name)
    }

    pub(super) fn unknown_function(name: &str) -> DualResponseError {
        let shown: String = name.chars().filter(|character| !character.is_control()).take(80).collect();
        let reason = match &*shown {
            "now" | "current_timestamp" | "current_date" | "current_time" | "today" | "localtime"
            | "localtimestamp" => format!(
                "`{shown}` is not allowed: the same query must always return the same rows; write the time as a literal, for example TIMESTAMP '2026-01-31T12:00:00'"
            ),
            "random" | "rand" | "uuid" => {
                format!("`{shown}` is not allowed: the same query must always return the same rows")
            }
            _ => format!("the function `{shown}` does not exist; the functions are {}", functions::shown()),
        };
        refused("unknown_function", reason)
    }
}

impl ContextProvider for World {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let found = match &name {
            TableReference::Bare { table } => self.tables.get(&table.to_lowercase()),
            _ => None,
        };
        let unknown = || DataFusionError::External(Box::new(self.unknown_table(&name.to_string())));
        found.cloned().ok_or_else(unknown)
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.scalars.get(name).cloned()
    }

    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.aggregates.get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.windows.get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        self.scalars.keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.aggregates.keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.windows.keys().cloned().collect()
    }
}

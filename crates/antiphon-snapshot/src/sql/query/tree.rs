//! The second check of a query: its syntax tree.

use std::{collections::HashMap, ops::ControlFlow};

use antiphon_results::DualResponseError;
use datafusion::sql::sqlparser::{
    ast::{
        Expr, Function, Ident, ObjectName, ObjectNamePart, Query, Select, SetExpr, Statement, TableFactor,
        Visit as _, Visitor,
    },
    dialect::GenericDialect,
    parser::{Parser, ParserError},
    tokenizer::TokenWithSpan,
};

use super::{text::only_reads, world::World};
use crate::engine::refusal::{not_valid, refused, too_deep};

/// The recursion limit of the parser.
const MAX_RECURSION: usize = 200;
/// The maximum depth of expressions. Each operator in a chain of operators also adds depth.
const MAX_DEPTH: usize = 128;
/// The maximum nesting depth of queries.
const MAX_QUERIES: usize = 24;
/// The maximum number of UNION, INTERSECT and EXCEPT operators in a query.
const MAX_SETS: usize = 64;
/// The maximum number of table reads in a query. Each use of a WITH query counts as one read of each table in the WITH
/// query.
const MAX_READS: u64 = 64;
/// The maximum number of columns in a CUBE expression.
const MAX_CUBE: usize = 6;

/// Parses the tokens to one statement.
pub(super) fn parsed(tokens: Vec<TokenWithSpan>) -> Result<Statement, DualResponseError> {
    let dialect = GenericDialect {};
    let parser = Parser::new(&dialect).with_recursion_limit(MAX_RECURSION).with_tokens_with_locations(tokens);
    let statements = { parser }.parse_statements().map_err(|error| match error {
        ParserError::RecursionLimitExceeded => too_deep(),
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => not_valid(&text),
    })?;
    let mut statements = statements.into_iter();
    match (statements.next(), statements.next()) {
        (Some(statement), None) => Ok(statement),
        (None, _) => Err(not_valid("the query is empty")),
        (Some(_), Some(_)) => {
            Err(refused("one_statement", "the query has more than one statement; send one statement"))
        }
    }
}

/// Returns an error if a statement contains syntax that queries cannot use, or exceeds a limit of this module.
pub(super) fn check(statement: &Statement, world: &World) -> Result<(), DualResponseError> {
    if !matches!(statement, Statement::Query(_)) {
        return Err(only_reads());
    }
    let mut gate =
        Gate { world, named: HashMap::new(), bodies: HashMap::new(), reads: vec![0], depth: 0, cubed: 0 };
    match statement.visit(&mut gate) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Gate<'a> {
    world: &'a World,
    /// The number of tables that each WITH query reads. The map key is the name of the WITH query.
    named: HashMap<String, u64>,
    /// The name of each WITH query whose visit has not ended. The map key is the address of the query in the syntax
    /// tree.
    bodies: HashMap<usize, String>,
    /// The number of table reads of each query whose visit has not ended.
    reads: Vec<u64>,
    depth: usize,
    cubed: usize,
}

type Flow = ControlFlow<DualResponseError>;

fn refuse(error: DualResponseError) -> Flow {
    ControlFlow::Break(error)
}

impl Visitor for Gate<'_> {
    type Break = DualResponseError;

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        self.reads.push(0);
        if self.reads.len() > MAX_QUERIES || set_operations(&query.body) > MAX_SETS {
            return refuse(too_deep());
        }
        if !query.locks.is_empty() || writes(&query.body) {
            return refuse(only_reads());
        }
        let odd = query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty();
        if odd {
            return refuse(not_valid("FOR, SETTINGS, FORMAT and pipe operators are not supported"));
        }
        let Some(with) = &query.with else { return ControlFlow::Continue(()) };
        if with.recursive {
            return refuse(refused(
                "no_recursion",
                "WITH RECURSIVE is not allowed; use WITH, joins or window functions",
            ));
        }
        for cte in &with.cte_tables {
            // No query can read a WITH query before the end of that WITH query.
            self.bodies.insert(address(&cte.query), cte.alias.name.value.to_lowercase());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> Flow {
        let reads = self.reads.pop().unwrap_or_default();
        match self.bodies.remove(&address(query)) {
            // If several WITH queries have the same name, the largest number of table reads counts.
            Some(name) => {
                let known = self.named.entry(name).or_default();
                *known = reads.max(*known);
            }
            None => return self.read(reads),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        if select.into.is_some() {
            return refuse(only_reads());
        }
        if !select.lateral_views.is_empty() {
            return refuse(no_table_function());
        }
        if !select.connect_by.is_empty() {
            return refuse(refused(
                "no_recursion",
                "CONNECT BY is not allowed; use joins or window functions",
            ));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        match factor {
            TableFactor::Table { args: Some(_), .. }
            | TableFactor::TableFunction { .. }
            | TableFactor::Function { .. }
            | TableFactor::UNNEST { .. }
            | TableFactor::JsonTable { .. }
            | TableFactor::OpenJsonTable { .. }
            | TableFactor::XmlTable { .. } => refuse(no_table_function()),
            TableFactor::Table { version: Some(_), .. } | TableFactor::Table { sample: Some(_), .. } => {
                refuse(not_valid(
                    "table versions (`FOR SYSTEM_TIME AS OF`) and `TABLESAMPLE` are not supported; read the whole table",
                ))
            }
            TableFactor::Table { .. } | TableFactor::Derived { .. } | TableFactor::NestedJoin { .. } => {
                ControlFlow::Continue(())
            }
            _ => refuse(not_valid("PIVOT, UNPIVOT and MATCH_RECOGNIZE are not supported")),
        }
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> Flow {
        let Some(name) = single(relation) else {
            return refuse(self.world.unknown_table(&relation.to_string()));
        };
        let name = name.value.to_lowercase();
        if let Some(reads) = self.named.get(&name) {
            return self.read((*reads).max(1));
        }
        if self.world.has_table(&name) {
            return self.read(1);
        }
        refuse(self.world.unknown_table(&name))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return refuse(too_deep());
        }
        match expr {
            Expr::Function(function) => return self.function(function),
            Expr::Cube(sets) => self.cubed += sets.len(),
            Expr::Rollup(sets) | Expr::GroupingSets(sets) => self.cubed += sets.len() / 8,
            Expr::InUnnest { .. } => return refuse(no_table_function()),
            Expr::Lambda(_) => {
                return refuse(refused(
                    "unknown_function",
                    "lambda functions, such as `x -> x + 1`, are not supported",
                ));
            }
            _ => {}
        }
        if self.cubed > MAX_CUBE {
            return refuse(too_deep());
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _expr: &Expr) -> Flow {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

impl Gate<'_> {
    fn read(&mut self, tables: u64) -> Flow {
        if let Some(reads) = self.reads.last_mut() {
            *reads = reads.saturating_add(tables);
            if *reads > MAX_READS {
                return refuse(too_deep());
            }
        }
        ControlFlow::Continue(())
    }

    fn function(&self, function: &Function) -> Flow {
        let name = match single(&function.name) {
            Some(name) => name.value.to_lowercase(),
            None => function.name.to_string(),
        };
        if self.world.knows_function(&name) {
            return ControlFlow::Continue(());
        }
        refuse(World::unknown_function(&name))
    }
}

fn address(query: &Query) -> usize {
    std::ptr::from_ref(query).addr()
}

fn single(name: &ObjectName) -> Option<&Ident> {
    match &name.0[..] {
        [ObjectNamePart::Identifier(name)] => Some(name),
        _ => None,
    }
}

/// Counts UNION, INTERSECT and EXCEPT without recursion, because a long text can nest these operators deeply.
fn set_operations(body: &SetExpr) -> usize {
    let mut count = 0;
    let mut open = vec![body];
    while let Some(body) = open.pop() {
        if let SetExpr::SetOperation { left, right, .. } = body {
            count += 1;
            open.extend([&**left, &**right]);
        }
    }
    count
}

fn writes(body: &SetExpr) -> bool {
    let mut open = vec![body];
    while let Some(body) = open.pop() {
        match body {
            SetExpr::SetOperation { left, right, .. } => open.extend([&**left, &**right]),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => return true,
            SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) | SetExpr::Table(_) => {}
        }
    }
    false
}

fn no_table_function() -> DualResponseError {
    refused("no_table_function", "a query can read only tables, not functions, files or URLs")
}

//! Checks the regular expressions and the `LIKE` patterns in a plan. Each regular expression and each `LIKE` pattern
//! must be a literal.
//!
//! The query engine compiles each distinct pattern in a batch, and keeps all compiled patterns until the batch is
//! done. The memory pool does not count the compiled patterns, and the time limit cannot interrupt their compilation.
//! So if a query computed a pattern for each row, the patterns could take gigabytes of memory and minutes of time.

use antiphon_results::DualResponseError;
use datafusion::{
    common::tree_node::{TreeNode as _, TreeNodeRecursion},
    logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator},
};
use regex::RegexBuilder;

use crate::engine::refusal::{not_valid, of_query, refused};

/// The maximum number of patterns of a query.
const MAX_PATTERNS: usize = 32;
/// The maximum length of a pattern in bytes.
const MAX_PATTERN_BYTES: usize = 1_000;
/// The maximum size of a compiled regular expression in bytes. The compiled expression `\w{20}` has a size of about 1
/// MiB.
const MAX_COMPILED_BYTES: usize = 1024 * 1024;

/// Rejects a plan with a pattern that is not a literal, is too long, or is too large when it is compiled.
pub(super) fn check(plan: &LogicalPlan) -> Result<(), DualResponseError> {
    let mut patterns = 0;
    let mut rejected = None;
    visit(plan, |pattern| {
        patterns += 1;
        rejected = pattern.check().err();
        rejected.is_none()
    })?;
    if let Some(error) = rejected {
        return Err(error);
    }
    if patterns > MAX_PATTERNS {
        let reason = format!("the query has {patterns} patterns, and {MAX_PATTERNS} is the maximum");
        return Err(refused("pattern", reason));
    }
    Ok(())
}

/// Rejects a plan with a pattern that is not a literal. The optimizer can replace one pattern by several smaller
/// patterns. So this function does not check the number and the size of patterns again.
pub(super) fn check_optimized(plan: &LogicalPlan) -> Result<(), DualResponseError> {
    let mut rejected = None;
    visit(plan, |pattern| {
        rejected = literal(pattern.text).is_none().then(|| not_literal(pattern.name));
        rejected.is_none()
    })?;
    rejected.map_or(Ok(()), Err)
}

/// Calls `each` with each pattern of a plan, until `each` returns `false`.
fn visit(plan: &LogicalPlan, mut each: impl FnMut(&Pattern<'_>) -> bool) -> Result<(), DualResponseError> {
    let walked = plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|top| {
            top.apply(|expr| match Pattern::of(expr) {
                Some(pattern) if !each(&pattern) => Ok(TreeNodeRecursion::Stop),
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    });
    walked.map(|_| ()).map_err(of_query)
}

/// The pattern of a function or an operator.
struct Pattern<'a> {
    /// The name of the function or the operator.
    name: &'a str,
    text: &'a Expr,
    flags: Option<&'a Expr>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Regex,
    Like,
}

impl<'a> Pattern<'a> {
    fn of(expr: &'a Expr) -> Option<Self> {
        match expr {
            Expr::ScalarFunction(call) => {
                let flags = match call.func.name() {
                    "regexp_like" | "regexp_match" => 2,
                    "regexp_count" | "regexp_replace" => 3,
                    "regexp_instr" => 4,
                    _ => return None,
                };
                let (name, kind) = (call.func.name(), Kind::Regex);
                Some(Self { name, text: call.args.get(1)?, flags: call.args.get(flags), kind })
            }
            Expr::BinaryExpr(BinaryExpr { op, right, .. }) => {
                let (name, kind) = match op {
                    Operator::RegexMatch => ("~", Kind::Regex),
                    Operator::RegexIMatch => ("~*", Kind::Regex),
                    Operator::RegexNotMatch => ("!~", Kind::Regex),
                    Operator::RegexNotIMatch => ("!~*", Kind::Regex),
                    Operator::LikeMatch | Operator::NotLikeMatch => ("LIKE", Kind::Like),
                    Operator::ILikeMatch | Operator::NotILikeMatch => ("ILIKE", Kind::Like),
                    _ => return None,
                };
                Some(Self { name, text: right, flags: None, kind })
            }
            Expr::Like(like) => {
                let name = if like.case_insensitive { "ILIKE" } else { "LIKE" };
                Some(Self { name, text: &like.pattern, flags: None, kind: Kind::Like })
            }
            Expr::SimilarTo(like) => {
                Some(Self { name: "SIMILAR TO", text: &like.pattern, flags: None, kind: Kind::Regex })
            }
            _ => None,
        }
    }

    fn check(&self) -> Result<(), DualResponseError> {
        let name = self.name;
        let pattern = literal(self.text).ok_or_else(|| not_literal(name))?;
        if pattern.len() > MAX_PATTERN_BYTES {
            let length = pattern.len();
            let reason = format!(
                "the pattern of `{name}` has {length} bytes, and {MAX_PATTERN_BYTES} is the maximum; shorten it"
            );
            return Err(refused("pattern", reason));
        }
        let flags = match self.flags {
            Some(flags) => literal(flags).ok_or_else(|| not_literal(name))?,
            None => "",
        };
        // The flags become part of the regular expression, so only letters are allowed.
        if !flags.chars().all(|flag| flag.is_ascii_alphabetic()) {
            return Err(not_valid(&format!("the flags of `{name}` must be letters, such as 'i'")));
        }
        if self.kind == Kind::Like {
            return Ok(());
        }
        compiled(name, pattern, flags)
    }
}

/// Rejects a regular expression that is too large or invalid. The query engine would detect an invalid regular
/// expression only at the first row.
fn compiled(name: &str, pattern: &str, flags: &str) -> Result<(), DualResponseError> {
    let has = |flag: char| name.ends_with('*') && flag == 'i' || flags.contains(flag);
    let built = RegexBuilder::new(pattern)
        .case_insensitive(has('i'))
        .multi_line(has('m'))
        .dot_matches_new_line(has('s'))
        .ignore_whitespace(has('x'))
        .swap_greed(has('U'))
        .size_limit(MAX_COMPILED_BYTES)
        .build();
    match built {
        Err(regex::Error::CompiledTooBig(_)) => Err(refused(
            "pattern",
            format!(
                "the compiled regular expression of `{name}` is larger than {MAX_COMPILED_BYTES} bytes; \
                 use fewer repetitions, or write `[a-z]` or `[0-9]` instead of `\\pL`, `\\w` or `\\d`"
            ),
        )),
        Err(error) => Err(not_valid(&format!("the regular expression of `{name}` is not valid: {error}"))),
        Ok(_) => Ok(()),
    }
}

/// Returns the text of a literal, which is empty if the literal is null or not text. Returns `None` if the
/// expression is not a literal.
fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => Some(value.try_as_str().flatten().unwrap_or_default()),
        Expr::Cast(cast) => literal(&cast.expr),
        Expr::Alias(alias) => literal(&alias.expr),
        _ => None,
    }
}

fn not_literal(name: &str) -> DualResponseError {
    refused(
        "pattern",
        format!(
            "the pattern and the flags of `{name}` must be literals; to search for the value of a column, \
             use `contains`, `starts_with`, `ends_with` or `strpos`"
        ),
    )
}

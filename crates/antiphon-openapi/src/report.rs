//! The report about a conversion.

use std::fmt;

use antiphon::Tool;

/// The tools of a document, and the report about them.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenApiTools {
    /// The tools, in the order of the document.
    pub tools: Vec<Tool>,
    /// The operations that became tools, the operations that did not become tools, and the differences between the
    /// document and the tools.
    pub report: Report,
}

/// The report about a conversion. Its `Display` form has one line for each refused operation and each warning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The operations that became tools.
    pub converted: Vec<Converted>,
    /// The operations that cannot become tools.
    pub refused: Vec<Refused>,
    /// The parts of the document that the tools do not support.
    pub warnings: Vec<Warning>,
    /// The number of operations that are not selected.
    pub omitted: usize,
}

/// One converted operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted {
    /// The name of the tool.
    pub tool: String,
    /// The method and the path, for example `GET /pets`.
    pub operation: String,
    /// Whether the tool returns a result set.
    pub has_result_set: bool,
}

/// An operation that cannot become a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The method and the path, for example `POST /files`. Only the path, if the operations of the path cannot be
    /// read.
    pub operation: String,
    /// The reason why the operation cannot become a tool.
    pub reason: String,
}

/// A part of an operation that the tool does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The method and the path, for example `GET /pets`.
    pub operation: String,
    /// A text that describes the part and the consequence.
    pub text: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { converted, refused, warnings, omitted } = self;
        writeln!(
            f,
            "{} operations converted, {} refused, {omitted} not selected, {} warnings",
            converted.len(),
            refused.len(),
            warnings.len()
        )?;
        for Refused { operation, reason } in refused {
            writeln!(f, "refused {operation}: {reason}")?;
        }
        for Warning { operation, text } in warnings {
            writeln!(f, "warning {operation}: {text}")?;
        }
        Ok(())
    }
}

//! The report about the conversion of a document into tools.

use std::fmt;

use antiphon::Tool;

/// The tools of a document, and the report about the conversion of the document.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenApiTools {
    /// The tools, in the order of their operations in the document.
    pub tools: Vec<Tool>,
    /// The operations that became tools, the operations that did not become tools, and the differences between the
    /// document and the tools.
    pub report: Report,
}

/// The report about the conversion of a document into tools. The `Display` form of a report has one line for each
/// refused operation and each warning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The operations that became tools.
    pub converted: Vec<Converted>,
    /// The operations that cannot become tools.
    pub refused: Vec<Refused>,
    /// The parts of the document that the tools do not support.
    pub warnings: Vec<Warning>,
    /// The number of operations that the settings do not select.
    pub omitted: usize,
}

/// An operation that became a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted {
    /// The name of the tool.
    pub tool: String,
    /// The method and the path of the operation, for example `GET /pets`.
    pub operation: String,
    /// Whether the tool returns a result set.
    pub has_result_set: bool,
}

/// An operation that cannot become a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The method and the path of the operation, for example `POST /files`. If the operations of a path cannot be
    /// read, this text is only the path.
    pub operation: String,
    /// The reason why the operation cannot become a tool.
    pub reason: String,
}

/// A part of an operation that the tool does not support.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The method and the path of the operation, for example `GET /pets`.
    pub operation: String,
    /// A text that describes the unsupported part and the consequence for the tool.
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

use super::ExportFormat;

/// What a [`SnapshotStore`](super) can do besides keeping rows and giving them back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotCapabilities {
    /// Whether it has a query engine: it sorts, filters, groups and runs queries.
    pub queries: bool,
    /// What it writes rows as.
    pub formats: Vec<ExportFormat>,
}

impl SnapshotCapabilities {
    /// With a query engine or without, and these formats.
    pub fn new(queries: bool, formats: impl IntoIterator<Item = ExportFormat>) -> Self {
        Self { queries, formats: formats.into_iter().collect() }
    }
}

//! Writes what the library says to stderr, so that whoever looks into a broken law finds it beside the ledger.

use std::fmt::{self, Write as _};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Notes everything from `info` on that is ours.
pub(crate) struct Log {
    process: String,
}

impl Log {
    /// From here on.
    pub(crate) fn start(process: &str) -> anyhow::Result<()> {
        tracing::subscriber::set_global_default(Self { process: process.to_owned() })?;
        Ok(())
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("antiphon") && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line =
            Words(format!("{} {} {}:", crate::ledger::now(), self.process, event.metadata().level()));
        event.record(&mut line);
        eprintln!("{}", line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

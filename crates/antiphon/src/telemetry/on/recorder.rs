//! The recorder for metrics.

use std::{fmt, sync::Arc};

use antiphon_store::Depth;
use opentelemetry::{KeyValue, metrics::Meter};

use super::{Outcome, Telemetry, instruments::Instruments};

/// A recorder for metrics. If telemetry is off, the recorder is empty.
#[derive(Clone, Default)]
pub(crate) struct Recorder(pub(super) Option<Arc<Telling>>);

pub(super) struct Telling {
    pub(super) instruments: Instruments,
    pub(super) content: bool,
    meter: Meter,
}

impl Recorder {
    pub(crate) fn new(telemetry: Telemetry) -> Self {
        let Telemetry { meter, content } = telemetry;
        Self(Some(Arc::new(Telling { instruments: Instruments::new(&meter), content, meter })))
    }

    pub(crate) fn meter(&self) -> Option<&Meter> {
        self.0.as_deref().map(|telling| &telling.meter)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether spans contain tool arguments and results.
    pub(crate) fn wants_content(&self) -> bool {
        self.0.as_deref().is_some_and(|telling| telling.content)
    }

    fn tell(&self, tell: impl FnOnce(&Instruments)) {
        if let Some(telling) = &self.0 {
            tell(&telling.instruments);
        }
    }

    /// Counts a sealed state that could not be decrypted.
    pub(crate) fn seal_refused(&self, reason: &'static str) {
        self.tell(|it| it.refused.add(1, &[KeyValue::new("antiphon.reason", reason)]));
    }

    /// Records the size of a sealed state that was sent to a client.
    pub(crate) fn seal_sent(&self, bytes: usize) {
        #[expect(clippy::cast_precision_loss, reason = "a seal has far fewer bytes than 2^52")]
        self.tell(|it| it.seal.record(bytes as f64, &[]));
    }

    /// Counts a rejected request.
    pub(crate) fn shed(&self) {
        self.tell(|it| it.shed.add(1, &[]));
    }

    /// Counts a new task, before the first leg of the task starts.
    pub(crate) fn run_begun(&self, tool: &str) {
        self.tell(|it| it.begun.add(1, &of_tool(tool)));
    }

    /// Counts a run that ended while no leg was running, for example after a cancellation.
    pub(crate) fn run_ended(&self, tool: &str, outcome: Outcome) {
        self.tell(|it| {
            let mut about = of_tool(tool).to_vec();
            about.push(KeyValue::new("antiphon.outcome", outcome.name()));
            about.extend(outcome.error().map(|error| KeyValue::new("error.type", error)));
            it.ended.add(1, &about);
        });
    }

    /// Counts a job that a worker received.
    pub(crate) fn leased(&self, attempt: u32) -> Leased {
        self.tell(|it| it.working.add(1, &[]));
        Leased { recorder: self.clone(), redelivered: attempt > 1, outcome: "later" }
    }

    /// Records the queue depth.
    pub(crate) fn depth(&self, depth: Depth) {
        self.tell(|it| {
            for (state, jobs) in [("waiting", depth.waiting), ("leased", depth.leased), ("dead", depth.dead)]
            {
                it.depth.record(jobs, &[KeyValue::new("antiphon.state", state)]);
            }
        });
    }

    /// Counts a task record that this replica could not read.
    pub(crate) fn task_unreadable(&self, reason: &'static str) {
        self.tell(|it| it.unreadable.add(1, &[KeyValue::new("antiphon.reason", reason)]));
    }

    /// Counts a lost job that was queued again.
    pub(crate) fn task_repaired(&self, tool: &str) {
        self.tell(|it| it.repaired.add(1, &of_tool(tool)));
    }

    /// Counts a run that the server ended because no answer arrived within the maximum wait.
    pub(crate) fn run_expired(&self, tool: &str) {
        self.tell(|it| it.expired.add(1, &of_tool(tool)));
    }

    /// Counts an action on a result set.
    #[cfg_attr(not(feature = "results"), expect(dead_code, reason = "only result sets call this function"))]
    pub(crate) fn results(&self, action: &'static str, rows: u64, bytes: u64, refused: Option<&'static str>) {
        self.tell(|it| {
            let mut about = vec![KeyValue::new("antiphon.action", action)];
            if rows > 0 {
                it.result_rows.add(rows, &about);
            }
            if bytes > 0 {
                it.result_bytes.add(bytes, &about);
            }
            about.extend(refused.map(|code| KeyValue::new("error.type", code)));
            it.result_actions.add(1, &about);
        });
    }
}

fn of_tool(tool: &str) -> [KeyValue; 2] {
    [KeyValue::new("mcp.method.name", "tools/call"), KeyValue::new("gen_ai.tool.name", tool.to_owned())]
}

/// A job in progress. Dropping this value adds the result of the job to the metrics.
pub(crate) struct Leased {
    recorder: Recorder,
    redelivered: bool,
    outcome: &'static str,
}

impl Leased {
    /// Sets the result of the job: `done`, `later`, `lost` or `buried`.
    pub(crate) fn became(&mut self, outcome: &'static str) {
        self.outcome = outcome;
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        self.recorder.tell(|it| {
            it.working.add(-1, &[]);
            let about = [
                KeyValue::new("antiphon.outcome", self.outcome),
                KeyValue::new("antiphon.redelivered", self.redelivered),
            ];
            it.leases.add(1, &about);
        });
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("on", &self.is_on()).finish()
    }
}

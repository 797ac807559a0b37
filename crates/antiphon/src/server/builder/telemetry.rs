//! The settings for telemetry.

use std::sync::Arc;

use antiphon_llm::Model;

use super::ServerBuilder;
use crate::telemetry::{Recorder, Telemetry};

impl ServerBuilder {
    /// Enables telemetry: spans and metrics that follow OpenTelemetry's conventions for MCP and generative AI. Default:
    /// off. Telemetry that is off has no run-time cost.
    pub fn with_telemetry(mut self, telemetry: Telemetry) -> Self {
        self.outer_settings.insert("with_telemetry");
        self.recorder = Recorder::new(telemetry);
        self
    }

    /// Passes the recorder of the telemetry to the parts of the server that record metrics.
    pub(super) fn observe(mut self) -> Self {
        let Some(meter) = self.recorder.meter().cloned() else { return self };
        if let Some(model) = self.models.model.take() {
            let observed: Arc<dyn Model> = Arc::new(antiphon_llm::Observed::new(model, &meter));
            self.models.model = Some(observed);
        }
        self
    }
}

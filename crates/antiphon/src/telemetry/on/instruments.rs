//! All metrics of the server.

use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter, UpDownCounter};

use super::Outcome;

/// The definition of a metric: the name, kind, unit and description.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) unit: &'static str,
    pub(super) what: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the reference is checked against it"))]
    pub(super) by: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Counter,
    UpDown,
    Gauge,
    Histogram(&'static [f64]),
}

/// The bucket boundaries of the semantic conventions for MCP, in seconds.
const SECONDS: &[f64] = &[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// The bucket boundaries for the duration of legs, in seconds. Most legs are short.
const SHORT: &[f64] =
    &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];
/// The bucket boundaries for the size of sealed states, in bytes. The default limit of a `requestState` is 64 KiB.
const BYTES: &[f64] =
    &[256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0, 65_536.0, 262_144.0];

macro_rules! metrics {
    ($($const:ident $name:literal $kind:expr, $unit:literal, $what:literal, [$($by:literal),*];)*) => {
        $(pub(super) const $const: Metric =
            Metric { name: $name, kind: $kind, unit: $unit, what: $what, by: &[$($by),*] };)*
        /// All metrics, in the order of the reference documentation.
        #[cfg(test)]
        pub(super) const ALL: &[Metric] = &[$($const),*];
    };
}

metrics! {
    OPERATION "mcp.server.operation.duration" Kind::Histogram(SECONDS), "s",
        "duration of requests, from reading to responding",
        ["mcp.method.name", "gen_ai.tool.name", "gen_ai.prompt.name", "mcp.protocol.version", "network.transport",
         "error.type", "rpc.response.status_code"];
    REQUESTS "antiphon.requests.active" Kind::UpDown, "{request}",
        "in-flight requests", [];
    SHED "antiphon.requests.shed" Kind::Counter, "{request}",
        "requests that were rejected because too many were in flight", [];
    BEGUN "antiphon.runs.begun" Kind::Counter, "{run}",
        "runs that were started", ["mcp.method.name", "gen_ai.tool.name"];
    ENDED "antiphon.runs.ended" Kind::Counter, "{run}",
        "runs that ended: `completed`, `failed`, `cancelled`, `drifted` or `dead`",
        ["mcp.method.name", "gen_ai.tool.name", "antiphon.outcome", "error.type"];
    LEG "antiphon.leg.duration" Kind::Histogram(SHORT), "s",
        "duration of legs, by mode (`session`, `rounds`, `task`, `local`) and end (`asked`, `waits`, `retried`, `cleaned_up`, `lost`, `returned`, `failed`)",
        ["gen_ai.tool.name", "antiphon.way", "antiphon.ended"];
    ROUNDS "antiphon.rounds" Kind::Counter, "{round}",
        "responses that ask the client for input", ["gen_ai.tool.name"];
    ASKS "antiphon.asks" Kind::Counter, "{ask}",
        "questions that were sent, without repetitions. `provider` is a question to the server's model",
        ["mcp.method.name", "gen_ai.tool.name", "antiphon.way"];
    ANSWERS "antiphon.answers" Kind::Counter, "{answer}",
        "answers of users, by channel (`client`, `app`, `page`, `relay`) and outcome (`accept`, `decline`, `cancel`)",
        ["gen_ai.tool.name", "antiphon.channel", "antiphon.outcome"];
    ENTRIES "antiphon.entries" Kind::Counter, "{entry}",
        "new journal entries: `ask`, `step`, `fold`", ["antiphon.kind"];
    REPLAYED "antiphon.entries.replayed" Kind::Counter, "{entry}",
        "journal entries that were replayed", [];
    DRIFTS "antiphon.drifts" Kind::Counter, "{run}",
        "runs whose code does not match their journal (drift)", ["gen_ai.tool.name"];
    REFUSED "antiphon.seals.refused" Kind::Counter, "{seal}",
        "`requestState`s that were rejected, by reason", ["antiphon.reason"];
    SEAL "antiphon.seal.size" Kind::Histogram(BYTES), "By",
        "size of the `requestState`s that were sent to clients", [];
    LEASES "antiphon.leases" Kind::Counter, "{lease}",
        "jobs that a worker leased, by outcome: `done`, `later`, `lost` or `buried`",
        ["antiphon.outcome", "antiphon.redelivered"];
    WORKING "antiphon.leases.active" Kind::UpDown, "{lease}",
        "jobs that this process has leased", [];
    DEPTH "antiphon.queue.depth" Kind::Gauge, "{job}",
        "jobs in all shards: `waiting`, `leased` or `dead`. Every replica reports the same queue, so use the maximum, not the sum",
        ["antiphon.state"];
    UNREADABLE "antiphon.tasks.unreadable" Kind::Counter, "{record}",
        "task records that this replica could not read, by reason: `unknown_key`, `wrong_key`, `newer_format` or `damaged`",
        ["antiphon.reason"];
    REPAIRED "antiphon.tasks.repaired" Kind::Counter, "{run}",
        "runs whose job was missing from the queue and was queued again", ["mcp.method.name", "gen_ai.tool.name"];
    EXPIRED "antiphon.runs.expired" Kind::Counter, "{run}",
        "runs that ended because they waited for longer than `TaskConfig::with_max_wait`",
        ["mcp.method.name", "gen_ai.tool.name"];
    RESULT_BYTES "antiphon.results.served" Kind::Counter, "By",
        "bytes of rows that were read from result sets", ["antiphon.action"];
    RESULT_ROWS "antiphon.results.rows" Kind::Counter, "{row}",
        "rows that were read from result sets", ["antiphon.action"];
    RESULT_ACTIONS "antiphon.results.actions" Kind::Counter, "{action}",
        "actions on result sets, including rejected ones",
        ["antiphon.action", "error.type"];
}

/// The instruments of one server.
#[derive(Debug)]
pub(super) struct Instruments {
    pub(super) operation: Histogram<f64>,
    pub(super) requests: UpDownCounter<i64>,
    pub(super) shed: Counter<u64>,
    pub(super) begun: Counter<u64>,
    pub(super) ended: Counter<u64>,
    pub(super) leg: Histogram<f64>,
    pub(super) rounds: Counter<u64>,
    pub(super) asks: Counter<u64>,
    pub(super) answers: Counter<u64>,
    pub(super) entries: Counter<u64>,
    pub(super) replayed: Counter<u64>,
    pub(super) drifts: Counter<u64>,
    pub(super) refused: Counter<u64>,
    pub(super) seal: Histogram<f64>,
    pub(super) leases: Counter<u64>,
    pub(super) working: UpDownCounter<i64>,
    pub(super) depth: Gauge<u64>,
    pub(super) unreadable: Counter<u64>,
    pub(super) repaired: Counter<u64>,
    pub(super) expired: Counter<u64>,
    pub(super) result_bytes: Counter<u64>,
    pub(super) result_rows: Counter<u64>,
    pub(super) result_actions: Counter<u64>,
}

impl Instruments {
    pub(super) fn new(meter: &Meter) -> Self {
        let counter = |metric: &Metric| {
            meter.u64_counter(metric.name).with_unit(metric.unit).with_description(metric.what).build()
        };
        let up_down = |metric: &Metric| {
            meter
                .i64_up_down_counter(metric.name)
                .with_unit(metric.unit)
                .with_description(metric.what)
                .build()
        };
        let histogram = |metric: &Metric| {
            let built = meter.f64_histogram(metric.name).with_unit(metric.unit).with_description(metric.what);
            match metric.kind {
                Kind::Histogram(bounds) => built.with_boundaries(bounds.to_vec()).build(),
                Kind::Counter | Kind::UpDown | Kind::Gauge => built.build(),
            }
        };
        Self {
            operation: histogram(&OPERATION),
            requests: up_down(&REQUESTS),
            shed: counter(&SHED),
            begun: counter(&BEGUN),
            ended: counter(&ENDED),
            leg: histogram(&LEG),
            rounds: counter(&ROUNDS),
            asks: counter(&ASKS),
            answers: counter(&ANSWERS),
            entries: counter(&ENTRIES),
            replayed: counter(&REPLAYED),
            drifts: counter(&DRIFTS),
            refused: counter(&REFUSED),
            seal: histogram(&SEAL),
            leases: counter(&LEASES),
            working: up_down(&WORKING),
            depth: meter.u64_gauge(DEPTH.name).with_unit(DEPTH.unit).with_description(DEPTH.what).build(),
            unreadable: counter(&UNREADABLE),
            repaired: counter(&REPAIRED),
            expired: counter(&EXPIRED),
            result_bytes: counter(&RESULT_BYTES),
            result_rows: counter(&RESULT_ROWS),
            result_actions: counter(&RESULT_ACTIONS),
        }
    }
}

/// The label values with which metrics report the outcome of a run.
impl Outcome {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
            Self::Drifted => "drifted",
            Self::Dead => "dead",
        }
    }

    pub(super) fn error(self) -> Option<&'static str> {
        match self {
            Self::Completed => None,
            Self::Failed(kind) => Some(kind),
            Self::Cancelled => Some("cancelled"),
            Self::Drifted => Some("drift"),
            Self::Dead => Some("dead"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");

    /// Returns the name of a metric in Prometheus format.
    fn scraped(name: &str, kind: Kind, unit: &str) -> String {
        let unit = match unit {
            "s" => "_seconds",
            "By" => "_bytes",
            _ => "",
        };
        let total = if kind == Kind::Counter { "_total" } else { "" };
        format!("{}{unit}{total}", name.replace('.', "_"))
    }

    fn row(text: &mut String, metric: &Metric) {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::UpDown => "up and down",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let by: Vec<String> = metric.by.iter().map(|label| format!("`{label}`")).collect();
        writeln!(
            text,
            "| `{}` | `{}` | {kind} | {} | {} | {} |",
            metric.name,
            scraped(metric.name, metric.kind, metric.unit),
            metric.unit,
            metric.what,
            by.join(", ")
        )
        .unwrap();
    }

    /// Returns the table of metrics for the reference documentation.
    fn table() -> String {
        let mut text = String::from(
            "| metric | name in Prometheus | kind | unit | description | labels |\n|---|---|---|---|---|---|\n",
        );
        for metric in ALL {
            row(&mut text, metric);
        }
        let duration = Metric {
            name: antiphon_llm::OPERATION_DURATION,
            kind: Kind::Histogram(&[]),
            unit: "s",
            what: "duration of requests to models",
            by: &["gen_ai.operation.name", "gen_ai.request.model", "error.type"],
        };
        let tokens = Metric {
            name: antiphon_llm::TOKEN_USAGE,
            kind: Kind::Histogram(&[]),
            unit: "{token}",
            what: "number of tokens in requests and replies",
            by: &["gen_ai.operation.name", "gen_ai.request.model", "gen_ai.token.type"],
        };
        row(&mut text, &duration);
        row(&mut text, &tokens);
        text
    }

    #[test]
    fn reference_has_every_metric_as_the_code_has_it() {
        let reference = std::fs::read_to_string(REFERENCE).unwrap();
        assert!(reference.contains(&table()), "put this into docs/reference/metrics.md:\n\n{}", table());
    }

    #[test]
    fn no_metric_has_another_s_name() {
        let mut names: Vec<_> = ALL.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}

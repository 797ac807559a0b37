//! What is checked in for operators fits what the server tells.

use std::collections::BTreeSet;

use serde_json::Value;

const REFERENCE: &str = include_str!("../../../../../docs/reference/metrics.md");
const DASHBOARD: &str = include_str!("../../../../../deploy/grafana/antiphon.json");
const ALERTS: &str = include_str!("../../../../../deploy/prometheus/alerts.yml");
const DEPLOYMENT: &str = include_str!("../../../../../deploy/kubernetes/deployment.yaml");
const SERVICE: &str = include_str!("../../../../../deploy/kubernetes/service.yaml");

/// The rows of the reference's first table: what Prometheus calls a metric, and by which labels it is told.
fn metrics() -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut names, mut labels) = (BTreeSet::new(), BTreeSet::new());
    for line in REFERENCE.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, scraped, kind, _, _, by, _] = cells[..] else { continue };
        let scraped = scraped.trim_matches('`').to_owned();
        if kind == "histogram" {
            names.extend(["_bucket", "_sum", "_count"].map(|part| format!("{scraped}{part}")));
        } else {
            names.insert(scraped);
        }
        labels.extend(by.split(", ").map(|label| label.trim_matches('`').replace('.', "_")));
    }
    (names, labels)
}

/// The words of a query that look like ours.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    words.filter(|word| ["antiphon_", "mcp_", "gen_ai_"].iter().any(|ours| word.starts_with(ours)))
}

/// Every query of the dashboard.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("expr" | "query", Value::String(query)) => found.push(query.clone()),
                    _ => queries(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        _ => {}
    }
}

#[test]
fn dashboard_and_alerts_ask_for_what_there_is() {
    let (names, labels) = metrics();
    assert!(names.len() > 20, "{names:?}");
    let mut asked = Vec::new();
    queries(&serde_json::from_str(DASHBOARD).unwrap(), &mut asked);
    assert!(asked.len() > 25, "{asked:?}");
    for word in asked.iter().flat_map(|query| words(query)).chain(words(ALERTS)) {
        assert!(names.contains(word) || labels.contains(word), "`{word}` is neither a metric nor a label");
    }
}

#[test]
fn every_figure_is_on_the_dashboard() {
    let (names, _) = metrics();
    let mut asked = Vec::new();
    queries(&serde_json::from_str(DASHBOARD).unwrap(), &mut asked);
    let asked: BTreeSet<&str> = asked.iter().flat_map(|query| words(query)).collect();
    let base = |name: &str| {
        ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part)).map(str::to_owned)
    };
    for name in &names {
        let shown = asked
            .iter()
            .any(|word| *word == name.as_str() || (base(name).is_some() && base(word) == base(name)));
        assert!(shown, "nobody looks at `{name}`");
    }
}

#[test]
fn three_replicas_are_rolled_one_by_one_probed_and_stuck_to_by_nobody() {
    for promise in [
        "replicas: 3",
        "maxSurge: 1, maxUnavailable: 0",
        "readinessProbe:\n            httpGet: { path: /readyz, port: health }",
        "livenessProbe:\n            httpGet: { path: /livez, port: health }",
        "prometheus.io/path: /metrics",
        "preStop:",
    ] {
        assert!(DEPLOYMENT.contains(promise), "{promise}");
    }
    assert!(SERVICE.contains("sessionAffinity: None"));
}

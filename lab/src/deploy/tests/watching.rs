//! Dashboard and alerts: every figure they ask for is told, by the labels they ask it by.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{text, yaml};

/// Labels that the scraper adds, or histograms have.
const ANYBODYS: [&str; 3] = ["instance", "job", "le"];

/// What Prometheus calls each metric of the reference, and its labels.
fn metrics() -> BTreeMap<String, BTreeSet<String>> {
    let mut metrics = BTreeMap::new();
    for line in text("docs/reference/metrics.md").lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, scraped, kind, _, _, by, _] = cells[..] else { continue };
        let labels: BTreeSet<String> = by
            .split(", ")
            .map(|label| label.trim_matches('`').replace('.', "_"))
            .chain(ANYBODYS.map(Into::into))
            .collect();
        let parts: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        for part in parts {
            metrics.insert(format!("{}{part}", scraped.trim_matches('`')), labels.clone());
        }
    }
    assert!(metrics.len() > 20, "{metrics:?}");
    metrics
}

/// Every query, by what asks it.
fn queries() -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(&serde_json::from_str(&text("deploy/grafana/antiphon.json")).unwrap(), "dashboard", &mut found);
    for rule in yaml("deploy/prometheus/alerts.yml")["groups"][0]["rules"].as_vec().unwrap() {
        found.push((rule["alert"].as_str().unwrap().into(), rule["expr"].as_str().unwrap().into()));
    }
    assert!(found.len() > 35, "{found:?}");
    found
}

fn collect(value: &Value, title: &str, found: &mut Vec<(String, String)>) {
    let title = value["title"].as_str().unwrap_or(title);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("expr", Value::String(query)) => found.push((title.into(), query.clone())),
                    _ => collect(value, title, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, title, found)),
        _ => {}
    }
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Each metric of ours in a query, with the labels and values in its braces.
fn selectors(query: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(is_name) {
        let from = &rest[start..];
        let end = from.find(|it| !is_name(it)).unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        rest = after;
        // A label in `by (…)` has no braces, and looks like a metric otherwise.
        if !["antiphon_", "mcp_", "gen_ai_"].iter().any(|ours| name.starts_with(ours)) {
            continue;
        }
        let mut labels = Vec::new();
        if let Some(inside) = after.strip_prefix('{').and_then(|it| it.split_once('}')) {
            labels = inside.0.split(',').filter_map(matcher).collect();
            rest = inside.1;
        }
        found.push((name.to_owned(), labels));
    }
    found
}

/// `label=~"value"`.
fn matcher(text: &str) -> Option<(String, String)> {
    let (label, value) = text.split_once(['=', '!'])?;
    Some((label.trim().into(), value.trim_start_matches(['=', '~']).trim_matches('"').into()))
}

/// The labels of every `by (…)`.
fn groupings(query: &str) -> Vec<&str> {
    let lists = query.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    lists.flat_map(|list| list.split(',')).map(str::trim).collect()
}

#[test]
fn a_query_is_taken_apart_into_metrics_and_labels() {
    let query = r#"max by (le, antiphon_way) (rate(antiphon_leg_seconds_bucket{job=~"$job",antiphon_way="rounds"}[5m]))"#;
    assert_eq!(groupings(query), ["le", "antiphon_way"]);
    let found = selectors(query);
    assert_eq!(found[0], ("antiphon_way".into(), vec![]));
    let labels = vec![("job".into(), "$job".into()), ("antiphon_way".into(), "rounds".into())];
    assert_eq!(found[1], ("antiphon_leg_seconds_bucket".into(), labels));
    assert_eq!(matcher(r#"error_type!="""#), Some(("error_type".into(), String::new())));
}

#[test]
fn every_query_asks_for_metrics_that_are_told_by_labels_that_they_have() {
    let metrics = metrics();
    let reference = text("docs/reference/metrics.md");
    for (who, query) in queries() {
        let groupings = groupings(&query);
        let mut asked = Vec::new();
        for (name, matched) in selectors(&query).into_iter().filter(|it| !groupings.contains(&it.0.as_str()))
        {
            let labels = metrics.get(&name).unwrap_or_else(|| panic!("{who}: nobody tells `{name}`"));
            for (label, value) in matched {
                assert!(labels.contains(&label), "{who}: `{name}` has no label `{label}`");
                // Values of our own labels are listed; a pattern lists several.
                let values = value.split('|').filter(|_| label.starts_with("antiphon_"));
                for value in values {
                    assert!(reference.contains(&format!("`{value}`")), "{who}: `{label}` is never `{value}`");
                }
            }
            asked.push(labels);
        }
        // An alert about `up` asks for nothing of ours.
        for label in groupings.into_iter().filter(|_| !asked.is_empty()) {
            assert!(asked.iter().all(|labels| labels.contains(label)), "{who}: nothing is told by `{label}`");
        }
    }
}

#[test]
fn dashboard_shows_every_metric_of_the_reference() {
    let dashboard = text("deploy/grafana/antiphon.json");
    for name in metrics().keys() {
        let name =
            ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        assert!(dashboard.contains(name), "no panel shows `{name}`");
    }
}

#[test]
fn every_alert_has_a_name_of_its_own_and_says_what_to_do() {
    let alerts = yaml("deploy/prometheus/alerts.yml");
    let mut names = BTreeSet::new();
    for rule in alerts["groups"][0]["rules"].as_vec().unwrap() {
        let name = rule["alert"].as_str().unwrap();
        assert!(names.insert(name), "{name} is there twice");
        for said in ["summary", "description"] {
            assert!(rule["annotations"][said].as_str().is_some_and(|it| !it.is_empty()), "{name}: {said}");
        }
        let severity = rule["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("warning" | "critical")), "{name}: {severity:?}");
    }
    let rules = super::strings(&yaml("deploy/prometheus/prometheus.yml")["rule_files"]).join(" ");
    assert_eq!(rules, "alerts.yml");
}

//! Figures: each thing counts once, however often it is replayed.

use std::{ops::ControlFlow, time::Duration};

use antiphon::{
    Limits, ToolOutput,
    prelude::*,
    seal::{KeyRing, SealConfig},
    task::{TaskConfig, TaskPolicy},
    telemetry::{Prometheus, Telemetry},
    testing::{Answers, Client, Replicas, Revision},
};
use antiphon_llm::{Reply, Scripted, Usage};
use antiphon_store::{Memory, QueueConfig};
use serde_json::json;

use super::{builder, keep, secrets};
use crate::tasks::{accept, answer, begin, everything, quick, until};

/// The sum of all figures of this name with all these labels.
pub(super) fn figure(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let mut lines = text.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|(key, value)| line.contains(&format!("{key}=\"{value}\"")))
    });
    let values = lines.by_ref().map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
    values.sum()
}

/// A metric by its name and labels, and what it says.
type Figure<'a> = (&'a str, &'a [(&'a str, &'a str)], f64);

#[track_caller]
pub(super) fn check(text: &str, expected: &[Figure<'_>]) {
    for (name, labels, value) in expected {
        let found = figure(text, name, labels);
        assert!((found - value).abs() < 1e-9, "{name} {labels:?} is {found}, not {value}:\n{text}");
    }
}

#[tokio::test]
async fn a_run_of_three_rounds_counts_once_and_so_does_each_of_its_entries() {
    let prometheus = Prometheus::new("told").unwrap();
    let server = builder(&KeyRing::random(), TaskPolicy::Never)
        .with_telemetry(Telemetry::new(&prometheus))
        .build()
        .unwrap();
    let mut client = Client::connect(&server, Revision::V2026_07_28).await.unwrap().with_answers(secrets());
    client.call("keep", json!({"given": "x"})).await.unwrap();
    let of_keep: &[(&str, &str)] = &[("gen_ai_tool_name", "keep")];
    check(
        &prometheus.text(),
        &[
            ("antiphon_runs_begun_total", of_keep, 1.0),
            (
                "antiphon_runs_ended_total",
                &[("gen_ai_tool_name", "keep"), ("antiphon_outcome", "completed")],
                1.0,
            ),
            ("antiphon_rounds_total", of_keep, 2.0),
            (
                "antiphon_asks_total",
                &[("mcp_method_name", "elicitation/create"), ("antiphon_way", "rounds")],
                2.0,
            ),
            ("antiphon_entries_total", &[("antiphon_kind", "step")], 1.0),
            ("antiphon_entries_total", &[("antiphon_kind", "ask")], 2.0),
            ("antiphon_entries_replayed_total", &[], 3.0),
            ("antiphon_leg_duration_seconds_count", &[("antiphon_way", "rounds")], 3.0),
            ("antiphon_seal_size_bytes_count", &[], 2.0),
            ("antiphon_requests_active", &[], 0.0),
            ("mcp_server_operation_duration_seconds_count", &[("mcp_method_name", "tools/call")], 3.0),
            ("antiphon_drifts_total", &[], 0.0),
        ],
    );
}

#[tokio::test]
async fn a_run_on_many_replicas_on_a_bad_day_has_one_first_step_a_run() {
    let prometheus = Prometheus::new("told").unwrap();
    let told = prometheus.clone();
    let replicas = Replicas::new(move || {
        Server::builder("told", "1.0.0")
            .tool(Tool::new("keep", "Keeps two secrets", keep))
            .with_telemetry(Telemetry::new(&told))
    });
    // The first schedule is an ordinary day: nothing is sent twice, so nothing may count twice.
    let report = replicas.schedules(1).run("keep", json!({"given": "x"}), secrets).await.unwrap();
    assert_eq!(report.replicas, 3);
    check(
        &prometheus.text(),
        &[
            ("antiphon_runs_begun_total", &[], 1.0),
            ("antiphon_runs_ended_total", &[], 1.0),
            ("antiphon_entries_total", &[("antiphon_kind", "step")], 1.0),
            ("antiphon_entries_total", &[("antiphon_kind", "ask")], 2.0),
        ],
    );
}

/// Says that it returns a word, and returns none.
async fn wordless(_: &Ctx, _: ()) -> Result<ToolOutput> {
    Ok(ToolOutput::default().with_structured(json!({})))
}

#[tokio::test]
async fn an_output_that_does_not_fit_its_schema_counts_as_a_failure() {
    let prometheus = Prometheus::new("told").unwrap();
    let schema = json!({"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]});
    let tool = || Tool::new("wordless", "Returns no word", wordless).with_output_schema(schema.clone());
    let server = Server::builder("told", "1.0.0")
        .tool(tool())
        .with_telemetry(Telemetry::new(&prometheus))
        .build()
        .unwrap();
    let mut client = Client::connect(&server, Revision::V2026_07_28).await.unwrap();
    assert!(client.call("wordless", json!({})).await.unwrap().is_error());
    let labels = &[("gen_ai_tool_name", "wordless"), ("antiphon_outcome", "failed")];
    check(&prometheus.text(), &[("antiphon_runs_ended_total", labels, 1.0)]);
}

#[tokio::test]
async fn a_question_that_stays_out_counts_once() {
    let prometheus = Prometheus::new("told").unwrap();
    let server = builder(&KeyRing::random(), TaskPolicy::Never)
        .with_telemetry(Telemetry::new(&prometheus))
        .build()
        .unwrap();
    let mut client = Client::connect(&server, Revision::V2026_07_28).await.unwrap();
    let mut request = json!({"name": "keep", "arguments": {"given": "x"}});
    for _ in 0..3 {
        // It is asked, and comes back without an answer.
        let asked = client.request("tools/call", request.clone()).await.unwrap();
        request["requestState"] = asked["requestState"].clone();
    }
    check(
        &prometheus.text(),
        &[
            ("antiphon_asks_total", &[], 1.0),
            ("antiphon_rounds_total", &[], 3.0),
            ("antiphon_runs_begun_total", &[], 1.0),
        ],
    );
}

#[derive(Deserialize, JsonSchema)]
struct Turn {
    go_on: bool,
}

async fn game(ctx: &Ctx, _: ()) -> Result<String> {
    let turns = ctx.loop_with_state("turns", 0_u32, async |ctx, turns| {
        let Turn { go_on } = ctx.elicit::<Turn>("Go on?").key("turn").await?.accepted()?;
        Ok(if go_on { ControlFlow::Continue(turns + 1) } else { ControlFlow::Break(turns) })
    });
    Ok(turns.await?.to_string())
}

#[tokio::test]
async fn each_turn_of_a_loop_counts_its_question_though_they_share_a_key() {
    let prometheus = Prometheus::new("told").unwrap();
    let server = Server::builder("told", "1.0.0")
        .tool(Tool::new("game", "Goes on", game))
        .with_telemetry(Telemetry::new(&prometheus))
        .build()
        .unwrap();
    let mut left = 3;
    let answers = Answers::new().otherwise(move |_| {
        left -= 1;
        Some(accept(json!({"go_on": left > 0})))
    });
    let mut client = Client::connect(&server, Revision::V2026_07_28).await.unwrap().with_answers(answers);
    assert_eq!(client.call("game", json!({})).await.unwrap().rounds, 3);
    check(
        &prometheus.text(),
        &[
            ("antiphon_asks_total", &[], 3.0),
            ("antiphon_entries_total", &[("antiphon_kind", "ask")], 3.0),
            ("antiphon_entries_total", &[("antiphon_kind", "fold")], 2.0),
        ],
    );
}

#[tokio::test]
async fn a_seal_that_is_refused_counts_by_its_reason() {
    let prometheus = Prometheus::new("told").unwrap();
    let server = builder(&KeyRing::random(), TaskPolicy::Never)
        .with_telemetry(Telemetry::new(&prometheus))
        .build()
        .unwrap();
    let mut client = Client::connect(&server, Revision::V2026_07_28).await.unwrap();
    let mut request = json!({"name": "keep", "arguments": {"given": "x"}});
    let asked = client.request("tools/call", request.clone()).await.unwrap();
    request["requestState"] = "AAAA".into();
    client.request("tools/call", request.clone()).await.unwrap_err();
    request["requestState"] = asked["requestState"].clone();
    request["arguments"]["given"] = "another".into();
    client.request("tools/call", request).await.unwrap_err();
    check(
        &prometheus.text(),
        &[
            ("antiphon_seals_refused_total", &[("antiphon_reason", "malformed")], 1.0),
            ("antiphon_seals_refused_total", &[("antiphon_reason", "forged")], 1.0),
            (
                "mcp_server_operation_duration_seconds_count",
                &[("error_type", "-32602"), ("rpc_response_status_code", "-32602")],
                2.0,
            ),
        ],
    );
}

#[tokio::test]
async fn drift_counts_with_its_tool() {
    let prometheus = Prometheus::new("told").unwrap();
    let keys = KeyRing::random();
    let server = |text: &'static str| {
        let tool = Tool::new("keep", "Keeps", async move |ctx: &Ctx, _: ()| -> Result<String> {
            ctx.step(text, || async { Ok(1) }).await?;
            Ok(ctx.elicit::<Turn>("Go on?").key("turn").await?.accepted()?.go_on.to_string())
        });
        let seal = SealConfig::default().with_keys(keys.clone());
        let builder = Server::builder("told", "1.0.0").tool(tool).with_seal(seal);
        builder.with_telemetry(Telemetry::new(&prometheus)).build().unwrap()
    };
    let mut client = Client::connect(&server("before"), Revision::V2026_07_28).await.unwrap();
    let mut request = json!({"name": "keep", "arguments": {}});
    let asked = client.request("tools/call", request.clone()).await.unwrap();
    request["requestState"] = asked["requestState"].clone();
    request["inputResponses"] = json!({"turn": accept(json!({"go_on": true}))});
    let mut client = Client::connect(&server("after"), Revision::V2026_07_28).await.unwrap();
    let answer = client.request("tools/call", request).await.unwrap();
    assert_eq!(answer["isError"], true, "{answer}");
    check(
        &prometheus.text(),
        &[
            ("antiphon_drifts_total", &[("gen_ai_tool_name", "keep")], 1.0),
            ("antiphon_runs_ended_total", &[("antiphon_outcome", "drifted")], 1.0),
        ],
    );
}

#[tokio::test]
async fn a_task_counts_once_over_its_legs_and_so_do_leases_and_the_queue() {
    let prometheus = Prometheus::new("told").unwrap();
    let backend = Memory::default().backend(QueueConfig::default());
    let keys = KeyRing::random();
    let replica = |config: TaskConfig| {
        builder(&keys, TaskPolicy::Always)
            .with_backend(backend.clone())
            .with_tasks(config)
            .with_telemetry(Telemetry::new(&prometheus))
            .build()
            .unwrap()
    };
    let (front, worker) = (replica(quick().with_workers(0)), replica(quick()));
    tokio::spawn(async move { worker.run_workers(std::future::pending()).await });
    let mut client = Client::connect_with(&front, Revision::V2026_07_28, everything()).await.unwrap();
    let task = begin(&mut client, "keep", json!({"given": "x"})).await;
    for key in ["first", "second"] {
        until(&mut client, &task, "input_required").await;
        answer(&mut client, &task, json!({key: accept(json!({"secret": "s"}))})).await;
    }
    until(&mut client, &task, "completed").await;
    // The last leg is told of when its job is done, which is after its result is there to see.
    for _ in 0..200 {
        if figure(&prometheus.text(), "antiphon_leases_total", &[("antiphon_outcome", "done")]) >= 3.0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let text = prometheus.text();
    check(
        &text,
        &[
            ("antiphon_runs_begun_total", &[("gen_ai_tool_name", "keep")], 1.0),
            ("antiphon_runs_ended_total", &[("antiphon_outcome", "completed")], 1.0),
            ("antiphon_leg_duration_seconds_count", &[("antiphon_way", "task")], 3.0),
            ("antiphon_asks_total", &[("antiphon_way", "task")], 2.0),
            ("antiphon_entries_total", &[("antiphon_kind", "step")], 1.0),
            (
                "antiphon_leases_total",
                &[("antiphon_outcome", "done"), ("antiphon_redelivered", "false")],
                3.0,
            ),
            ("antiphon_leases_active", &[], 0.0),
        ],
    );
    for state in ["waiting", "leased", "dead"] {
        assert!(text.contains(&format!("antiphon_queue_depth{{antiphon_state=\"{state}\"}}")), "{text}");
    }
}

#[tokio::test]
async fn a_task_that_is_cancelled_counts_as_that_and_as_nothing_else() {
    let prometheus = Prometheus::new("told").unwrap();
    let server = builder(&KeyRing::random(), TaskPolicy::Always)
        .with_tasks(quick())
        .with_telemetry(Telemetry::new(&prometheus))
        .build()
        .unwrap();
    let mut client = Client::connect_with(&server, Revision::V2026_07_28, everything()).await.unwrap();
    let task = begin(&mut client, "keep", json!({"given": "x"})).await;
    until(&mut client, &task, "input_required").await;
    client.request("tasks/cancel", json!({"taskId": task})).await.unwrap();
    for _ in 0..200 {
        if figure(
            &prometheus.text(),
            "antiphon_leg_duration_seconds_count",
            &[("antiphon_ended", "cleaned_up")],
        ) > 0.0
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    check(
        &prometheus.text(),
        &[
            ("antiphon_runs_ended_total", &[("antiphon_outcome", "cancelled")], 1.0),
            ("antiphon_runs_ended_total", &[], 1.0),
            ("antiphon_leg_duration_seconds_count", &[("antiphon_ended", "cleaned_up")], 1.0),
        ],
    );
}

async fn waits(_: &Ctx, _: ()) -> Result<String> {
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    Ok("done".into())
}

#[tokio::test]
async fn what_there_is_no_place_for_counts_as_shed() {
    let prometheus = Prometheus::new("told").unwrap();
    let server = Server::builder("told", "1.0.0")
        .tool(Tool::new("waits", "Waits", waits))
        .with_limits(Limits::default().with_in_flight(1))
        .with_telemetry(Telemetry::new(&prometheus))
        .build()
        .unwrap();
    let mut client = Client::connect(&server, Revision::V2026_07_28).await.unwrap();
    client.start("tools/call", json!({"name": "waits", "arguments": {}})).await.unwrap();
    client.request("tools/call", json!({"name": "waits", "arguments": {}})).await.unwrap_err();
    check(
        &prometheus.text(),
        &[("antiphon_requests_shed_total", &[], 1.0), ("antiphon_requests_active", &[], 1.0)],
    );
}

async fn muse(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.sample("What is the sky?").await?.text().clone())
}

#[tokio::test]
async fn tokens_count_where_a_model_of_the_servers_is_asked() {
    let prometheus = Prometheus::new("told").unwrap();
    let usage = Usage { input_tokens: 30, output_tokens: 20 };
    let server = Server::builder("told", "1.0.0")
        .tool(Tool::new("muse", "Muses", muse))
        .with_model(Scripted::new().otherwise(move |_| Ok(Reply::new("sky-1", "blue").with_usage(usage))))
        .with_telemetry(Telemetry::new(&prometheus))
        .build()
        .unwrap();
    let mut client = Client::connect_with(&server, Revision::V2026_07_28, json!({})).await.unwrap();
    client.call("muse", json!({})).await.unwrap();
    check(
        &prometheus.text(),
        &[
            ("gen_ai_client_token_usage_sum", &[("gen_ai_token_type", "input")], 30.0),
            ("gen_ai_client_token_usage_sum", &[("gen_ai_token_type", "output")], 20.0),
            ("gen_ai_client_operation_duration_seconds_count", &[], 1.0),
            ("antiphon_asks_total", &[("antiphon_way", "provider")], 1.0),
        ],
    );
}

#[tokio::test]
async fn a_tool_that_a_client_made_up_is_no_label() {
    let prometheus = Prometheus::new("told").unwrap();
    let server = builder(&KeyRing::random(), TaskPolicy::Never)
        .with_telemetry(Telemetry::new(&prometheus))
        .build()
        .unwrap();
    let mut client = Client::connect(&server, Revision::V2026_07_28).await.unwrap();
    for name in ["made-up-1", "made-up-2"] {
        client.request("tools/call", json!({"name": name, "arguments": {}})).await.unwrap_err();
        let _ = client.request(name, json!({})).await;
    }
    assert!(!prometheus.text().contains("made-up"), "{}", prometheus.text());
}

#[tokio::test]
async fn call_with_invalid_arguments_begins_no_run() {
    let prometheus = Prometheus::new("told").unwrap();
    let server = builder(&KeyRing::random(), TaskPolicy::Never)
        .with_telemetry(Telemetry::new(&prometheus))
        .build()
        .unwrap();
    for revision in Revision::BOTH {
        let mut client = Client::connect(&server, revision).await.unwrap();
        let talk = client.call("keep", json!({"given": 7})).await.unwrap();
        assert!(talk.is_error(), "{}", talk.text());
    }
    check(
        &prometheus.text(),
        &[("antiphon_runs_begun_total", &[], 0.0), ("antiphon_runs_ended_total", &[], 0.0)],
    );
}

#[derive(Clone)]
struct User {
    id: String,
}

async fn render(_: &Ctx, _: ()) -> Result<String> {
    Ok(String::new())
}

// ANCHOR: limits
use std::time::Duration;

use antiphon::{
    Limits, ServerBuilder,
    limits::{Quota, Rate},
    prelude::*,
    sampling::Budget,
};

fn reports() -> ServerBuilder {
    let each_caller = Quota::default()
        .with_rate(Rate::per_second(20).with_burst(50)) // requests
        .with_concurrent(16) // calls, including those that wait for users
        .with_bytes(Rate::per_minute(50_000_000)); // arguments and answers

    let limits = Limits::default()
        .with_principal(each_caller)
        .with_tool(Quota::default().with_concurrent(64)) // each tool, all callers together
        .with_model(Budget::per(Duration::from_secs(3600)).with_max_tokens(200_000))
        .with_in_flight(512)
        .with_queue(100, Duration::from_millis(500));

    Server::builder("reports", "1.0.0")
        .with_limits(limits)
        .with_principal(|parts| parts.extensions.get::<User>().map(|user| user.id.clone()))
        .tool(Tool::new("render", "Renders a report", render).with_quota(Quota::default().with_concurrent(4)))
}
// ANCHOR_END: limits

//! One call, one answer.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::soak::caller::Caller;
use crate::soak::tally::Failure;

pub(super) fn greet(caller: &Caller<'_>) -> Result<(), Failure> {
    let name = format!("guest-{}", caller.world.number());
    call(caller, "greet", &json!({ "name": name }), &format!("Hello, {name}!"))
}

pub(super) fn advise(caller: &Caller<'_>) -> Result<(), Failure> {
    let question = format!("What of {}?", caller.world.number());
    call(caller, "advise", &json!({ "question": question }), &format!("It depends: {question}"))
}

fn call(caller: &Caller<'_>, tool: &str, arguments: &Value, expected: &str) -> Result<(), Failure> {
    Ok(is(&caller.call(tool, arguments)?, expected)?)
}

fn is(result: &Value, expected: &str) -> anyhow::Result<()> {
    let text = &result["content"][0]["text"];
    ensure!(text == expected, "the text is {text}, not `{expected}`");
    Ok(())
}

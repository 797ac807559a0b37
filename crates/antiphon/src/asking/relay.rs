//! Relayed answers: the user answers a question in the chat, and the model passes the answer to the tool `task_answer`.
//!
//! The server cannot verify that the model asked the user. So both the tool (`Elicit::relayed`) and the operator
//! (`AskPolicy::with_relay`) must allow relayed answers. In addition, the model can relay an answer only if the user
//! cannot answer through any other channel.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Caller,
    form::{Response, misfits},
    no_task, stored_id,
};
use crate::{
    ctx::Ctx,
    error::{Error, Result},
    model::ToolAnnotations,
    run::{Channel, channels::allows_relay},
    task::{Delivered, TaskView},
    tool::{TaskPolicy, Tool, ToolOutput, Visibility},
};

const ANSWER: &str = "Delivers the user's answer to a tool call that has not finished. Call it only if a NOT FINISHED answer says so, and after the user has answered in the chat. Never answer for the user.";

/// The `_meta` key of a tool for which Claude Code must ask the user before each call.
const APPROVAL_META: &str = "anthropic/requiresUserInteraction";

/// How long `task_answer` waits after an answer until the run ends or asks the next question.
const PATIENCE: Duration = Duration::from_secs(8);

/// The maximum duration of a call of `task_answer`.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Relayed {
    /// The task: its ID from an earlier answer, like t_….
    id: String,
    /// The answers of the user, by question.
    answers: BTreeMap<String, Response>,
}

/// Returns the tool `task_answer`, with which models relay answers.
pub(super) fn tool(visibility: Visibility) -> Tool {
    let annotations = ToolAnnotations::with_title("Relay an answer of the user");
    Tool::new("task_answer", ANSWER, task_answer)
        // Because of these annotations, hosts show the arguments of a call to the user before the call.
        .with_annotations(annotations.read_only(false).destructive(true).idempotent(false).open_world(false))
        .with_meta(APPROVAL_META, true)
        .with_timeout(TIMEOUT)
        .with_tasks(TaskPolicy::Never)
        .visible_to(visibility)
}

async fn task_answer(ctx: &Ctx, Relayed { id, answers }: Relayed) -> Result<ToolOutput> {
    let caller = Caller::of(ctx)?;
    let id = stored_id(&id);
    let mut view = caller.task(id).await?;
    caller.narrow(&mut view);
    let questions: BTreeSet<String> = answers.keys().cloned().collect();
    check(&view, &questions)?;
    let answers: BTreeMap<String, Value> =
        answers.into_iter().map(|(key, response)| (key, response.into_answer())).collect();
    let problems = misfits(&view, &answers);
    if !problems.is_empty() {
        return Err(misfit(&problems));
    }
    match caller.deliver(id, answers, Channel::Relay).await? {
        None => Err(no_task()),
        // The error is the same for a repetition of the user's answer and for a different answer. With two different
        // errors, a model could find out the user's answer by trying several answers.
        Some(Delivered::Repeated(_) | Delivered::Used) => Err(closed()),
        Some(Delivered::Taken(view)) => {
            let view = caller.settled(view, &questions, PATIENCE).await?.ok_or_else(no_task)?;
            Ok(caller.next_step(view))
        }
    }
}

/// Checks whether the model is allowed to relay answers to `questions`. `view` contains the channels that the client of
/// this call supports.
fn check(view: &TaskView, questions: &BTreeSet<String>) -> Result<()> {
    if questions.is_empty() || !questions.iter().all(|key| view.asks.contains_key(key)) {
        return Err(closed());
    }
    let allows = |key: &String| view.asks.get(key).is_some_and(allows_relay);
    // If the client does not read the task with `task_result`, the server sends the questions directly to the client.
    if !view.is_read_with_a_tool || !questions.iter().all(allows) {
        return Err(Error::tool(
            "the answer to this question cannot be relayed: only the user can answer it; call `task_result` for the next step",
        )
        .terminal());
    }
    if view.channels.any() {
        return Err(Error::tool(
            "the answer was not relayed: the user can answer this question in a form; call `task_result` for the next step",
        )
        .terminal());
    }
    Ok(())
}

fn closed() -> Error {
    Error::tool(
        "the question is not open: it was answered, has expired, or has another key; call `task_result` for the next step",
    )
    .terminal()
}

/// Returns the error for answers that do not match the form. The questions stay open after this error.
fn misfit(problems: &Map<String, Value>) -> Error {
    let lines: Vec<String> = problems
        .iter()
        .flat_map(|(key, fields)| {
            let fields = fields.as_object().into_iter().flatten();
            fields.map(move |(field, problem)| {
                let place = if field.is_empty() { format!("`{key}`") } else { format!("`{key}.{field}`") };
                format!("{place} {}", problem.as_str().unwrap_or_default())
            })
        })
        .collect();
    Error::tool(format!(
        "the answer does not match the form: {}; ask the user again, and call `task_answer` with the corrected answer",
        lines.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{asking::waiting::tests::waits, run::Channels};

    fn relayed() -> TaskView {
        let mut view = waits("Which colour?", Channels::default());
        let request = view.asks.get_mut("approval").unwrap();
        request["params"]["_meta"] = json!({"antiphon/relay": true});
        view
    }

    fn text(view: &TaskView, keys: &[&str]) -> Option<String> {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        check(view, &keys).err().map(|error| error.to_string())
    }

    #[test]
    fn relay_needs_an_open_question_that_allows_it_and_no_other_channel() {
        assert_eq!(text(&relayed(), &["approval"]), None);
        let unknown: [&[&str]; 3] = [&[], &["approval@2"], &["approval", "other"]];
        for keys in unknown {
            assert!(text(&relayed(), keys).unwrap().starts_with("the question is not open: "), "{keys:?}");
        }
        let plain = waits("Which colour?", Channels::default());
        let followed = TaskView { is_read_with_a_tool: false, ..relayed() };
        for view in [plain, followed] {
            let text = text(&view, &["approval"]).unwrap();
            assert!(text.starts_with("the answer to this question cannot be relayed: "), "{text}");
        }
        let none = Channels::default();
        for channels in [
            Channels { app: true, ..none },
            Channels { page: true, ..none },
            Channels { client: true, ..none },
        ] {
            let text = text(&TaskView { channels, ..relayed() }, &["approval"]).unwrap();
            assert!(text.starts_with("the answer was not relayed: "), "{channels:?}: {text}");
        }
    }

    #[test]
    fn problems_of_an_answer_name_question_and_field() {
        let problems = json!({"approval": {"": "has too many fields", "desk": "is required"}});
        let text = misfit(problems.as_object().unwrap()).to_string();
        let expected = "the answer does not match the form: `approval` has too many fields, `approval.desk` is required; ask";
        assert!(text.starts_with(expected), "{text}");
    }
}

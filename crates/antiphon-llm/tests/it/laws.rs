//! The laws of `Model`, kept by every provider that can be served here, and by a scripted one.

use std::sync::Arc;

use antiphon_llm::{
    Error, Model, OutputSchema, Reply, Request, Result, Scripted, ToolChoice, Usage,
    providers::{ProviderConfig, StructuredOutput},
    stop,
};
use serde_json::{Value, json};

use crate::{
    shim,
    support::{Kind, Server, variable},
};

/// A model behind a server, and the server if it is one of ours.
#[derive(Debug)]
struct Opened {
    model: Arc<dyn Model>,
    _server: Option<Server>,
}

impl Model for Opened {
    fn reply<'a>(&'a self, request: &'a Request) -> antiphon_llm::BoxFuture<'a, Result<Reply>> {
        self.model.reply(request)
    }

    fn name(&self) -> &str {
        self.model.name()
    }
}

/// A model of the server `ANTIPHON_TEST_LLM_URL` names, one of llama.cpp's.
fn open(kind: Kind, configure: impl FnOnce(ProviderConfig) -> ProviderConfig) -> Option<Opened> {
    let url = variable("ANTIPHON_TEST_LLM_URL")?;
    let url = url.trim_end_matches('/');
    let url = if kind == Kind::Anthropic { url.to_owned() } else { format!("{url}/v1") };
    let config = ProviderConfig::new("none").with_base_url(url).with_model(kind.model());
    Some(Opened { model: kind.open(configure(config)).unwrap(), _server: None })
}

mod compatible {
    use super::*;

    antiphon_llm::model_conformance!(|| async { open(Kind::Compatible, |config| config) });
}

/// For servers that know tools but no formats.
mod compatible_by_tool {
    use super::*;

    antiphon_llm::model_conformance!(|| async {
        open(Kind::Compatible, |config| config.with_structured_output(StructuredOutput::ForcedTool))
    } => a_request_for_data_is_answered_with_data, data_that_were_cut_off_are_not_repaired,);
}

mod openai {
    use super::*;

    antiphon_llm::model_conformance!(|| async { open(Kind::Chat, |config| config) });
}

/// llama.cpp does not know `text.format`, takes `none` for `auto`, and does not say that it was cut off.
mod openai_responses {
    use super::*;

    antiphon_llm::model_conformance!(|| async {
        open(Kind::Responses, |config| config.with_structured_output(StructuredOutput::ForcedTool))
    } =>
        a_reply_has_text_a_model_and_a_reason,
        a_request_for_data_is_answered_with_data,
        a_tool_is_called_where_one_must_be,
        a_tool_may_be_called_where_it_may_be,
        a_history_with_tools_is_read,
        a_failed_tool_is_read,
        calls_have_ids_of_their_own,
        a_stop_sequence_ends_the_reply,
        the_cost_is_told,
        a_request_that_makes_no_sense_is_an_error,
        a_call_can_be_dropped,
    );
}

/// llama.cpp does not know `output_config`, and takes `none` for `auto`.
mod anthropic {
    use super::*;

    antiphon_llm::model_conformance!(|| async {
        open(Kind::Anthropic, |config| config.with_structured_output(StructuredOutput::ForcedTool))
    } =>
        a_reply_has_text_a_model_and_a_reason,
        a_request_for_data_is_answered_with_data,
        data_that_were_cut_off_are_not_repaired,
        a_tool_is_called_where_one_must_be,
        a_tool_may_be_called_where_it_may_be,
        a_history_with_tools_is_read,
        a_failed_tool_is_read,
        calls_have_ids_of_their_own,
        a_reply_is_no_longer_than_it_may_be,
        a_stop_sequence_ends_the_reply,
        the_cost_is_told,
        a_request_that_makes_no_sense_is_an_error,
        a_call_can_be_dropped,
    );
}

mod ollama {
    use super::*;

    async fn opened() -> Option<Opened> {
        let url = variable("ANTIPHON_TEST_LLM_URL")?;
        let server = shim::ollama(format!("{}/v1", url.trim_end_matches('/'))).await;
        let config = ProviderConfig::local().with_base_url(&server.url).with_model(Kind::Ollama.model());
        Some(Opened { model: Kind::Ollama.open(config).unwrap(), _server: Some(server) })
    }

    antiphon_llm::model_conformance!(opened);
}

mod scripted {
    use super::*;

    antiphon_llm::model_conformance!(|| async { Some(Scripted::new().otherwise(obey)) });
}

#[tokio::test]
async fn a_trained_model_finds_data_in_a_sentence() {
    let Some(url) = variable("ANTIPHON_TEST_SMOLLM_URL") else { return };
    let config = ProviderConfig::local().with_base_url(format!("{}/v1", url.trim_end_matches('/')));
    let model = Kind::Compatible.open(config.with_model("smollm2")).unwrap();
    let mut request =
        Request::prompt("Ana is 31 years old and lives in Bern. Who is it about, and how old are they?");
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    });
    OutputSchema::new(schema.as_object().unwrap().clone()).ask(&mut request);
    request.temperature = Some(0.0);
    request.max_tokens = 60;
    let reply = model.reply(&request).await.unwrap();
    let calls = reply.tool_calls();
    assert_eq!(
        (&calls[0].arguments["name"], &calls[0].arguments["age"]),
        (&json!("Ana"), &json!(31)),
        "{reply:?}"
    );
}

/// What a model would say that does as it is told, and is nothing else.
fn obey(request: &Request) -> Result<Reply> {
    let refused = |what: &str| Err(Error::Unsupported { model: "obedient".into(), what: what.into() });
    let calls: Vec<_> = request.messages.iter().flat_map(antiphon_llm::Message::tool_calls).collect();
    let Some(last) = request.messages.last() else { return refused("reply to nothing") };
    if last.tool_results().any(|result| calls.iter().all(|call| call.id != result.tool_use_id)) {
        return refused("take a result that answers no call");
    }
    let usage = Usage { input_tokens: 9, output_tokens: 5 };
    let may_call = !request.tools.is_empty() && request.tool_choice != Some(ToolChoice::None);
    if may_call && last.tool_results().next().is_none() {
        let tool = &request.tools[0];
        let values = &tool.input_schema["properties"];
        let chosen = |schema: &Value| schema["enum"][0].clone();
        let input: Value =
            values.as_object().unwrap().iter().map(|(name, schema)| (name.clone(), chosen(schema))).collect();
        if input.to_string().len() > 4 * request.max_tokens as usize {
            return Ok(Reply::new("obedient", "{\"text\": \"abc")
                .with_stop_reason(stop::MAX_TOKENS)
                .with_usage(usage));
        }
        let call = antiphon_llm::Block::tool_use("call_1", &tool.name, json!(input));
        return Ok(Reply::new("obedient", call).with_usage(usage));
    }
    let mut text = String::from("one two three four five");
    if let Some(at) = request.stop_sequences.iter().filter_map(|stop| text.find(stop.as_str())).min() {
        text.truncate(at);
        return Ok(Reply::new("obedient", text).with_stop_reason(stop::STOP_SEQUENCE).with_usage(usage));
    }
    let cut = request.max_tokens < 5;
    let reason = if cut { stop::MAX_TOKENS } else { stop::END_TURN };
    Ok(Reply::new("obedient", text).with_stop_reason(reason).with_usage(usage))
}

//! Questions to clients: the capabilities they need, and the shape of their answers.

use rmcp::model::ClientCapabilities;
use serde_json::Value;

use crate::error::Capability;

/// Returns the capability that `request` needs and that `declared` lacks. Such a request is never sent.
pub(crate) fn guard(request: &Value, declared: &ClientCapabilities) -> Option<Capability> {
    needs(request).into_iter().find(|capability| !declares(declared, *capability))
}

pub(crate) fn declares(declared: &ClientCapabilities, capability: Capability) -> bool {
    let (elicitation, sampling) = (declared.elicitation.as_ref(), declared.sampling.as_ref());
    match capability {
        // `elicitation: {}` means forms. It did so before MCP had elicitation modes.
        Capability::Elicitation => {
            elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
        }
        Capability::UrlElicitation => elicitation.is_some_and(|modes| modes.url.is_some()),
        Capability::Sampling => sampling.is_some(),
        Capability::SamplingTools => sampling.is_some_and(|sampling| sampling.tools.is_some()),
        Capability::SamplingContext => sampling.is_some_and(|sampling| sampling.context.is_some()),
        Capability::Roots => declared.roots.is_some(),
        Capability::Session => false,
    }
}

/// Returns whether a sampling request offers tools, or has tool calls in its history.
pub(crate) fn is_about_tools(request: &Value) -> bool {
    let params = &request["params"];
    let has_calls = |message: &Value| {
        let blocks = message["content"].as_array();
        blocks
            .into_iter()
            .flatten()
            .any(|block| block["type"] == "tool_use" || block["type"] == "tool_result")
    };
    request["method"] == "sampling/createMessage"
        && (params.get("tools").is_some()
            || params.get("toolChoice").is_some()
            || params["messages"].as_array().into_iter().flatten().any(has_calls))
}

/// Removes structured content that is not an object from `tool_result` blocks. Before 2026-07-28, MCP allows
/// only objects. The block's text has the same content.
pub(crate) fn drop_structured_values(request: &mut Value) {
    if !is_about_tools(request) {
        return;
    }
    let messages = request["params"]["messages"].as_array_mut().into_iter().flatten();
    let contents = messages.filter_map(|message| message.get_mut("content")?.as_array_mut());
    for block in contents.flatten().filter_map(Value::as_object_mut) {
        if block.get("structuredContent").is_some_and(|structured| !structured.is_object()) {
            block.remove("structuredContent");
        }
    }
}

/// Returns the capabilities that a client must have declared before `request` can be sent to it.
fn needs(request: &Value) -> Vec<Capability> {
    let params = &request["params"];
    match request["method"].as_str() {
        Some("elicitation/create") if params["mode"] == "url" => vec![Capability::UrlElicitation],
        Some("elicitation/create") => vec![Capability::Elicitation],
        Some("sampling/createMessage") => {
            let mut needs = vec![Capability::Sampling];
            if params.get("tools").is_some() || params.get("toolChoice").is_some() {
                needs.push(Capability::SamplingTools);
            }
            if params.get("includeContext").is_some_and(|context| context != "none") {
                needs.push(Capability::SamplingContext);
            }
            needs
        }
        Some("roots/list") => vec![Capability::Roots],
        _ => Vec::new(),
    }
}

/// Returns whether `answer` has the shape of a result of `request`.
pub(crate) fn fits(request: &Value, answer: &Value) -> bool {
    match request["method"].as_str() {
        Some("elicitation/create") => {
            matches!(answer["action"].as_str(), Some("accept" | "decline" | "cancel"))
        }
        Some("sampling/createMessage") => {
            answer["role"].is_string() && (answer["content"].is_object() || answer["content"].is_array())
        }
        Some("roots/list") => answer["roots"].is_array(),
        _ => answer.is_object(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::{Error, ErrorKind};

    fn lacking(request: &Value, declared: Value) -> Option<Capability> {
        guard(request, &serde_json::from_value(declared).unwrap())
    }

    #[test]
    fn url_mode_is_guarded_before_anything_is_sent() {
        let request =
            json!({"method": "elicitation/create", "params": {"mode": "url", "url": "https://example.com"}});
        let lacks = lacking(&request, json!({"elicitation": {}}));
        assert_eq!(lacks, Some(Capability::UrlElicitation));
        let message = Error::new(ErrorKind::Unsupported(Capability::UrlElicitation)).to_string();
        assert_eq!(
            message,
            "URL elicitation mode is not supported by this client. Use form mode (default) instead. See: \
             https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation"
        );
        assert_eq!(lacking(&request, json!({"elicitation": {"url": {}}})), None);
    }

    #[test]
    fn form_mode_is_the_default() {
        let request = json!({"method": "elicitation/create", "params": {"message": "?"}});
        assert_eq!(lacking(&request, json!({"elicitation": {}})), None);
        assert_eq!(lacking(&request, json!({"elicitation": {"form": {}}})), None);
        assert_eq!(lacking(&request, json!({"elicitation": {"url": {}}})), Some(Capability::Elicitation));
        assert_eq!(lacking(&request, json!({})), Some(Capability::Elicitation));
    }

    #[test]
    fn sampling_with_tools_or_context_needs_its_sub_capability() {
        let plain = json!({"method": "sampling/createMessage", "params": {"messages": []}});
        let tools = json!({"method": "sampling/createMessage", "params": {"tools": []}});
        let context = json!({"method": "sampling/createMessage", "params": {"includeContext": "thisServer"}});
        let none = json!({"method": "sampling/createMessage", "params": {"includeContext": "none"}});
        assert_eq!(lacking(&plain, json!({"sampling": {}})), None);
        assert_eq!(lacking(&none, json!({"sampling": {}})), None);
        assert_eq!(lacking(&tools, json!({"sampling": {}})), Some(Capability::SamplingTools));
        assert_eq!(lacking(&tools, json!({"sampling": {"tools": {}}})), None);
        assert_eq!(lacking(&context, json!({"sampling": {"tools": {}}})), Some(Capability::SamplingContext));
        assert_eq!(lacking(&context, json!({"sampling": {"context": {}}})), None);
        assert_eq!(lacking(&plain, json!({})), Some(Capability::Sampling));
    }
}

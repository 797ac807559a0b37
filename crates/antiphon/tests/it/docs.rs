//! What the guides promise.

const ASKING: &str = include_str!("../../../../docs/guides/asking-a-model.md");

#[test]
fn the_guide_to_sampling_says_why_there_is_a_reserved_tool_and_where_to_read_on() {
    assert!(
        ASKING
            .contains("MCP has tools in sampling since 2025-11-25 (SEP-1577); for a schema it has no field")
    );
    for source in [
        "https://modelcontextprotocol.io/specification/2025-11-25/client/sampling",
        "https://platform.openai.com/docs/guides/structured-outputs",
        "https://platform.openai.com/docs/guides/function-calling",
        "https://docs.anthropic.com/en/docs/tool-use",
    ] {
        assert!(ASKING.contains(source), "{source}");
    }
}

const CHANGELOG: &str = include_str!("../../../../CHANGELOG.md");

/// For those who come from where it is called otherwise.
#[test]
fn changelog_names_the_field_of_a_task() {
    assert!(CHANGELOG.contains("`Task.lastUpdatedAt` is what MCP calls it, never `updatedAt`"));
}

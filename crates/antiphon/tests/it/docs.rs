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

const PAGES: &str = include_str!("../../../../docs/guides/url-elicitation.md");

#[test]
fn the_guide_to_url_elicitation_says_what_it_is_for() {
    assert!(PAGES.contains(
        "Use a URL elicitation for input that must not pass through the client: an OAuth sign-in, a payment, a secret."
    ));
}

const MIGRATING: &str = include_str!("../../../../docs/migrating/design-documents.md");

#[test]
fn the_migration_guide_explains_the_field_of_a_task() {
    let gap = MIGRATING.split("### Gap 1: `updatedAt` becomes `lastUpdatedAt`").nth(1).unwrap();
    let gap = gap.split("###").next().unwrap();
    for sentence in [
        "| `task.updatedAt` | `task.lastUpdatedAt` |",
        "Code that reads `updatedAt` gets no value",
        "does not support `updatedAt` as an alias",
    ] {
        assert!(gap.contains(sentence), "{sentence}");
    }
}

#[test]
fn the_migration_guide_has_all_ten_gaps() {
    for gap in 1..=10 {
        assert!(MIGRATING.contains(&format!("\n| {gap}. ")), "gap {gap}");
    }
}

const CHANGELOG: &str = include_str!("../../../../CHANGELOG.md");

/// For those who come from where it is called otherwise.
#[test]
fn changelog_names_the_field_of_a_task() {
    assert!(CHANGELOG.contains("`lastUpdatedAt`, as MCP requires. The field `updatedAt` does not exist."));
}

async fn search(_: &Ctx, _: ()) -> Result<String> {
    Ok("3 notes".to_owned())
}

async fn publish(_: &Ctx, _: ()) -> Result<String> {
    Ok("published".to_owned())
}

async fn erase(_: &Ctx, _: ()) -> Result<String> {
    Ok("erased".to_owned())
}

async fn audit_log(_: &Ctx, _: ()) -> Result<String> {
    Ok("ada published a note".to_owned())
}

// ANCHOR: conditions
use antiphon::{Capability, Resource, ServerBuilder, prelude::*, tool::RequestInfo};

/// The auditors of the company: a claim of their access token.
fn is_auditor(request: &RequestInfo<'_>) -> bool {
    let role = request.identity().and_then(|identity| identity.claim("role"));
    role.is_some_and(|role| role == "auditor")
}

fn notes() -> ServerBuilder {
    Server::builder("notes", "1.0.0")
        .tool(Tool::new("search", "Searches the notes", search))
        .tool(
            Tool::new("publish", "Asks the user, and publishes a note", publish)
                .visible_if(|request| request.supports(Capability::Elicitation)),
        )
        .tool(Tool::new("erase", "Erases a note", erase).with_scopes(["notes:erase"]).hidden_without_scopes())
        .resource(Resource::new("notes://log", "log", audit_log).visible_if(is_auditor))
}
// ANCHOR_END: conditions

// ANCHOR: groups
async fn show_admin_tools(ctx: &Ctx, _: ()) -> Result<&'static str> {
    ctx.enable_group("admin").await?;
    Ok("The administration tools are available now.")
}

async fn hide_admin_tools(ctx: &Ctx, _: ()) -> Result<&'static str> {
    ctx.disable_group("admin").await?;
    Ok("The administration tools are hidden.")
}

fn notes_with_groups() -> ServerBuilder {
    Server::builder("notes", "1.0.0")
        .tool(Tool::new("show_admin_tools", "Shows the administration tools", show_admin_tools))
        .tool(Tool::new("hide_admin_tools", "Hides the administration tools", hide_admin_tools))
        .tool(Tool::new("erase", "Erases a note", erase).in_group("admin"))
}
// ANCHOR_END: groups

#[cfg(test)]
mod tests {
    use antiphon::testing::{Client, Revision};
    use serde_json::json;

    use super::*;

    async fn tools(client: &mut Client) -> Result<Vec<String>> {
        let listed = client.request("tools/list", json!({})).await?;
        let tools = listed["tools"].as_array().into_iter().flatten();
        Ok(tools.filter_map(|tool| Some(tool["name"].as_str()?.to_owned())).collect())
    }

    #[tokio::test]
    async fn client_without_forms_does_not_see_the_tool_that_asks() -> Result<()> {
        let server = notes().build()?;
        let mut client = Client::connect_with(&server, Revision::V2026_07_28, json!({})).await?;
        assert_eq!(tools(&mut client).await?, ["search", "erase"]);
        let mut client = Client::connect(&server, Revision::V2026_07_28).await?;
        assert_eq!(tools(&mut client).await?, ["search", "publish", "erase"]);
        Ok(())
    }

    #[tokio::test]
    async fn administration_tools_are_shown_and_hidden_in_a_session() -> Result<()> {
        let mut client = Client::connect(&notes_with_groups().build()?, Revision::V2025_11_25).await?;
        assert_eq!(tools(&mut client).await?, ["show_admin_tools", "hide_admin_tools"]);
        client.call("show_admin_tools", json!({})).await?;
        assert_eq!(tools(&mut client).await?, ["show_admin_tools", "hide_admin_tools", "erase"]);
        client.call("hide_admin_tools", json!({})).await?;
        assert_eq!(tools(&mut client).await?, ["show_admin_tools", "hide_admin_tools"]);
        Ok(())
    }
}

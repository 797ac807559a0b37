//! Hidden items beside a handler of the SDK that has items with the same names.

use antiphon::{elicitation::AskPolicy, model::ServerHandler};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
        GetPromptResponse, GetPromptResult, ListPromptsResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, PromptMessage, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, ResourceContents, Role, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};

use super::*;

#[derive(Clone)]
struct Old;

type Page = Option<PaginatedRequestParams>;
type Context = RequestContext<RoleServer>;

fn schema() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), "object".into())])
}

impl ServerHandler for Old {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder();
        ServerConfig::new(capabilities.enable_tools().enable_prompts().enable_resources().build())
    }

    async fn list_tools(&self, _: Page, _: Context) -> Result<ListToolsResult, ErrorData> {
        let mut tool = rmcp::model::Tool::new("secret", "An old tool", schema());
        tool.output_schema = Some(Arc::new(schema()));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(&self, _: CallToolRequestParams, _: Context) -> Result<CallToolResponse, ErrorData> {
        let mut result = CallToolResult::success(vec![ContentBlock::text("old")]);
        result.structured_content = Some(json!({}));
        Ok(result.into())
    }

    async fn list_prompts(&self, _: Page, _: Context) -> Result<ListPromptsResult, ErrorData> {
        let prompt = rmcp::model::Prompt::new("secret", Some("An old prompt"), None);
        Ok(ListPromptsResult::with_all_items(vec![prompt]))
    }

    async fn get_prompt(
        &self,
        _: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, "old")]).into())
    }

    async fn list_resources(&self, _: Page, _: Context) -> Result<ListResourcesResult, ErrorData> {
        let resource = rmcp::model::Resource::new("test://secret", "old");
        Ok(ListResourcesResult::with_all_items(vec![resource]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(ReadResourceResult::new(vec![ResourceContents::text("old", request.uri)]).into())
    }
}

#[derive(Serialize, JsonSchema)]
struct New {
    new: bool,
}

async fn new(_: &Ctx, _: ()) -> Result<Json<New>> {
    Ok(Json(New { new: true }))
}

/// Requires that the client has the items of the handler (`old`), or those of the server.
async fn assert_items(client: &mut Client, revision: Revision, is_old: bool) -> Result<()> {
    let listed = client.request("tools/list", json!({})).await?;
    let tools = listed["tools"].as_array().unwrap();
    let found: Vec<_> = tools.iter().filter(|tool| tool["name"] == "secret").collect();
    assert_eq!(found.len(), 1, "{listed}");
    // The settings of a hidden tool do not change the tool of the handler.
    let has_execution = found[0].get("execution").is_some();
    assert_eq!(has_execution, !is_old && revision == Revision::V2025_11_25, "{listed}");
    assert_eq!(found[0]["outputSchema"] == json!({"type": "object"}), is_old, "{listed}");
    assert_eq!(client.call("secret", json!({})).await?.text() == "old", is_old);

    let listed = client.request("prompts/list", json!({})).await?;
    assert_eq!(names(&listed, "prompts", "name"), ["secret"]);
    assert_eq!(listed["prompts"][0]["description"] == "An old prompt", is_old, "{listed}");
    let got = client.request("prompts/get", json!({"name": "secret"})).await?;
    assert_eq!(got["messages"][0]["content"]["text"] == "old", is_old, "{got}");

    let listed = client.request("resources/list", json!({})).await?;
    let resources = listed["resources"].as_array().unwrap().iter();
    let found: Vec<_> = resources.filter(|resource| resource["uri"] == "test://secret").collect();
    assert_eq!((found.len(), found[0]["name"] == "old"), (1, is_old), "{listed}");
    let read = client.request("resources/read", json!({"uri": "test://secret"})).await?;
    assert_eq!(read["contents"][0]["text"] == "old", is_old, "{read}");
    Ok(())
}

#[tokio::test]
async fn items_of_a_handler_replace_hidden_items_without_their_settings() -> Result<()> {
    let (shown, condition) = switched();
    let tool = Tool::new("secret", "A new tool", new).with_tasks(TaskPolicy::WhenLong);
    let server = Server::builder("both", "1.0.0")
        .handler(Old)
        .with_asking(AskPolicy::default())
        .with_tasks(quick())
        .tool(tool.visible_if(condition.clone()))
        .prompt(Prompt::new("secret", "A new prompt", done).visible_if(condition.clone()))
        .resource(Resource::new("test://secret", "new", done).visible_if(condition))
        .build()?;
    for revision in Revision::BOTH {
        let mut client = connect_with(&server, revision, json!({})).await?;
        for is_old in [true, false] {
            shown.store(!is_old, Ordering::SeqCst);
            assert_items(&mut client, revision, is_old).await?;
        }
    }
    Ok(())
}

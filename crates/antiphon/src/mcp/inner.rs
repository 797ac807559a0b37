//! An existing SDK handler that the server combines with the tools, prompts and resources of Antiphon's registry.

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomRequest,
        CustomResult, GetPromptRequestParams, GetPromptResponse, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, ServerConfig, Tool,
    },
    service::RequestContext,
};

use antiphon_llm::BoxFuture;

type Reply<'a, T> = BoxFuture<'a, Result<T, ErrorData>>;
type Context = RequestContext<RoleServer>;

/// The methods of [`ServerHandler`] that Antiphon forwards to an SDK handler, as an object-safe trait.
pub(crate) trait DynHandler: Send + Sync {
    fn info(&self) -> ServerConfig;
    fn tool(&self, name: &str) -> Option<Tool>;
    fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Reply<'_, ListToolsResult>;
    fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Reply<'_, CallToolResponse>;
    fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Reply<'_, ListPromptsResult>;
    fn get_prompt(&self, request: GetPromptRequestParams, context: Context) -> Reply<'_, GetPromptResponse>;
    fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Reply<'_, ListResourcesResult>;
    fn list_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Reply<'_, ListResourceTemplatesResult>;
    fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Reply<'_, ReadResourceResponse>;
    fn complete(&self, request: CompleteRequestParams, context: Context) -> Reply<'_, CompleteResult>;
    fn custom(&self, request: CustomRequest, context: Context) -> Reply<'_, CustomResult>;
}

pub(crate) struct Wrapped<H>(pub(crate) H);

impl<H: ServerHandler> DynHandler for Wrapped<H> {
    fn info(&self) -> ServerConfig {
        self.0.get_info()
    }

    fn tool(&self, name: &str) -> Option<Tool> {
        self.0.get_tool(name)
    }

    fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Reply<'_, ListToolsResult> {
        Box::pin(self.0.list_tools(page, context))
    }

    fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Reply<'_, CallToolResponse> {
        Box::pin(self.0.call_tool(request, context))
    }

    fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Reply<'_, ListPromptsResult> {
        Box::pin(self.0.list_prompts(page, context))
    }

    fn get_prompt(&self, request: GetPromptRequestParams, context: Context) -> Reply<'_, GetPromptResponse> {
        Box::pin(self.0.get_prompt(request, context))
    }

    fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Reply<'_, ListResourcesResult> {
        Box::pin(self.0.list_resources(page, context))
    }

    fn list_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Reply<'_, ListResourceTemplatesResult> {
        Box::pin(self.0.list_resource_templates(page, context))
    }

    fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Reply<'_, ReadResourceResponse> {
        Box::pin(self.0.read_resource(request, context))
    }

    fn complete(&self, request: CompleteRequestParams, context: Context) -> Reply<'_, CompleteResult> {
        Box::pin(self.0.complete(request, context))
    }

    fn custom(&self, request: CustomRequest, context: Context) -> Reply<'_, CustomResult> {
        Box::pin(self.0.on_custom_request(request, context))
    }
}

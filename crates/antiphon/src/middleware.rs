//! Middleware: tower layers around MCP requests.
//!
//! You add a layer with [`ServerBuilder::layer`](crate::ServerBuilder::layer). A layer receives the requests of all
//! transports, each as a typed [`Request`]. A layer can log, measure and reject requests, and can change the parameters
//! and results of requests. A layer can also add values for tools ([`Ctx::extension`](crate::Ctx::extension)). To
//! reject a request, a layer returns an [`ErrorData`]. [`from_fn`] creates a layer from an async function. You can also
//! use a layer of the crate `tower` if the service of this layer implements `Clone` and `Sync`.
//!
//! The parameters and results of requests are types of the SDK (`rmcp`), which this module re-exports.
//!
//! # Replay
//!
//! On MCP 2026-07-28, each round of a run is a separate request. So if a tool asks two questions one after the other on
//! MCP 2026-07-28, a layer receives three requests. [`Request::is_resumed`] returns `true` for all requests of a run
//! except the first request. On MCP 2025-11-25, a layer receives only one request for each call, even if the tool asks
//! questions. When a worker continues a task in the background, layers receive no request.

pub use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CompleteRequestParams,
        CompleteResult, CreateTaskResult, CustomRequest, CustomResult, DiscoverResult, ErrorCode,
        GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult,
        InitializeRequestParams, InitializeResult, InputRequiredResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, SetLevelRequestParams,
        SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams, UpdateTaskParams,
    },
};

#[doc(inline)]
pub use crate::mcp::middleware::{FromFn, FromFnService, Next, Params, Request, Response, from_fn};

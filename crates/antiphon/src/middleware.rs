//! Middleware: tower layers around MCP requests.
//!
//! You add a layer with [`ServerBuilder::layer`](crate::ServerBuilder::layer). A layer receives each request of each
//! transport, as a typed [`Request`]. It can log, measure and reject requests, and it can change their parameters and
//! results. It can also add values for tools ([`Ctx::extension`](crate::Ctx::extension)). To reject a request, a layer
//! returns an [`ErrorData`]. [`from_fn`] creates a layer from an async function. You can also use all layers of the
//! crate `tower` whose services implement `Clone` and `Sync`.
//!
//! The parameters and results are types of the SDK (`rmcp`). This module re-exports them.
//!
//! # Replay
//!
//! On MCP 2026-07-28, each round of a run is a separate request. So if a tool asks two questions, a layer receives
//! three requests. [`Request::is_resumed`] distinguishes the later requests from the first request. On MCP 2025-11-25,
//! the same call is only one request. When a worker continues a task in the background, layers receive no request.

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

//! Middleware: tower layers around MCP requests.
//!
//! [`ServerBuilder::layer`](crate::ServerBuilder::layer) adds a layer. A layer receives each request of each transport,
//! as a typed [`Request`]. A layer can log and measure requests, reject them with an [`ErrorData`], change their parameters,
//! add values for tools ([`Ctx::extension`](crate::Ctx::extension)), and change results. [`from_fn`] makes a layer from
//! an async function. All layers of the crate `tower` whose service implements `Clone` and `Sync` work, too.
//!
//! The parameters and results are types of the SDK (`rmcp`), re-exported here.
//!
//! # Replay
//!
//! On MCP 2026-07-28, the rounds of a run are separate requests. So a layer receives a call that asks two questions
//! three times. [`Request::is_resumed`] distinguishes the later requests from the first one. On MCP 2025-11-25, the same
//! call is one request.
//! Legs that a worker runs for a task are not requests.

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

//! Single-use `requestState`. If a client sends the same `requestState` again, the server returns the stored reply.

use std::{future::Future, pin::Pin, sync::Arc, time::SystemTime};

use antiphon_store::Backend;
use rmcp::{
    ErrorData,
    model::{CallToolResponse, GetPromptResponse, InputRequiredResult, ReadResourceResponse},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Client, Revision,
    invoke::{Call, refuse},
};
use crate::{
    mcp::Service,
    protocol::reply::to_error_data,
    run::{Entered, enter as enter_once},
    seal::Binding,
};

/// A request whose `requestState` can be used only once.
pub(super) struct Use {
    service: Arc<Service>,
    backend: Backend,
    binding: Binding,
    state: String,
    answers: Vec<u8>,
}

impl Use {
    /// Returns `None` if the client can repeat the request. Requests without a `requestState` can be repeated. If the
    /// server does not require single use, all requests can be repeated.
    pub(super) fn of(service: &Arc<Service>, call: &Call<'_>, client: &Client) -> Option<Self> {
        let (Some(state), Some(backend), true) =
            (call.state, &service.runtime.backend, service.runtime.seal.single_use)
        else {
            return None;
        };
        if client.revision() != Revision::Rounds {
            return None;
        }
        let principal = service.principal(client.extensions()).unwrap_or_default();
        let responses = call.responses.iter().flatten().map(|(key, answer)| json!([key, answer]));
        Some(Self {
            binding: Binding::new(
                &service.runtime.audience,
                &principal,
                call.method,
                call.name,
                call.arguments,
            ),
            state: state.to_owned(),
            answers: antiphon_replay::canonical(&responses.collect()).into_bytes(),
            backend: backend.clone(),
            service: Arc::clone(service),
        })
    }
}

/// Runs `work` and stores the reply. If the server has already processed the same request, this function returns the
/// stored reply and does not run `work`.
pub(super) async fn once<R: Kept>(
    used: Option<Use>,
    work: Pin<Box<impl Future<Output = Result<R, ErrorData>>>>,
) -> Result<R, ErrorData> {
    let Some(Use { service, backend, binding, state, answers }) = used else { return work.await };
    // The server first decrypts the `requestState`. So an invalid `requestState` does not create a record in the store.
    service
        .runtime
        .seal
        .open(&state, &binding, SystemTime::now())
        .map_err(|reason| refuse(&service, reason.name()))?;
    match enter_once(&service.runtime, &backend, &state, &answers)
        .await
        .map_err(|error| to_error_data(&error))?
    {
        Entered::First(guard) => {
            guard.work(work, |reply: &Result<R, ErrorData>| reply.as_ref().ok().and_then(R::keep)).await
        }
        Entered::Answered(reply) => R::restore(reply).ok_or_else(|| refuse(&service, "unreadable")),
        Entered::Used => Err(refuse(&service, "used_before")),
    }
}

/// A reply that the server can store and later return again.
pub(super) trait Kept: Sized {
    fn keep(&self) -> Option<Value>;
    fn restore(kept: Value) -> Option<Self>;
}

fn field<T: DeserializeOwned>(kept: &mut Value, name: &str) -> Option<T> {
    serde_json::from_value(kept.get_mut(name)?.take()).ok()
}

macro_rules! kept {
    ($($response:ident $($task:ident)?;)*) => {
        $(impl Kept for $response {
            fn keep(&self) -> Option<Value> {
                match self {
                    $(Self::$task(result) => Some(json!({"task": result})),)?
                    Self::Complete(result) => Some(json!({"complete": result})),
                    Self::InputRequired(result) => Some(json!({"required": result})),
                    _ => None,
                }
            }

            fn restore(mut kept: Value) -> Option<Self> {
                if let Some(result) = field(&mut kept, "complete") {
                    return Some(Self::Complete(result));
                }
                $(if let Some(result) = field(&mut kept, "task") {
                    return Some(Self::$task(result));
                })?
                field::<InputRequiredResult>(&mut kept, "required").map(Self::InputRequired)
            }
        })*
    };
}
kept!(CallToolResponse Task; GetPromptResponse; ReadResourceResponse;);

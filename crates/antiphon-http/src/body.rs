//! Response bodies.

use std::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use tokio::time::Sleep;

/// A response body that keeps a value until it is sent, and that can end early.
pub(super) struct Held<G> {
    body: Body,
    _kept: G,
    ends: Option<Pin<Box<Sleep>>>,
}

impl<G> Held<G> {
    /// Creates a body that keeps `kept` until it is sent. It ends after `age`, even if it was not sent
    /// completely.
    pub(super) fn new(body: Body, kept: G, age: Option<Duration>) -> Self {
        Self { body, _kept: kept, ends: age.map(|age| Box::pin(tokio::time::sleep(age))) }
    }
}

impl<G: Unpin> HttpBody for Held<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(ends) = &mut self.ends
            && ends.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stream_ends_at_its_age_and_not_before() {
        let events = stream::unfold(0_u32, |n| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from("event")), n + 1))
        });
        let held = Held::new(Body::from_stream(events), (), Some(Duration::from_millis(3500)));
        let sent = Body::new(held).into_data_stream().count().await;
        assert_eq!(sent, 3);
    }
}

//! A server transport with an erased type.

use std::{error::Error as StdError, fmt, pin::Pin};

use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::Transport,
};

type BoxError = Box<dyn StdError + Send + Sync>;
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A box that contains a server transport of any type.
///
/// The SDK compiles its whole service loop once for each type of transport. With `BoxTransport`, the crate that serves
/// the transport compiles the service loop once. The programs that depend on this crate do not compile the service
/// loop again.
pub struct BoxTransport(Box<dyn Erased>);

impl BoxTransport {
    /// Puts `transport` into a box.
    pub fn new(transport: impl Transport<RoleServer> + 'static) -> Self {
        Self(Box::new(transport))
    }
}

impl fmt::Debug for BoxTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxTransport").finish_non_exhaustive()
    }
}

/// An error of the transport that is in a [`BoxTransport`].
#[derive(Debug, thiserror::Error)]
#[error("the transport failed")]
pub struct BoxTransportError(#[source] BoxError);

/// The methods of a [`Transport`], with boxed futures as return values.
trait Erased: Send {
    fn send(&mut self, message: ServerJsonRpcMessage) -> BoxFuture<'static, Result<(), BoxError>>;
    fn receive(&mut self) -> BoxFuture<'_, Option<ClientJsonRpcMessage>>;
    fn close(&mut self) -> BoxFuture<'_, Result<(), BoxError>>;
}

impl<T: Transport<RoleServer>> Erased for T {
    fn send(&mut self, message: ServerJsonRpcMessage) -> BoxFuture<'static, Result<(), BoxError>> {
        let sending = Transport::send(self, message);
        Box::pin(async { sending.await.map_err(BoxError::from) })
    }

    fn receive(&mut self) -> BoxFuture<'_, Option<ClientJsonRpcMessage>> {
        Box::pin(Transport::receive(self))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Transport::close(self).await.map_err(BoxError::from) })
    }
}

impl Transport<RoleServer> for BoxTransport {
    type Error = BoxTransportError;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sending = self.0.send(message);
        async { sending.await.map_err(BoxTransportError) }
    }

    fn receive(&mut self) -> impl Future<Output = Option<ClientJsonRpcMessage>> + Send {
        self.0.receive()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.0.close().await.map_err(BoxTransportError)
    }
}

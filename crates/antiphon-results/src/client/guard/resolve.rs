use std::{fmt, io, net::IpAddr, sync::Arc};

use async_trait::async_trait;

use super::address_scope::{AddressRefused, AddressScope};
use crate::error::BoxError;

/// Finds the addresses of a name.
///
/// Whatever it answers is checked before anything is connected to: a resolver of one's own can change where
/// names lead, not where requests may go.
#[async_trait]
pub trait Resolve: fmt::Debug + Send + Sync + 'static {
    /// The addresses of `name`.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Looks a name up once and lets its addresses through if every one of them may be reached.
///
/// One that may not refuses the name. Else a name with a public address and a private one would lead to
/// either, as whoever answers for it likes.
pub(in crate::client) async fn checked(
    resolver: Arc<dyn Resolve>,
    reach: AddressScope,
    name: &str,
) -> Result<Vec<IpAddr>, BoxError> {
    let addresses = resolver.resolve(name).await?;
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into());
    }
    for address in &addresses {
        reach.check(*address).map_err(|refused| refused.of(name))?;
    }
    Ok(addresses)
}

impl AddressRefused {
    fn of(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }
}

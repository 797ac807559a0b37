use std::{fmt, io, net::IpAddr, sync::Arc};

use async_trait::async_trait;

use super::address_scope::{AddressRefused, AddressScope};
use crate::error::BoxError;

/// A resolver for host names.
///
/// The client checks every address that the resolver returns before it connects. So a custom resolver cannot give
/// access to addresses that the options of the client do not allow.
#[async_trait]
pub trait Resolve: fmt::Debug + Send + Sync + 'static {
    /// Returns the IP addresses of the host `name`.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Resolves a name once, and returns its addresses if all of them are allowed.
///
/// If one address of a name is not allowed, the name is rejected. The owner of the name could otherwise return a
/// public address first, and a private address later.
pub(in crate::client) async fn checked(
    resolver: Arc<dyn Resolve>,
    reach: AddressScope,
    name: &str,
) -> Result<Vec<IpAddr>, BoxError> {
    let addresses = resolver.resolve(name).await?;
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the host name has no IP address").into());
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

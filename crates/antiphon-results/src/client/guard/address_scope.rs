use std::{fmt, net::IpAddr};

use url::{Host, Url};

use super::ranges::{Kind, kind};

/// The addresses to which a request can connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressScope {
    /// Addresses of the public internet.
    Public,
    /// Only this machine, if nothing but [`allow_loopback`](crate::client::DualResponseClientOptions::allow_loopback)
    /// allows the request.
    Loopback,
    /// Origins from the application: the public internet, private networks and this machine. Metadata services,
    /// link-local addresses and multicast are never allowed.
    Listed,
}

impl AddressScope {
    /// Checks whether a connection to `address` is allowed.
    ///
    /// # Errors
    ///
    /// Returns [`AddressRefused`] if it is not allowed.
    pub fn check(self, address: IpAddr) -> Result<(), AddressRefused> {
        let kind = kind(address);
        let fits = match self {
            Self::Public => kind == Kind::Public,
            Self::Loopback => kind == Kind::Loopback,
            Self::Listed => !matches!(kind, Kind::Never(_)),
        };
        if fits { Ok(()) } else { Err(AddressRefused { address, name: None, kind }) }
    }

    /// Checks whether a connection to the host of `url` is allowed, if the host is an address and not a name.
    ///
    /// # Errors
    ///
    /// Returns [`AddressRefused`] if it is not allowed.
    pub fn check_host(self, url: &Url) -> Result<(), AddressRefused> {
        match url.host() {
            Some(Host::Ipv4(address)) => self.check(address.into()),
            Some(Host::Ipv6(address)) => self.check(address.into()),
            Some(Host::Domain(_)) | None => Ok(()),
        }
    }
}

/// An address to which connections are not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRefused {
    pub(super) address: IpAddr,
    pub(super) name: Option<String>,
    kind: Kind,
}

impl fmt::Display for AddressRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address;
        match &self.name {
            Some(name) => write!(f, "`{name}` leads to `{address}`, ")?,
            None => write!(f, "`{address}` is refused: it is ")?,
        }
        match self.kind {
            Kind::Public => f.write_str("not this machine, which is all that is allowed here"),
            Kind::Loopback => f.write_str(
                "this machine; `allow_loopback` or `allow_origin` with this origin would allow it",
            ),
            Kind::Private(what) => write!(f, "{what}; `allow_origin` with this origin would allow it"),
            Kind::Never(what) => write!(f, "{what}; no option allows it"),
        }
    }
}

impl std::error::Error for AddressRefused {}

use std::{fmt, net::IpAddr};

use url::{Host, Url};

use super::ranges::{Kind, kind};

/// The IP addresses to which a request is allowed to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressScope {
    /// The request can connect only to addresses of the public internet.
    Public,
    /// The request can connect only to loopback addresses of this machine. The client uses the scope `Loopback` if
    /// only [`allow_loopback`](crate::client::DualResponseClientOptions::allow_loopback) allows the request.
    Loopback,
    /// The request can connect to the public internet, to private networks and to this machine. The client uses the
    /// scope `Listed` for origins that the application allows. Requests to cloud metadata services, link-local
    /// addresses and multicast addresses are never allowed.
    Listed,
}

impl AddressScope {
    /// Checks whether a connection to `address` is allowed.
    ///
    /// # Errors
    ///
    /// Returns [`AddressRefused`] if the connection is not allowed.
    pub fn check(self, address: IpAddr) -> Result<(), AddressRefused> {
        let kind = kind(address);
        let fits = match self {
            Self::Public => kind == Kind::Public,
            Self::Loopback => kind == Kind::Loopback,
            Self::Listed => !matches!(kind, Kind::Never(_)),
        };
        if fits { Ok(()) } else { Err(AddressRefused { address, name: None, kind }) }
    }

    /// Checks whether a connection to the host of `url` is allowed, if the host is an IP address. If the host is a
    /// name, this check succeeds.
    ///
    /// # Errors
    ///
    /// Returns [`AddressRefused`] if the connection is not allowed.
    pub fn check_host(self, url: &Url) -> Result<(), AddressRefused> {
        match url.host() {
            Some(Host::Ipv4(address)) => self.check(address.into()),
            Some(Host::Ipv6(address)) => self.check(address.into()),
            Some(Host::Domain(_)) | None => Ok(()),
        }
    }
}

/// The error for an IP address to which a request is not allowed to connect.
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
            Some(name) => write!(f, "`{name}` is not allowed: the name resolves to `{address}`, ")?,
            None => write!(f, "`{address}` is not allowed: the address is ")?,
        }
        match self.kind {
            Kind::Public => f.write_str("not a loopback address, and only loopback is allowed here"),
            Kind::Loopback => {
                f.write_str("a loopback address; use `allow_loopback`, or `allow_origin` with this origin")
            }
            Kind::Private(what) => write!(f, "{what}; use `allow_origin` with this origin if you trust it"),
            Kind::Never(what) => write!(f, "{what}; no option allows it"),
        }
    }
}

impl std::error::Error for AddressRefused {}

//! Finds out whether an IP address is on the public internet, on this machine, in a private network, or in another
//! range.
//!
//! The tables follow IANA's registries of special-purpose addresses. IPv6 addresses outside the tables are also
//! rejected, unless they are in `2000::/3`, the only range of global unicast addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// The kind of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An address of the public internet.
    Public,
    /// A loopback address of this machine.
    Loopback,
    /// An address in a private network. The text is the name of the network, for error messages.
    Private(&'static str),
    /// An address in a range that a server of result sets never uses. The text is the name of the range, for error
    /// messages.
    Never(&'static str),
}

const METADATA: Kind = Kind::Never("a cloud metadata service");
const DOCUMENTATION: Kind = Kind::Never("a documentation range");
const BENCHMARKING: Kind = Kind::Never("a benchmarking range");
const LINK_LOCAL: Kind = Kind::Never("link-local");
const MULTICAST: Kind = Kind::Never("multicast");
const TUNNEL: Kind = Kind::Never("a tunnel to an IPv4 address");

/// The first range that contains an address determines the kind of the address. So a nested range must come before its
/// outer range in the table.
const V4: &[(Ipv4Net, Kind)] = &[
    (v4([168, 63, 129, 16], 32), METADATA),
    (v4([169, 254, 169, 254], 32), METADATA),
    (v4([169, 254, 170, 2], 32), METADATA),
    (v4([100, 100, 100, 200], 32), METADATA),
    (v4([192, 0, 0, 192], 32), METADATA),
    (v4([0, 0, 0, 0], 8), Kind::Never("\"this network\"")),
    (v4([10, 0, 0, 0], 8), Kind::Private("a private range")),
    (v4([100, 64, 0, 0], 10), Kind::Private("a carrier's shared range")),
    (v4([127, 0, 0, 0], 8), Kind::Loopback),
    (v4([169, 254, 0, 0], 16), LINK_LOCAL),
    (v4([172, 16, 0, 0], 12), Kind::Private("a private range")),
    (v4([192, 0, 0, 0], 24), Kind::Never("reserved for protocols")),
    (v4([192, 0, 2, 0], 24), DOCUMENTATION),
    (v4([192, 31, 196, 0], 24), Kind::Never("AS112 name servers")),
    (v4([192, 52, 193, 0], 24), Kind::Never("a multicast relay")),
    (v4([192, 88, 99, 0], 24), Kind::Never("the former 6to4 relays")),
    (v4([192, 168, 0, 0], 16), Kind::Private("a private range")),
    (v4([192, 175, 48, 0], 24), Kind::Never("AS112 name servers")),
    (v4([198, 18, 0, 0], 15), BENCHMARKING),
    (v4([198, 51, 100, 0], 24), DOCUMENTATION),
    (v4([203, 0, 113, 0], 24), DOCUMENTATION),
    (v4([224, 0, 0, 0], 4), MULTICAST),
    (v4([255, 255, 255, 255], 32), Kind::Never("broadcast")),
    (v4([240, 0, 0, 0], 4), Kind::Never("reserved")),
];

/// The IPv6 ranges, with each nested range before its outer range. An IPv6 address that contains an IPv4 address is
/// first converted to the IPv4 address.
const V6: &[(Ipv6Net, Kind)] = &[
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), METADATA),
    (v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128), METADATA),
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), METADATA),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Kind::Never("the unspecified address")),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Kind::Loopback),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), Kind::Never("the former IPv4-compatible form")),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), TUNNEL),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), Kind::Never("the discard range")),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), TUNNEL),
    (v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), BENCHMARKING),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Kind::Never("reserved for protocols")),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), DOCUMENTATION),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), TUNNEL),
    (v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48), Kind::Never("AS112 name servers")),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), DOCUMENTATION),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Kind::Private("a unique local range")),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), LINK_LOCAL),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Kind::Never("the former site-local range")),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), MULTICAST),
    (v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3), Kind::Public),
];

const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);

const fn v4(octets: [u8; 4], length: u8) -> Ipv4Net {
    let [a, b, c, d] = octets;
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(words: [u16; 8], length: u8) -> Ipv6Net {
    let mut bits = 0;
    let mut at = 0;
    while at < words.len() {
        bits = (bits << 16) | words[at] as u128;
        at += 1;
    }
    Ipv6Net::new_assert(Ipv6Addr::from_bits(bits), length)
}

/// Returns the kind of the IP address `address`.
pub(super) fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => inner(address).map_or_else(|| kind_v6(address), kind_v4),
    }
}

fn kind_v4(address: Ipv4Addr) -> Kind {
    V4.iter().find(|(net, _)| net.contains(&address)).map_or(Kind::Public, |(_, kind)| *kind)
}

fn kind_v6(address: Ipv6Addr) -> Kind {
    let found = V6.iter().find(|(net, _)| net.contains(&address));
    found.map_or(Kind::Never("not global unicast"), |(_, kind)| *kind)
}

/// Returns the IPv4 address to which connections to this IPv6 address go. The operating system translates IPv4-mapped
/// addresses, and the network translates NAT64 addresses. With NAT64, hosts without IPv4 can reach IPv4 addresses.
fn inner(address: Ipv6Addr) -> Option<Ipv4Addr> {
    address.to_ipv4_mapped().or_else(|| {
        let [.., a, b, c, d] = address.octets();
        NAT64.contains(&address).then(|| Ipv4Addr::new(a, b, c, d))
    })
}

//! Every trick known to lead a client astray, and that none does.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use antiphon_results::{
    ErrorCode,
    client::{
        AddressScope, DualResponseClientOptions, Fetch, FetchOptions, FetchRequest, FetchResponse, HttpFetch,
        ParsedDualResponse,
    },
};
use async_trait::async_trait;
use serde_json::json;

use super::{client, origins::Names, structured, tool_result};

/// Hosts that are an address which is nobody's business, however they are written.
const ADDRESSES: &[(&str, &str)] = &[
    ("loopback", "127.0.0.1"),
    ("loopback, not the first", "127.255.255.254"),
    ("loopback in decimal", "2130706433"),
    ("loopback in octal", "0177.0.0.1"),
    ("loopback in octal, padded", "0000177.0.0.01"),
    ("loopback in hex", "0x7f.0.0.1"),
    ("loopback in one hex number", "0x7f000001"),
    ("loopback in one octal number", "017700000001"),
    ("loopback in two parts", "127.1"),
    ("loopback in three parts", "127.0.1"),
    ("loopback with a dot after it", "127.0.0.1."),
    ("loopback, percent-encoded", "%31%32%37.0.0.1"),
    ("loopback in full-width digits", "１２７.０.０.１"),
    ("loopback with ideographic stops", "127。0。0。1"),
    ("loopback in circled digits", "①②⑦.⓪.⓪.①"),
    ("this network", "0.0.0.0"),
    ("this network as a number", "0"),
    ("this network, another host", "0.1.2.3"),
    ("private 10", "10.0.0.1"),
    ("private 10 in decimal", "167772161"),
    ("private 10, the end", "10.255.255.255"),
    ("private 172, the beginning", "172.16.0.1"),
    ("private 172, the end", "172.31.255.255"),
    ("private 192", "192.168.1.1"),
    ("private 192 in hex", "0xc0.0xa8.1.1"),
    ("private 192 in three parts", "192.168.257"),
    ("carrier's range", "100.64.0.1"),
    ("carrier's range, the end", "100.127.255.254"),
    ("link-local", "169.254.0.1"),
    ("metadata of most clouds", "169.254.169.254"),
    ("metadata in decimal", "2852039166"),
    ("metadata in octal", "0251.0376.0251.0376"),
    ("metadata in hex", "0xa9fea9fe"),
    ("metadata of containers", "169.254.170.2"),
    ("metadata of Alibaba", "100.100.100.200"),
    ("metadata of Oracle", "192.0.0.192"),
    ("metadata of Azure", "168.63.129.16"),
    ("protocol assignments", "192.0.0.8"),
    ("documentation 1", "192.0.2.1"),
    ("documentation 2", "198.51.100.1"),
    ("documentation 3", "203.0.113.1"),
    ("former 6to4 relay", "192.88.99.1"),
    ("benchmarking", "198.18.0.1"),
    ("benchmarking, the end", "198.19.255.255"),
    ("multicast", "224.0.0.1"),
    ("multicast, the end", "239.255.255.255"),
    ("reserved", "240.0.0.1"),
    ("broadcast", "255.255.255.255"),
    ("IPv6 unspecified", "[::]"),
    ("IPv6 loopback", "[::1]"),
    ("IPv6 loopback, written out", "[0000:0000:0000:0000:0000:0000:0000:0001]"),
    ("IPv4-mapped loopback", "[::ffff:127.0.0.1]"),
    ("IPv4-mapped loopback in hex", "[::ffff:7f00:1]"),
    ("IPv4-mapped private", "[::ffff:10.0.0.1]"),
    ("IPv4-mapped metadata", "[::ffff:169.254.169.254]"),
    ("IPv4-compatible loopback", "[::127.0.0.1]"),
    ("IPv4-compatible public", "[::8.8.8.8]"),
    ("IPv4-translated loopback", "[::ffff:0:127.0.0.1]"),
    ("NAT64 of loopback", "[64:ff9b::127.0.0.1]"),
    ("NAT64 of metadata", "[64:ff9b::a9fe:a9fe]"),
    ("NAT64 of private", "[64:ff9b::10.0.0.1]"),
    ("local NAT64", "[64:ff9b:1::8.8.8.8]"),
    ("6to4 of loopback", "[2002:7f00:1::]"),
    ("6to4 of public", "[2002:808:808::1]"),
    ("Teredo", "[2001:0:4136:e378:8000:63bf:3fff:fdd2]"),
    ("ORCHID", "[2001:10::1]"),
    ("IPv6 benchmarking", "[2001:2::1]"),
    ("IPv6 documentation", "[2001:db8::1]"),
    ("IPv6 documentation, the new", "[3fff::1]"),
    ("IPv6 discard", "[100::1]"),
    ("segment routing", "[5f00::1]"),
    ("unique local fc", "[fc00::1]"),
    ("unique local fd", "[fd12:3456:789a::1]"),
    ("metadata of AWS, IPv6", "[fd00:ec2::254]"),
    ("metadata of Google, IPv6", "[fd20:ce::254]"),
    ("IPv6 link-local", "[fe80::1]"),
    ("IPv6 site-local", "[fec0::1]"),
    ("IPv6 multicast", "[ff02::1]"),
    ("unassigned IPv6", "[4000::1]"),
    ("localhost", "localhost"),
    ("localhost, capital", "LocalHost"),
    ("localhost with a dot", "localhost."),
    ("below localhost", "foo.localhost"),
    ("below localhost with a dot", "foo.localhost."),
    ("localhost, full-width", "ｌｏｃａｌｈｏｓｔ"),
];

/// URLs that are not at `https://api.example.com`, however they try to look it, or are no URL to go to.
const URLS: &[(&str, &str)] = &[
    ("foreign origin", "https://evil.example/r/abc123"),
    ("another port", "https://api.example.com:8443/r/abc123"),
    ("downgrade", "http://api.example.com/r/abc123"),
    ("downgrade on the port of https", "http://api.example.com:443/r/abc123"),
    ("host below", "https://x.api.example.com/r/abc123"),
    ("host above", "https://example.com/r/abc123"),
    ("host that begins alike", "https://api.example.com.evil.example/r/abc123"),
    ("host that ends alike", "https://evilapi.example.com/r/abc123"),
    ("dot after the host", "https://api.example.com./r/abc123"),
    ("letter that looks alike", "https://api.examp1e.com/r/abc123"),
    ("Cyrillic letter", "https://api.ex\u{430}mple.com/r/abc123"),
    ("good host as a user", "https://api.example.com@evil.example/r/abc123"),
    ("good host as user and password", "https://api.example.com:443@evil.example/r/abc123"),
    ("user at the good host", "https://evil@api.example.com/r/abc123"),
    ("password at the good host", "https://:secret@api.example.com/r/abc123"),
    ("two at signs", "https://a@evil.example@api.example.com/r/abc123"),
    ("at sign, encoded", "https://api.example.com%40evil.example/r/abc123"),
    ("backslash before an at sign", "https://api.example.com\\@evil.example/r/abc123"),
    ("backslash behind the good host", "https://api.example.com\\.evil.example/r/abc123"),
    ("backslashes for slashes", "https:\\\\api.example.com\\r\\abc123"),
    ("good host in the fragment", "https://evil.example#@api.example.com/r/abc123"),
    ("good host in the query", "https://evil.example?@api.example.com/r/abc123"),
    ("good host in the path", "https://evil.example/api.example.com/r/abc123"),
    ("line break in the host", "https://api.exa\r\nmple.com/r/abc123"),
    ("line break in the path", "https://api.example.com/r/abc123\r\nx-evil: 1"),
    ("tab in the scheme", "ht\ttps://api.example.com/r/abc123"),
    ("space before it", " https://api.example.com/r/abc123"),
    ("null byte", "https://api.example.com\0.evil.example/r"),
    ("null byte, encoded", "https://api.example.com%00.evil.example/r"),
    ("no host", "https:///r/abc123"),
    ("relative", "/r/abc123"),
    ("without a scheme", "//api.example.com/r/abc123"),
    ("file", "file:///etc/passwd"),
    ("file on a host", "file://api.example.com/etc/passwd"),
    ("gopher", "gopher://api.example.com:6379/_FLUSHALL"),
    ("ftp", "ftp://api.example.com/r/abc123"),
    ("data", "data:application/json,{\"data\":[]}"),
    ("blob", "blob:https://api.example.com/abc123"),
    ("unix", "unix:///var/run/docker.sock"),
    ("http over unix", "http+unix://%2Fvar%2Frun%2Fdocker.sock/info"),
    ("javascript", "javascript:alert(1)"),
    ("jar", "jar:https://api.example.com!/r"),
    ("dict", "dict://api.example.com:11211/stat"),
    ("ldap", "ldap://api.example.com/r"),
    ("websocket", "wss://api.example.com/r/abc123"),
    ("empty", ""),
    ("port that is none", "https://api.example.com:99999/r/abc123"),
];

/// Ids that would lead elsewhere below a base URL.
const IDS: &[(&str, &str)] = &[
    ("parent", ".."),
    ("self", "."),
    ("three dots", "..."),
    ("path upwards", "../admin"),
    ("path upwards, encoded", "%2e%2e%2fadmin"),
    ("path upwards, encoded twice", "%252e%252e%252fadmin"),
    ("path upwards with a backslash", "..\\admin"),
    ("path downwards", "abc/../../admin"),
    ("slash", "abc/123"),
    ("slash, encoded", "abc%2f123"),
    ("absolute path", "/etc/passwd"),
    ("query", "abc?admin=1"),
    ("fragment", "abc#123"),
    ("at sign", "@evil.example"),
    ("another URL", "https://evil.example/"),
    ("line break", "abc\r\nx-evil: 1"),
    ("line break, encoded", "abc%0d%0ax-evil:1"),
    ("null byte", "abc\0"),
    ("space", "abc 123"),
    ("semicolon", "abc;jsessionid=1"),
    ("full-width dots and slash", "．．／admin"),
    ("empty", ""),
];

/// Names, and what they lead to.
const NAMES: &[(&str, &[&str])] = &[
    ("name of loopback", &["127.0.0.1"]),
    ("name of IPv6 loopback", &["::1"]),
    ("name of a private address", &["10.1.2.3"]),
    ("name of metadata", &["169.254.169.254"]),
    ("name of a unique local address", &["fd00::1"]),
    ("name of a mapped address", &["::ffff:192.168.0.1"]),
    ("name of NAT64 of a private address", &["64:ff9b::a00:1"]),
    ("public first, then private", &["93.184.215.14", "10.0.0.1"]),
    ("private first, then public", &["10.0.0.1", "93.184.215.14"]),
    ("public IPv4, loopback IPv6", &["93.184.215.14", "::1"]),
    ("many public, one metadata", &["8.8.8.8", "1.1.1.1", "9.9.9.9", "169.254.169.254"]),
    ("no address", &[]),
];

/// Counts requests that passed every check of URLs, then goes on to the checks of addresses.
#[derive(Clone, Debug)]
struct Counting {
    inner: HttpFetch,
    passed: Arc<AtomicU64>,
}

#[async_trait]
impl Fetch for Counting {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, antiphon_results::BoxError> {
        self.passed.fetch_add(1, Ordering::SeqCst);
        self.inner.fetch(request).await
    }
}

#[derive(Default)]
struct Tally {
    cases: usize,
    through: Vec<String>,
}

impl Tally {
    /// Counts a case: it must be refused, and nothing be sent.
    async fn refused(&mut self, name: &str, options: DualResponseClientOptions, set: impl Into<Case>) {
        self.cases += 1;
        let passed = Arc::new(AtomicU64::new(0));
        let fetch = Counting { inner: HttpFetch::new(), passed: Arc::clone(&passed) };
        let parsed = set.into().parse(options.with_fetch(fetch));
        let error = parsed.fetch(FetchOptions::new()).await;
        let refused = matches!(&error, Err(error) if error.code() == ErrorCode::UrlRefused);
        if !refused || passed.load(Ordering::SeqCst) > 0 {
            self.through.push(format!("{name}: {error:?}"));
        }
    }
}

enum Case {
    Url(String),
    Id(String),
}

impl Case {
    fn parse(&self, options: DualResponseClientOptions) -> ParsedDualResponse {
        let client = client(options);
        match self {
            Self::Url(url) => client.parse(&tool_result(url)).unwrap(),
            Self::Id(id) => {
                let resource = json!({"uri": format!("resource://{id}")});
                client.parse_structured(&structured(&resource)).unwrap()
            }
        }
    }
}

#[tokio::test]
async fn no_hostile_case_is_let_through() {
    let options = DualResponseClientOptions::new;
    let api = || options().with_endpoint_origin("https://api.example.com/mcp");
    let mut tally = Tally::default();

    for (name, host) in ADDRESSES {
        let url = format!("https://{host}/r/abc123");
        tally.refused(&format!("{name}, as a foreign origin"), api(), Case::Url(url.clone())).await;
        // The host says that this is where its MCP endpoint is, so that only the address is left to refuse it.
        let near = options().with_endpoint_origin(&url);
        tally.refused(&format!("{name}, as the endpoint"), near, Case::Url(url.clone())).await;
        let plain = url.replacen("https", "http", 1);
        let near = options().with_endpoint_origin(&plain);
        tally.refused(&format!("{name}, as the endpoint, plain"), near, Case::Url(plain)).await;
    }
    for (name, url) in URLS {
        tally.refused(name, api(), Case::Url((*url).to_owned())).await;
    }
    for (name, id) in IDS {
        let base = options().with_base_url("https://api.example.com/r");
        tally.refused(&format!("id: {name}"), base, Case::Id((*id).to_owned())).await;
        let base = options().with_fallback_base_url("https://api.example.com/r");
        tally.refused(&format!("fallback id: {name}"), base, Case::Id((*id).to_owned())).await;
    }
    for (name, addresses) in NAMES {
        tally.cases += 1;
        let names = Names::new(&[addresses]);
        let set = client(api().with_resolver(names)).parse(&tool_result("https://api.example.com/r/abc123"));
        let error = set.unwrap().fetch(FetchOptions::new()).await;
        let expected = if addresses.is_empty() { ErrorCode::FetchError } else { ErrorCode::UrlRefused };
        if !matches!(&error, Err(error) if error.code() == expected) {
            tally.through.push(format!("{name}: {error:?}"));
        }
    }
    // With `allow_loopback` this machine is all that is added.
    for (name, host) in [
        ("private", "10.0.0.1"),
        ("metadata", "169.254.169.254"),
        ("this network", "0.0.0.0"),
        ("IPv4-compatible loopback", "[::127.0.0.1]"),
        ("public", "93.184.215.14"),
        ("name with localhost in it", "localhost.evil.example"),
        ("name that ends alike", "evillocalhost"),
    ] {
        let url = format!("http://{host}/r/abc123");
        tally.refused(&format!("{name}, on loopback"), options().allow_loopback(), Case::Url(url)).await;
    }
    // What nobody may reach cannot be listed either.
    for host in ["169.254.169.254", "[fe80::1]", "224.0.0.1", "0.0.0.0", "100.100.100.200", "[fd00:ec2::254]"]
    {
        let origin = format!("http://{host}");
        let url = Case::Url(format!("{origin}/r/abc123"));
        tally.refused(&format!("{host}, listed"), options().allow_origin(origin), url).await;
    }

    println!("{} hostile cases, {} let through", tally.cases, tally.through.len());
    assert!(tally.cases >= 60);
    assert!(tally.through.is_empty(), "{:#?}", tally.through);
}

#[tokio::test]
async fn a_localhost_that_leads_elsewhere_is_refused() {
    let names = Names::new(&[&["10.0.0.1"]]);
    let options = DualResponseClientOptions::new().allow_loopback().with_resolver(names);
    let set = client(options).parse(&tool_result("http://localhost:8080/r/abc123")).unwrap();
    assert_eq!(set.fetch(FetchOptions::new()).await.unwrap_err().code(), ErrorCode::UrlRefused);
}

#[test]
fn public_addresses_are_let_through() {
    for address in ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808"]
    {
        AddressScope::Public.check(address.parse().unwrap()).unwrap();
        AddressScope::Loopback.check(address.parse().unwrap()).unwrap_err();
    }
    for address in ["10.0.0.1", "127.0.0.1", "::1", "fd12::1", "192.168.0.1", "8.8.8.8", "100.64.0.1"] {
        AddressScope::Listed.check(address.parse().unwrap()).unwrap();
    }
}

#[test]
fn a_refusal_says_what_would_allow_it() {
    let refusal = |options: DualResponseClientOptions, url: &str| {
        client(options).parse(&tool_result(url)).unwrap().resource_url().unwrap_err().to_string()
    };
    let options = DualResponseClientOptions::new;
    let near = |url: &str| options().with_endpoint_origin(url);
    let foreign = refusal(options(), "https://evil.example/r?token=hunter2");
    assert_eq!(
        foreign,
        "`https://evil.example` is not allowed: the client has no allowed origins; if you trust this origin, \
         add `DualResponseClientOptions::new().allow_origin(\"https://evil.example\")`"
    );
    let here = refusal(options(), "http://127.0.0.1:3000/resources/r");
    let both = [".allow_loopback()", ".allow_origin(\"http://127.0.0.1:3000\")"];
    assert!(both.iter().all(|option| here.contains(option)), "{here}");
    let other = refusal(near("https://mcp.example"), "https://evil.example/r");
    assert!(other.contains("not the origin of the base URL or of the MCP endpoint"), "{other}");
    assert!(other.contains(".allow_origin(\"https://evil.example\")"), "{other}");
    assert!(!foreign.contains("hunter2"));
    let local = refusal(near("http://localhost:1"), "http://localhost:1/r");
    assert!(local.contains("`allow_loopback`"), "{local}");
    let private = refusal(near("https://10.0.0.5"), "https://10.0.0.5/r");
    assert!(private.contains("a private range") && private.contains("`allow_origin`"), "{private}");
    let never = refusal(near("https://169.254.169.254"), "https://169.254.169.254/r");
    assert!(never.contains("metadata") && never.contains("no option"), "{never}");
}

//! A tool that sends the user to a web page to pay.
//!
//! The page is an ordinary route of the same program. It has no `Ctx`: when the user has paid, it tells the client with
//! [`Server::elicitation_complete`].

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use antiphon::{http::HttpConfig, prelude::*};
use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::Html,
    routing::get,
};
use tokio::sync::watch;
use url::Url;

/// What to buy.
#[derive(Debug, Deserialize, JsonSchema)]
struct Buy {
    /// The name of the item.
    item: String,
}

/// The orders of this process, by elicitation ID. With several replicas, keep them in a database.
#[derive(Debug)]
pub struct Shop {
    base: Url,
    orders: Mutex<BTreeMap<String, watch::Sender<bool>>>,
}

impl Shop {
    /// A shop whose pages are below `base`.
    pub fn new(base: Url) -> Arc<Self> {
        Arc::new(Self { base, orders: Mutex::default() })
    }

    /// The page of an order. The ID is encoded: it can contain `#` and `/`.
    fn page(&self, id: &str) -> String {
        let mut page = self.base.clone();
        if let Ok(mut path) = page.path_segments_mut() {
            path.pop_if_empty().push("pay").push(id);
        }
        page.into()
    }

    fn open(&self, id: &str) -> watch::Receiver<bool> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.entry(id.to_owned()).or_insert_with(|| watch::channel(false).0).subscribe()
    }

    /// Marks an order as paid. Returns whether there is such an order.
    fn pay(&self, id: &str) -> bool {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(order) = orders.get(id) else { return false };
        order.send_replace(true);
        true
    }

    fn knows(&self, id: &str) -> bool {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }

    /// Waits until an order is paid.
    async fn paid(&self, id: &str) -> Result<()> {
        self.open(id).wait_for(|paid| *paid).await?;
        Ok(())
    }
}

// ANCHOR: tool
async fn buy(ctx: &Ctx, Buy { item }: Buy) -> Result<String> {
    let shop = ctx.state::<Arc<Shop>>()?;
    let visit = ctx.elicit_url_with(format!("Pay 12 euros for {item}"), |id| shop.page(id));
    let order = visit.id();
    shop.open(&order);
    if !visit.await?.agreed {
        return Ok(format!("You did not buy {item}."));
    }
    // The answer says that the user agreed to go to the page. It does not say that they paid.
    ctx.step("payment", || shop.paid(&order)).await?;
    Ok(format!("You bought {item}."))
}
// ANCHOR_END: tool

// ANCHOR: page
/// Handles the payment of an order.
async fn paid(
    State((server, shop)): State<(Server, Arc<Shop>)>,
    Path(order): Path<String>,
) -> (StatusCode, Html<&'static str>) {
    // Store the outcome first: the client can call the tool again as soon as it receives the notification.
    if !shop.pay(&order) {
        return (StatusCode::NOT_FOUND, Html("There is no such order."));
    }
    server.elicitation_complete(order);
    (StatusCode::OK, Html("Thank you. You can close this page."))
}
// ANCHOR_END: page

/// Shows a button. A real page would first check that this browser's user is the user who called the tool.
async fn show(
    State((_, shop)): State<(Server, Arc<Shop>)>,
    Path(order): Path<String>,
) -> (StatusCode, Html<&'static str>) {
    if !shop.knows(&order) {
        return (StatusCode::NOT_FOUND, Html("There is no such order."));
    }
    (StatusCode::OK, Html("<form method=post><button>Pay 12 euros</button></form>"))
}

// ANCHOR: app
/// Creates the router with the MCP endpoint and the page.
pub fn app(shop: Arc<Shop>) -> Result<Router, antiphon::BuildError> {
    let server = Server::builder("shop", "1.0.0")
        .with_state(Arc::clone(&shop))
        .tool(Tool::new("buy", "Buys an item; the user pays on a web page", buy))
        .build()?;
    let pages = Router::new().route("/pay/{order}", get(show).post(paid));
    Ok(server.router(HttpConfig::default()).merge(pages.with_state((server, shop))))
}
// ANCHOR_END: app

//! Signs, verifies and revokes links.

use std::time::Duration;

use chrono::SubsecRound as _;

use super::{Access, Action, DualResponseServer, LinkAccess, create::after};
use crate::{
    error::{DualResponseError, Result},
    link::{Grant, Link, LinkOptions, Scope},
    store::ResourceUpdate,
};

impl DualResponseServer {
    /// Creates a signed link to a result set.
    ///
    /// The link allows only actions that `access` allows. If `access` allows reading but not exporting, the link
    /// allows only reading single pages.
    ///
    /// ```
    /// # use antiphon_results::{
    /// #     Access, CreateOptions, DualResponseServer, DualResponseServerOptions, LinkKeys, LinkOptions, PageOptions,
    /// #     Rows, Source,
    /// # };
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let options = DualResponseServerOptions::new("https://api.example.com/resources");
    /// let server = DualResponseServer::new(options.with_link_keys(LinkKeys::random()))?;
    /// # let set = server.create_response(CreateOptions::new("x", Source::rows(Rows::new()))).await?;
    /// let link = server.mint_link(&set.resource_id, &Access::Program, LinkOptions::default()).await?;
    /// // Every holder of the link can read this set for five minutes.
    /// let (_, token) = link.url.split_once("?link=").unwrap();
    /// let access = server.open_link(token)?;
    /// server.page(&set.resource_id, &access, PageOptions::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`DualResponseError::Config`] if the server has no link keys.
    pub async fn mint_link(&self, id: &str, access: &Access, options: LinkOptions) -> Result<Link> {
        let minted = self.mint_unaudited(id, access, options).await;
        self.inner.audit(
            access,
            Action::Link,
            id,
            (0, 0),
            minted.as_ref().err().map(DualResponseError::code),
        );
        minted
    }

    async fn mint_unaudited(&self, id: &str, access: &Access, options: LinkOptions) -> Result<Link> {
        let resource = self.inner.open(id, access, Action::Link).await?;
        let Some(keys) = &self.inner.options.link_keys else {
            return Err(DualResponseError::Config(
                "signed links are not configured on this server; add keys with `with_link_keys`".into(),
            ));
        };
        let mut scopes: Vec<Scope> = Vec::new();
        for scope in options.scopes {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        if scopes.is_empty() {
            return Err(DualResponseError::Invalid(
                "`scopes` is empty; a link needs at least one of `read`, `pin`, `delete` and `query`".into(),
            ));
        }
        // A link allows only actions that its creator is allowed to perform.
        let mut paged = false;
        if let (Access::Caller(caller), Some(authorize)) = (access, &self.inner.options.authorize) {
            for scope in &scopes {
                if !authorize.authorize(&resource, caller, scope.action()).await {
                    return Err(DualResponseError::Invalid(
                        "`scopes` contains a permission that the caller does not have; a link cannot grant it".into(),
                    ));
                }
            }
            paged = !authorize.authorize(&resource, caller, Action::Export).await;
        }
        let life = options.life.max(Duration::from_secs(1)).min(self.inner.options.limits.link_life);
        let end = after(self.inner.now(), life).into_iter().chain(resource.expires_at).min();
        let end = end.ok_or(DualResponseError::NotFound)?.trunc_subsecs(0);
        let grant = Grant {
            id: resource.id,
            scopes: scopes.clone(),
            end: end.timestamp(),
            epoch: resource.link_epoch,
            paged,
        };
        let url = format!("{}?link={}", self.inner.url(&grant.id), keys.sign(&grant));
        Ok(Link::new(url, scopes, end))
    }

    /// Revokes all existing links to a result set.
    pub async fn revoke_links(&self, id: &str, access: &Access) -> Result<()> {
        let revoked = match self.inner.open(id, access, Action::Link).await {
            Ok(_) => {
                let update = ResourceUpdate::at(self.inner.now()).revoking_links();
                let updated = self.inner.options.store.update(id, update).await;
                updated.and_then(|updated| updated.map(drop).ok_or(DualResponseError::Expired))
            }
            Err(error) => Err(error),
        };
        self.inner.audit(
            access,
            Action::Link,
            id,
            (0, 0),
            revoked.as_ref().err().map(DualResponseError::code),
        );
        revoked
    }

    /// Verifies the token of a signed link, and returns the access that the link allows.
    ///
    /// # Errors
    ///
    /// Returns [`DualResponseError::Unauthorized`] if the link is invalid, for any reason.
    pub fn open_link(&self, token: &str) -> Result<Access> {
        let keys = self.inner.options.link_keys.as_ref();
        let grant = keys.and_then(|keys| keys.open(token, self.inner.now()));
        grant.map(|grant| Access::Link(LinkAccess(grant))).ok_or(DualResponseError::Unauthorized)
    }
}

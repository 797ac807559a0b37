//! Access control for result sets.

use async_trait::async_trait;

use super::Inner;
use crate::{
    error::{DualResponseError, Result},
    link::{Grant, Scope},
    owner::Owner,
    store::{Resource, Tombstone, TombstoneEntry},
};

/// The authorization for a call of a server method.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// The program that runs the server, which is allowed to perform all actions.
    Program,
    /// An authenticated or anonymous caller. The access policy decides which actions are allowed.
    Caller(Owner),
    /// A signed link. The scopes of the link decide which actions are allowed.
    #[non_exhaustive]
    Link(LinkAccess),
}

/// The permissions of a verified link. [`open_link`](super::DualResponseServer::open_link) creates a `LinkAccess`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAccess(pub(crate) Grant);

impl Access {
    /// Creates the authorization of a caller with this identity.
    pub fn caller(owner: Owner) -> Self {
        Self::Caller(owner)
    }

    /// Returns whether this authorization has the rights of `owner`.
    fn is(&self, owner: &Owner) -> bool {
        match self {
            Self::Program | Self::Link(_) => true,
            Self::Caller(caller) => caller == owner,
        }
    }

    /// Returns the identity of the caller, for the audit record.
    pub(crate) fn owner(&self) -> Owner {
        match self {
            Self::Caller(owner) => owner.clone(),
            Self::Program | Self::Link(_) => Owner::nobody(),
        }
    }
}

/// An action on a result set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Creating the result set.
    Create,
    /// Reading the metadata of the result set.
    Describe,
    /// Reading the rows of the result set.
    Read,
    /// Pinning or unpinning the result set, or extending the lifetime of the set.
    Pin,
    /// Deleting the result set.
    Delete,
    /// Exporting all rows or one chunk as a file.
    Export,
    /// Creating a new result set with an SQL query over the existing set.
    Query,
    /// Creating a link to the result set, or revoking the links to the result set.
    Link,
}

impl Action {
    /// Returns the name of the action in lower case, such as `read`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Describe => "describe",
            Self::Read => "read",
            Self::Pin => "pin",
            Self::Delete => "delete",
            Self::Export => "export",
            Self::Query => "query",
            Self::Link => "link",
        }
    }

    /// Returns the scope that a link needs for this action. No link allows the creation of result sets or of other
    /// links.
    fn scope(self) -> Option<Scope> {
        match self {
            Self::Describe | Self::Read | Self::Export => Some(Scope::Read),
            Self::Query => Some(Scope::Query),
            Self::Pin => Some(Scope::Pin),
            Self::Delete => Some(Scope::Delete),
            Self::Create | Self::Link => None,
        }
    }
}

impl Scope {
    /// Returns the action that the scope allows.
    pub(crate) fn action(self) -> Action {
        match self {
            Self::Read => Action::Read,
            Self::Pin => Action::Pin,
            Self::Delete => Action::Delete,
            Self::Query => Action::Query,
        }
    }
}

/// A policy that decides which callers can access a result set.
///
/// Every closure `Fn(&Resource, &Owner, Action) -> bool` implements this trait.
#[async_trait]
pub trait Authorize: Send + Sync + 'static {
    /// Returns whether `caller` is allowed to perform `action` on `resource`. If the action is not allowed, the server
    /// responds that the result set does not exist.
    async fn authorize(&self, resource: &Resource, caller: &Owner, action: Action) -> bool;
}

#[async_trait]
impl<F> Authorize for F
where
    F: Fn(&Resource, &Owner, Action) -> bool + Send + Sync + 'static,
{
    async fn authorize(&self, resource: &Resource, caller: &Owner, action: Action) -> bool {
        self(resource, caller, action)
    }
}

impl Inner {
    /// Opens a set to read or export its rows. Records a rejected attempt to open a result set in the audit.
    pub(crate) async fn open_rows(&self, id: &str, access: &Access, action: Action) -> Result<Resource> {
        let opened = self.open(id, access, action).await;
        if let Err(error) = &opened {
            self.audit(access, action, id, (0, 0), Some(error.code()));
        }
        opened
    }

    /// Reads a result set from the store, and checks that `access` allows the action.
    ///
    /// A caller gets the same error for a missing result set and for the set of another owner.
    pub(crate) async fn open(&self, id: &str, access: &Access, action: Action) -> Result<Resource> {
        // A link contains the ID of its set and its scopes. The ID and the scopes are checked before any lookup.
        check_link(id, access, action)?;
        self.read_clock().await;
        let Some(resource) = self.options.store.get(id).await? else {
            return Err(match self.options.store.tombstone(id).await? {
                Some(TombstoneEntry { tombstone: Tombstone::Expired, owner }) if access.is(&owner) => {
                    DualResponseError::Expired
                }
                _ => DualResponseError::NotFound,
            });
        };
        self.permit(&resource, access, action).await?;
        Ok(resource)
    }

    /// Checks whether an action is allowed on a result set that is already open. The check does not read from the
    /// store of result sets.
    pub(crate) async fn permit(&self, resource: &Resource, access: &Access, action: Action) -> Result<()> {
        check_link(&resource.id, access, action)?;
        let may = match access {
            Access::Link(LinkAccess(grant)) if grant.epoch != resource.link_epoch => {
                return Err(DualResponseError::Unauthorized);
            }
            Access::Program | Access::Link(_) => true,
            Access::Caller(caller) => match &self.options.authorize {
                Some(authorize) => authorize.authorize(resource, caller, action).await,
                None => resource.owner == *caller,
            },
        };
        if !may {
            return Err(DualResponseError::NotFound);
        }
        if resource.is_expired(self.now()) {
            return Err(DualResponseError::Expired);
        }
        Ok(())
    }
}

/// Checks whether a link is valid for this result set and this action.
fn check_link(id: &str, access: &Access, action: Action) -> Result<()> {
    let Access::Link(LinkAccess(grant)) = access else { return Ok(()) };
    if grant.id != id {
        return Err(DualResponseError::Unauthorized);
    }
    let allowed = action.scope().is_some_and(|scope| grant.scopes.contains(&scope));
    if !allowed || (grant.paged && action == Action::Export) {
        return Err(DualResponseError::Forbidden);
    }
    Ok(())
}

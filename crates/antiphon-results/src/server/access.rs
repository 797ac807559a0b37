//! Who may do what with which set.

use async_trait::async_trait;

use super::Inner;
use crate::{
    error::{DualResponseError, Result},
    link::{Grant, Scope},
    owner::Owner,
    store::{Resource, Tombstone, TombstoneEntry},
};

/// How whoever asks has shown that they may.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// The program itself: it may do everything.
    Program,
    /// A caller: who they are, as far as anybody knows.
    Caller(Owner),
    /// A signed link.
    #[non_exhaustive]
    Link(LinkAccess),
}

/// What a link that was brought allows. Only a server that has the keys can make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAccess(pub(crate) Grant);

impl Access {
    /// Whoever the caller is.
    pub fn caller(owner: Owner) -> Self {
        Self::Caller(owner)
    }

    /// Whether it is the owner's, or as good.
    fn is(&self, owner: &Owner) -> bool {
        match self {
            Self::Program | Self::Link(_) => true,
            Self::Caller(caller) => caller == owner,
        }
    }

    /// Who it is, for the audit.
    pub(crate) fn owner(&self) -> Owner {
        match self {
            Self::Caller(owner) => owner.clone(),
            Self::Program | Self::Link(_) => Owner::nobody(),
        }
    }
}

/// What is to be done with a result set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Making it.
    Create,
    /// Reading what is known of it.
    Describe,
    /// Reading its rows.
    Read,
    /// Pinning it, unpinning it, or letting it live longer.
    Pin,
    /// Deleting it.
    Delete,
    /// Taking all its rows away in a format, or some of its parts.
    Export,
    /// Making a new set by a query over it.
    Query,
    /// Making a link to it, or making the links made so far no longer good.
    Link,
}

impl Action {
    /// The action in a word.
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

    /// What a link must allow for it; no link allows making links.
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
    /// What a link with it is for.
    pub(crate) fn action(self) -> Action {
        match self {
            Self::Read => Action::Read,
            Self::Pin => Action::Pin,
            Self::Delete => Action::Delete,
            Self::Query => Action::Query,
        }
    }
}

/// Decides who may do what with which set.
///
/// Every closure `Fn(&Resource, &Owner, Action) -> bool` is one.
#[async_trait]
pub trait Authorize: Send + Sync + 'static {
    /// Whether `caller` may do this with `resource`. Who may not is told that there is no such set.
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
    /// The set, for who may read its rows or take them away. That they may not is for the audit too.
    pub(crate) async fn open_rows(&self, id: &str, access: &Access, action: Action) -> Result<Resource> {
        let opened = self.open(id, access, action).await;
        if let Err(error) = &opened {
            self.audit(access, action, id, (0, 0), Some(error.code()));
        }
        opened
    }

    /// The set, for somebody who may do this with it.
    ///
    /// What is not there and what is not theirs are the same to a caller.
    pub(crate) async fn open(&self, id: &str, access: &Access, action: Action) -> Result<Resource> {
        // A link says by itself what it is for; that is judged before anything is looked up.
        check_link(id, access, action)?;
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

    /// Checks whether this may be done with a set that was opened, possibly for something else. Reads nothing.
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

/// Checks whether a link is for this set and for this.
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

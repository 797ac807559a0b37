//! Limits the concurrent work of each tenant.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    error::{DualResponseError, Result},
    owner::Owner,
};

/// If the list has more tenants than this threshold, tenants without running work are removed from the list.
const SWEEP_THRESHOLD: usize = 1024;

/// Slots for concurrent work. Each tenant has the same number of slots. A principal without a tenant has its own
/// slots.
pub(crate) struct Places {
    each: usize,
    taken: Mutex<HashMap<Owner, Weak<Semaphore>>>,
}

impl Places {
    pub(crate) fn new(each: usize) -> Self {
        Self { each: each.clamp(1, Semaphore::MAX_PERMITS), taken: Mutex::default() }
    }

    /// Takes a slot of the owner's tenant. If no slot is free, waits for at most `wait`.
    pub(in crate::server) async fn take(
        &self,
        owner: &Owner,
        wait: Duration,
    ) -> Result<OwnedSemaphorePermit> {
        let places = self.of(owner);
        match tokio::time::timeout(wait, places.acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(DualResponseError::Busy { retry_after: wait }),
        }
    }

    fn of(&self, owner: &Owner) -> Arc<Semaphore> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.len() >= SWEEP_THRESHOLD {
            taken.retain(|_, places| places.strong_count() > 0);
        }
        let places = taken.entry(sharing(owner)).or_default();
        // The semaphore of a share is not dropped while one of its slots is in use.
        places.upgrade().unwrap_or_else(|| {
            let fresh = Arc::new(Semaphore::new(self.each));
            *places = Arc::downgrade(&fresh);
            fresh
        })
    }
}

/// Returns the tenant of an owner, or the principal if the owner has no tenant. The slots for concurrent work belong
/// to this tenant or principal.
fn sharing(owner: &Owner) -> Owner {
    let principal = owner.principal.clone().filter(|_| owner.tenant.is_none());
    Owner { tenant: owner.tenant.clone(), principal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tenant_shares_its_places_and_whoever_is_in_none_has_their_own() {
        let places = Places::new(1);
        let take = async |owner: Owner| places.take(&owner, Duration::ZERO).await;
        let _acme = take(Owner::principal("ada").with_tenant("acme")).await.unwrap();
        take(Owner::principal("grace").with_tenant("acme")).await.unwrap_err();
        let ada = take(Owner::principal("ada")).await.unwrap();
        take(Owner::principal("ada")).await.unwrap_err();
        drop(take(Owner::principal("grace")).await.unwrap());
        // A principal and a tenant with the same name are different owners.
        drop(take(Owner::principal("acme")).await.unwrap());
        drop(take(Owner::nobody()).await.unwrap());
        drop(ada);
        drop(take(Owner::principal("ada")).await.unwrap());
    }
}

//! How much of a server one tenant may take at once.

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

/// From so many on, those are forgotten that have nothing under way.
const SWEEP_THRESHOLD: usize = 1024;

/// Places of which every tenant has as many, and none can take another's. Whoever is in no tenant has their own.
pub(crate) struct Places {
    each: usize,
    taken: Mutex<HashMap<Owner, Weak<Semaphore>>>,
}

impl Places {
    pub(crate) fn new(each: usize) -> Self {
        Self { each: each.clamp(1, Semaphore::MAX_PERMITS), taken: Mutex::default() }
    }

    /// Takes one, and waits for it for a while.
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
        // Whoever has a place keeps the places of those who share them.
        places.upgrade().unwrap_or_else(|| {
            let fresh = Arc::new(Semaphore::new(self.each));
            *places = Arc::downgrade(&fresh);
            fresh
        })
    }
}

/// Those who share places: all of a tenant. Where there are no tenants, everybody is on their own.
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
        // A name is not the tenant of that name.
        drop(take(Owner::principal("acme")).await.unwrap());
        drop(take(Owner::nobody()).await.unwrap());
        drop(ada);
        drop(take(Owner::principal("ada")).await.unwrap());
    }
}

//! Operations over all buckets of a space: listings, claims and removals.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::{
    fate::{NAME, odd_reply},
    keys::millis,
    reply::{self, Parts},
    script,
    store::{KEPT, ROOM, RedisStore},
};
use crate::{
    error::{Error, Result},
    store::{Cursor, Page, Record, Revision},
};

/// The maximum number of records of one page and of one claim.
const MOST: usize = 1000;

/// The position at which a listing continues: a bucket, and the last listed key in the bucket.
struct Position {
    bucket: u16,
    after: Option<String>,
}

impl Position {
    fn read(cursor: Option<&Cursor>, buckets: u16) -> Result<Self> {
        let Some(cursor) = cursor else { return Ok(Self { bucket: 0, after: None }) };
        let read = || {
            let (bucket, after) = cursor.0.split_once(' ')?;
            let bucket = bucket.parse().ok().filter(|bucket| *bucket < buckets)?;
            Some(Self { bucket, after: (!after.is_empty()).then(|| after.to_owned()) })
        };
        let problem =
            "invalid cursor: the cursor is not from a listing of this backend; start the listing again";
        read().ok_or_else(|| Error::Config { problem: problem.into() })
    }

    fn write(&self) -> Cursor {
        Cursor(format!("{} {}", self.bucket, self.after.as_deref().unwrap_or_default()))
    }
}

/// A page of records from one bucket. If the bucket possibly has more records, the page also contains the key after
/// which the further records start.
struct BucketPage {
    records: Vec<Record>,
    after: Option<String>,
}

impl RedisStore {
    pub(super) async fn pages(
        &self,
        prefix: &str,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Record>> {
        let buckets = self.shared.keys.buckets();
        let limit = limit.clamp(1, MOST);
        let mut place = Position::read(after, buckets)?;
        let mut items = Vec::new();
        let mut room = ROOM;
        // Start with one bucket. If this bucket does not fill the page, read more buckets at a time, because the other
        // buckets have similar sizes.
        let mut width = 1;
        loop {
            let end = place.bucket.saturating_add(width).min(buckets);
            let wanted = limit - items.len();
            let parts = (place.bucket..end).map(|bucket| {
                let after = place.after.as_deref().filter(|_| bucket == place.bucket);
                self.part(bucket, prefix, after, wanted, room)
            });
            for (bucket, part) in (place.bucket..end).zip(try_join_all(parts).await?) {
                for record in part.records {
                    if items.len() == limit || room == 0 {
                        // The rest of the bucket belongs to the next page.
                        let next = items.last().map(|last: &Record| last.key.clone());
                        let after = next.filter(|key| self.is_in(bucket, key));
                        return Ok(Page { items, next: Some(Position { bucket, after }.write()) });
                    }
                    room = room.saturating_sub(record.value.len());
                    items.push(record);
                }
                place = match part.after {
                    Some(after) => Position { bucket, after: Some(after) },
                    None => Position { bucket: bucket + 1, after: None },
                };
                if place.after.is_some() {
                    return Ok(Page { items, next: Some(place.write()) });
                }
            }
            if place.bucket == buckets {
                return Ok(Page { items, next: None });
            }
            if items.len() == limit || room == 0 {
                return Ok(Page { items, next: Some(place.write()) });
            }
            width = width.saturating_mul(2);
        }
    }

    fn is_in(&self, bucket: u16, key: &str) -> bool {
        self.shared.keys.bucket_of(key) == self.shared.keys.bucket(bucket)
    }

    async fn part(
        &self,
        bucket: u16,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        room: usize,
    ) -> Result<BucketPage> {
        let bucket = self.shared.keys.bucket(bucket);
        let reply = self.shared.link.run(&script::LIST, bucket, |cmd| {
            match after {
                Some(after) => cmd.arg(format!("({after}")),
                None if prefix.is_empty() => cmd.arg("-"),
                None => cmd.arg(format!("[{prefix}")),
            };
            if prefix.is_empty() {
                cmd.arg("+");
            } else {
                // Names are ASCII, so this bound is after all keys with the prefix.
                cmd.arg([b"[", prefix.as_bytes(), b"\xff"].concat());
            }
            cmd.arg(limit).arg(room);
        });
        let mut parts = Parts::of(reply.await?)?;
        let after = Some(parts.text()?).filter(|after| !after.is_empty());
        Ok(BucketPage { records: records(parts)?, after })
    }

    pub(super) async fn claims(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
        let buckets = self.shared.keys.buckets();
        let mut left = limit.min(MOST);
        let mut claimed = Vec::new();
        // Each claimer starts at a random bucket, to avoid conflicts between claimers.
        let mut pending: Vec<u16> = (0..buckets).collect();
        pending.rotate_left(usize::from(random()? % buckets));
        while left > 0 && !pending.is_empty() {
            // Every bucket gets a share of the limit, so that all buckets together do not exceed the limit.
            let width = pending.len().min(left);
            let share = left / width;
            let round: Vec<u16> = pending.drain(..width).collect();
            let parts = round.iter().map(|bucket| self.claim(*bucket, prefix, lease, share));
            for (bucket, part) in round.iter().zip(try_join_all(parts).await?) {
                left -= part.len();
                if part.len() == share {
                    pending.push(*bucket);
                }
                claimed.extend(part);
            }
        }
        Ok(claimed)
    }

    pub(super) async fn removals(&self, prefix: &str, limit: usize) -> Result<usize> {
        let buckets = self.shared.keys.buckets();
        let mut left = limit.min(MOST);
        let mut removed = 0;
        let mut pending: Vec<u16> = (0..buckets).collect();
        pending.rotate_left(usize::from(random()? % buckets));
        while left > 0 && !pending.is_empty() {
            let width = pending.len().min(left);
            let share = left / width;
            let round: Vec<u16> = pending.drain(..width).collect();
            let parts = round.iter().map(|bucket| self.remove(*bucket, prefix, share));
            for (bucket, part) in round.iter().zip(try_join_all(parts).await?) {
                left = left.saturating_sub(part);
                removed += part;
                if part == share {
                    pending.push(*bucket);
                }
            }
        }
        Ok(removed)
    }

    async fn remove(&self, bucket: u16, prefix: &str, limit: usize) -> Result<usize> {
        let bucket = self.shared.keys.bucket(bucket);
        let reply = self.shared.link.run(&script::REMOVE, bucket, |cmd| {
            cmd.arg(prefix).arg(limit);
        });
        usize::try_from(reply::int(&reply.await?)?).map_err(|_| odd_reply())
    }

    async fn claim(&self, bucket: u16, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
        let bucket = self.shared.keys.bucket(bucket);
        let reply = self.shared.link.run(&script::CLAIM, bucket, |cmd| {
            cmd.arg(prefix).arg(millis(lease)).arg(limit).arg(ROOM).arg(millis(KEPT));
        });
        records(Parts::of(reply.await?)?)
    }
}

fn records(mut parts: Parts) -> Result<Vec<Record>> {
    let mut records = Vec::with_capacity(parts.left() / 3);
    while parts.left() > 0 {
        let (key, value) = (parts.text()?, parts.bytes()?);
        records.push(Record::new(key, value, Revision(parts.count()?)));
    }
    Ok(records)
}

fn random() -> Result<u16> {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes).map_err(|error| Error::busy(NAME, error))?;
    Ok(u16::from_le_bytes(bytes))
}

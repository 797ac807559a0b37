use arrow::record_batch::RecordBatch;

use super::{super::json, Encode};
use crate::error::Result;

/// An encoder for NDJSON: one JSON object on each line.
pub(super) struct Ndjson;

impl Encode for Ndjson {
    fn head(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        *out = json::lines(batch, std::mem::take(out))?;
        Ok(())
    }
}

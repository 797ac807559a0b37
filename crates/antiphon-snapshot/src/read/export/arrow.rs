use arrow::{datatypes::SchemaRef, ipc::writer::StreamWriter, record_batch::RecordBatch};

use super::Encode;
use crate::error::Result;

/// An Arrow IPC stream. Its types are plain, so no dictionary precedes a batch.
pub(super) struct Stream {
    writer: StreamWriter<Vec<u8>>,
}

impl Stream {
    pub(super) fn new(schema: &SchemaRef) -> Result<Self> {
        Ok(Self { writer: StreamWriter::try_new(Vec::new(), schema)? })
    }
}

impl Encode for Stream {
    /// Takes the schema, which the writer has written on creation. An export that starts in the middle discards it.
    fn head(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.append(self.writer.get_mut());
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        std::mem::swap(self.writer.get_mut(), out);
        let written = self.writer.write(batch);
        std::mem::swap(self.writer.get_mut(), out);
        Ok(written?)
    }

    fn tail(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.writer.finish()?;
        out.append(self.writer.get_mut());
        Ok(())
    }
}

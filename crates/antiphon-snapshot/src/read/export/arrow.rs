use arrow::{datatypes::SchemaRef, ipc::writer::StreamWriter, record_batch::RecordBatch};

use super::Encode;
use crate::error::Result;

/// An encoder for an Arrow IPC stream. The columns have plain types, so the stream contains no dictionaries before the
/// batches.
pub(super) struct Stream {
    writer: StreamWriter<Vec<u8>>,
}

impl Stream {
    pub(super) fn new(schema: &SchemaRef) -> Result<Self> {
        Ok(Self { writer: StreamWriter::try_new(Vec::new(), schema)? })
    }
}

impl Encode for Stream {
    /// Adds the schema, which the Arrow writer wrote when it was created. An export that starts in the middle discards
    /// the bytes of the schema.
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

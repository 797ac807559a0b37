use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::{EnabledStatistics, WriterProperties},
};

use super::Encode;
use crate::{config::SnapshotConfig, error::Result};

/// Encodes a new Parquet file for exports that contain only some columns or only one chunk. Each chunk of the snapshot
/// stays one chunk of the new file.
pub(super) struct File {
    writer: ArrowWriter<Vec<u8>>,
}

impl File {
    pub(super) fn new(schema: &SchemaRef, config: &SnapshotConfig) -> Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(config.compression)?))
            .set_max_row_group_row_count(None)
            .set_data_page_row_count_limit(config.page_rows)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_created_by("antiphon".into())
            .build();
        Ok(Self { writer: ArrowWriter::try_new(Vec::new(), SchemaRef::clone(schema), Some(properties))? })
    }

    fn take(&mut self, out: &mut Vec<u8>) {
        // The Parquet writer counts all bytes that it has written, so its offsets stay correct when the buffer is
        // emptied.
        out.append(self.writer.inner_mut());
    }
}

impl Encode for File {
    fn apart(&self) -> bool {
        false
    }

    fn head(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, _out: &mut Vec<u8>) -> Result<()> {
        Ok(self.writer.write(batch)?)
    }

    fn chunk(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.writer.flush()?;
        self.take(out);
        Ok(())
    }

    fn tail(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.writer.finish()?;
        self.take(out);
        Ok(())
    }
}

//! Every row, through a socket.

use std::{
    fs::File,
    io::{BufWriter, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use antiphon_results::snapshot::{ExportFormat, ExportRequest, SnapshotStore as _};
use anyhow::{Context as _, Result};
use axum::{Router, body::Body, routing::get};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::json;

use crate::{Figure, Measure, Options};

/// Ours: what the routes do, over HTTP.
pub(crate) async fn ours(options: &Options) -> Result<Figure> {
    let snapshots = options.snapshots()?;
    let format = if options.measure == Measure::Ndjson { ExportFormat::Ndjson } else { ExportFormat::Arrow };
    let id = options.id();
    let answer = move || {
        let (snapshots, id) = (snapshots.clone(), id.clone());
        async move {
            match snapshots.export(&id, &ExportRequest::new(format)).await {
                Ok(export) => Body::from_stream(export.body),
                Err(error) => Body::from(error.to_string()),
            }
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(axum::serve(listener, Router::new().route("/", get(answer))).into_future());
    let read = tokio::task::spawn_blocking(move || -> Result<(u64, Duration)> {
        let start = Instant::now();
        let mut socket = TcpStream::connect(address)?;
        socket.write_all(b"GET / HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        Ok((drained(socket)?, start.elapsed()))
    });
    let (bytes, time) = read.await??;
    // The frames of HTTP are in it: a few bytes a part.
    Ok(Figure { times: vec![time], check: json!(options.rows), bytes })
}

/// The engine alone: it reads, and writes what it has read to the socket.
pub(crate) async fn bare(options: &Options) -> Result<Figure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let (data, ndjson) = (options.data(), options.measure == Measure::Ndjson);
    let written = thread::spawn(move || -> Result<()> {
        let socket = BufWriter::with_capacity(1 << 20, listener.accept()?.0);
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(data)?)?.with_batch_size(8192);
        let schema = Arc::clone(reader.schema());
        let reader = reader.build()?;
        if ndjson {
            // As rows are written everywhere: with what is missing in them.
            let builder = arrow::json::WriterBuilder::new().with_explicit_nulls(true);
            let mut writer = builder.build::<_, arrow::json::writer::LineDelimited>(socket);
            for batch in reader {
                writer.write(&batch?)?;
            }
            writer.finish()?;
            writer.into_inner().flush()?;
        } else {
            let mut writer = arrow::ipc::writer::StreamWriter::try_new(socket, &schema)?;
            for batch in reader {
                writer.write(&batch?)?;
            }
            writer.finish()?;
            writer.into_inner()?.flush()?;
        }
        Ok(())
    });
    let start = Instant::now();
    let bytes = tokio::task::spawn_blocking(move || drained(TcpStream::connect(address)?)).await??;
    let times = vec![start.elapsed()];
    written.join().ok().context("the writer panicked")??;
    Ok(Figure { times, check: json!(options.rows), bytes })
}

fn drained(mut socket: TcpStream) -> Result<u64> {
    let mut part = vec![0; 256 * 1024];
    let mut bytes = 0;
    loop {
        match socket.read(&mut part)? {
            0 => return Ok(bytes),
            read => bytes += read as u64,
        }
    }
}

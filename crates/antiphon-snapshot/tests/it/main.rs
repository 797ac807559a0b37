//! Snapshots through the front door.
#![expect(clippy::unwrap_used, reason = "what helpers of tests unwrap is part of the test")]

mod export;
mod hostile;
mod hostile_bomb;
mod laws;
mod places;
mod read;
mod read_stats;
mod read_support;
mod round;
mod served;
mod served_client;
#[cfg(feature = "postgres")]
mod served_drift;
mod served_life;
mod served_replicas;
mod served_routes;
#[cfg(feature = "xlsx")]
mod workbook;

mod faults;
mod faults_killed;
#[cfg(feature = "sql")]
mod hostile_sql;
mod ingest_batches;
mod ingest_json;
mod ingest_support;
mod ingest_writer;
#[cfg(feature = "sql")]
mod mended;
#[cfg(feature = "aws")]
mod s3;
#[cfg(feature = "aws")]
mod s3_expired;
#[cfg(feature = "mysql")]
mod sources_mysql;
#[cfg(feature = "postgres")]
mod sources_postgres;
#[cfg(feature = "sqlite")]
mod sources_sqlite;
#[cfg(feature = "sql")]
mod sql_aggregates;
#[cfg(feature = "sql")]
mod sql_innocent;
#[cfg(feature = "sql")]
mod sql_limits;
#[cfg(feature = "sql")]
mod sql_patterns;
#[cfg(feature = "sql")]
mod sql_queries;
#[cfg(feature = "sql")]
mod sql_rows;
#[cfg(feature = "sql")]
mod stored;
mod upload_parts;
mod usage;
#[cfg(feature = "sql")]
mod views;
#[cfg(feature = "sql")]
mod views_filters;
#[cfg(feature = "sql")]
mod views_order;
#[cfg(feature = "sql")]
mod views_quota;

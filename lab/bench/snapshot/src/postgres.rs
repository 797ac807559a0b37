//! The same rows in PostgreSQL.

use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::json;
use sqlx::{Connection as _, PgConnection, Row as _};

use crate::{Figure, Measure, Options, data};

/// Loads the set as a table, if it is not there.
pub(crate) async fn load(options: &Options) -> Result<Figure> {
    let mut connection = PgConnection::connect(&options.database).await?;
    let table = table(options);
    let found: Option<i64> = sqlx::query_scalar("SELECT count(*) FROM pg_tables WHERE tablename = $1")
        .bind(&table)
        .fetch_optional(&mut connection)
        .await?;
    let start = Instant::now();
    if found == Some(0) {
        let create = format!(
            "CREATE UNLOGGED TABLE {table} (id bigint, name text, state text, control text, enrollment bigint, revenue double precision, reported timestamptz, note text)"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(&mut connection).await?;
        let mut copy = connection.copy_in_raw(&format!("COPY {table} FROM STDIN (FORMAT csv)")).await?;
        for batch in data::batches(options.rows) {
            let mut writer = arrow::csv::WriterBuilder::new().with_header(false).build(Vec::new());
            writer.write(&batch)?;
            copy.send(writer.into_inner()).await?;
        }
        copy.finish().await?;
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("VACUUM ANALYZE {table}")))
            .execute(&mut connection)
            .await?;
    }
    Ok(Figure { times: vec![start.elapsed()], check: json!(options.rows), bytes: 0 })
}

pub(crate) async fn measure(options: &Options) -> Result<Figure> {
    let mut connection = PgConnection::connect(&options.database).await?;
    let (table, offset) = (table(options), options.offset);
    let sql = match options.measure {
        Measure::SortedPage => {
            format!("SELECT * FROM {table} ORDER BY enrollment, id LIMIT 100 OFFSET {offset}")
        }
        Measure::Filter => {
            format!("SELECT count(*) AS id FROM {table} WHERE enrollment > 50000 AND state = 'NJ'")
        }
        Measure::Group => format!(
            "SELECT count(*) AS id, state, control, avg(revenue) FROM {table} GROUP BY state, control"
        ),
        _ => format!("SELECT * FROM {table} LIMIT 100 OFFSET {offset}"),
    };
    let mut figure = Figure::default();
    for _ in 0..options.repeat {
        let start = Instant::now();
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql.clone())).fetch_all(&mut connection).await?;
        figure.times.push(start.elapsed());
        let first = rows.first().context("no rows")?;
        figure.check = json!(first.get::<i64, _>("id"));
    }
    Ok(figure)
}

fn table(options: &Options) -> String {
    format!("bench_{}", options.rows)
}

//! Pages of a query on bare sqlx and axum: what one would write by hand for this one table.

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use lab::programs::rows::{ROWS, SQL, STATE, pool};
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, FromRow, PgPool, Row as _, postgres::PgRow};

#[derive(Deserialize)]
struct Request {
    offset: i64,
    limit: i64,
}

#[derive(Serialize)]
struct Institution {
    id: i64,
    name: String,
    city: String,
    state: String,
    control: String,
    enrollment: i32,
    tuition: f64,
    open: bool,
}

// Without the macros of sqlx: they compile all of sqlx a second time.
impl FromRow<'_, PgRow> for Institution {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            city: row.try_get("city")?,
            state: row.try_get("state")?,
            control: row.try_get("control")?,
            enrollment: row.try_get("enrollment")?,
            tuition: row.try_get("tuition")?,
            open: row.try_get("open")?,
        })
    }
}

#[derive(Serialize)]
struct Page {
    data: Vec<Institution>,
    total_count: i64,
    returned_count: usize,
    offset: i64,
    has_next: bool,
    next_offset: Option<i64>,
}

async fn page(State(pool): State<PgPool>, Json(request): Json<Request>) -> Result<Json<Page>, StatusCode> {
    // The text is the program's own, twice.
    let sql = AssertSqlSafe(format!("{SQL} ORDER BY id LIMIT $2 OFFSET $3"));
    let data: Vec<Institution> = sqlx::query_as(sql)
        .bind(STATE)
        .bind(request.limit)
        .bind(request.offset)
        .fetch_all(&pool)
        .await
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let end = request.offset + i64::try_from(data.len()).unwrap_or(i64::MAX);
    Ok(Json(Page {
        total_count: ROWS,
        returned_count: data.len(),
        offset: request.offset,
        has_next: end < ROWS,
        next_offset: (end < ROWS).then_some(end),
        data,
    }))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    lab::programs::serve(Router::new().route("/page", post(page)).with_state(pool().await?)).await
}

//! Seven thousand institutions that do not exist, the same ones every time.

use sqlx::PgPool;

/// How many there are.
pub const COUNT: i32 = 7_000;

const STATES: [&str; 50] = [
    "AL", "AK", "AZ", "AR", "CA", "CO", "CT", "DE", "FL", "GA", "HI", "ID", "IL", "IN", "IA", "KS", "KY",
    "LA", "ME", "MD", "MA", "MI", "MN", "MS", "MO", "MT", "NE", "NV", "NH", "NJ", "NM", "NY", "NC", "ND",
    "OH", "OK", "OR", "PA", "RI", "SC", "SD", "TN", "TX", "UT", "VT", "VA", "WA", "WV", "WI", "WY",
];
const FIRST: [&str; 16] = [
    "Aurora", "Birch", "Cedar", "Delta", "Elm", "Falcon", "Granite", "Harbor", "Iron", "Juniper", "Kestrel",
    "Laurel", "Maple", "North", "Oak", "Prairie",
];
const SECOND: [&str; 8] = ["Ridge", "Valley", "Lake", "Grove", "Point", "Hill", "River", "Field"];
const KIND: [&str; 4] = ["University", "College", "Institute of Technology", "Community College"];

/// Makes the table, if it is not there. Replicas may do so at the same time.
///
/// # Errors
///
/// When the database does not let them.
pub async fn prepare(pool: &PgPool) -> sqlx::Result<()> {
    let mut transaction = pool.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock(20250115)").execute(&mut *transaction).await?;
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS institutions (
            id integer PRIMARY KEY, name text NOT NULL, state text NOT NULL,
            control text NOT NULL, enrollment integer NOT NULL)",
    )
    .execute(&mut *transaction)
    .await?;
    let count: i64 =
        sqlx::query_scalar("SELECT count(*) FROM institutions").fetch_one(&mut *transaction).await?;
    if count == 0 {
        let ids: Vec<i32> = (1..=COUNT).collect();
        let numbers = || (1..=COUNT.unsigned_abs() as usize).map(|id| id * 2_654_435_761 % 4_294_967_291);
        let names: Vec<String> = numbers()
            .map(|n| format!("{} {} {}", FIRST[n % 16], SECOND[n / 16 % 8], KIND[n / 128 % 4]))
            .collect();
        let states: Vec<&str> = numbers().map(|n| STATES[n / 512 % 50]).collect();
        let controls: Vec<&str> =
            numbers().map(|n| if n / 25_600 % 5 < 2 { "public" } else { "private" }).collect();
        let enrollments: Vec<i32> =
            numbers().map(|n| i32::try_from(n % 60_000).unwrap_or_default()).collect();
        sqlx::query("INSERT INTO institutions SELECT * FROM unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::int[])")
            .bind(ids)
            .bind(names)
            .bind(states)
            .bind(controls)
            .bind(enrollments)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await
}

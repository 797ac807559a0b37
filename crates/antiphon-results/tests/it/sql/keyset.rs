//! Pages that go on from one another, against rows that were sorted by hand.

use std::{cmp::Ordering, collections::BTreeSet, fmt::Write as _};

use antiphon_results::{ColumnDefinition, Order, Row, Sort, source::Query};
use serde_json::{Value, json};

use super::{Database, Random, Spec, after, chain, place, read, table};
use antiphon_results::source::PageRequest;

/// A row: a key of two columns, and two columns to sort by, with ties and nulls.
#[derive(Clone, Debug, PartialEq)]
struct Item {
    a: i64,
    b: String,
    number: Option<i64>,
    text: Option<String>,
}

impl Item {
    fn random(random: &mut Random) -> Self {
        let letter =
            |random: &mut Random| char::from(b"abcde"[usize::try_from(random.below(5)).unwrap()]).to_string();
        let number = random.below(5);
        Self {
            a: i64::try_from(random.below(6)).unwrap(),
            b: format!("{}{}", letter(random), random.below(4)),
            number: (number > 0).then(|| i64::try_from(number).unwrap() - 2),
            text: (random.below(3) > 0).then(|| letter(random)),
        }
    }

    fn key(&self) -> (i64, &str) {
        (self.a, &self.b)
    }

    fn values(&self) -> String {
        let number = self.number.map_or("NULL".into(), |number| number.to_string());
        let text = self.text.as_ref().map_or("NULL".into(), |text| format!("'{text}'"));
        format!("({}, '{}', {number}, {text})", self.a, self.b)
    }

    fn of(row: &Row) -> Self {
        Self {
            a: row["a"].as_i64().unwrap(),
            b: row["b"].as_str().unwrap().into(),
            number: row["number"].as_i64(),
            text: row["text"].as_str().map(Into::into),
        }
    }
}

fn nulls_are_greatest<T: Ord>(left: Option<&T>, right: Option<&T>) -> Ordering {
    match (left, right) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(left), Some(right)) => left.cmp(right),
    }
}

fn compare(sort: Option<&Sort>, left: &Item, right: &Item) -> Ordering {
    let by_sort = sort.map_or(Ordering::Equal, |sort| {
        let order = match sort.field.as_str() {
            "number" => nulls_are_greatest(left.number.as_ref(), right.number.as_ref()),
            "text" => nulls_are_greatest(left.text.as_ref(), right.text.as_ref()),
            "a" => left.a.cmp(&right.a),
            _ => left.b.cmp(&right.b),
        };
        if sort.order == Order::Desc { order.reverse() } else { order }
    });
    by_sort.then_with(|| left.key().cmp(&right.key()))
}

fn sorts() -> Vec<Option<Sort>> {
    let fields = ["number", "text", "a", "b"];
    let both = fields.into_iter().flat_map(|field| [Sort::ascending(field), Sort::descending(field)]);
    both.map(Some).chain([None]).collect()
}

struct Table {
    database: Database,
    name: String,
    query: std::sync::Arc<dyn Query>,
}

impl Table {
    async fn new(database: Database) -> Self {
        let name = table();
        database
            .execute(&format!(
                "CREATE TABLE {name} (a INTEGER NOT NULL, b VARCHAR(9) NOT NULL, number INTEGER, text VARCHAR(9), PRIMARY KEY (a, b))"
            ))
            .await;
        let query = database.query(Spec {
            sql: format!("SELECT * FROM {name} -- all of them"),
            columns: vec![
                ColumnDefinition::integer("a"),
                ColumnDefinition::string("b"),
                ColumnDefinition::integer("number").nullable(),
                ColumnDefinition::string("text"),
            ],
            key: vec!["a", "b"],
            ..Spec::default()
        });
        Self { database, name, query }
    }

    async fn fill(&self, items: &[Item]) {
        self.database.execute(&format!("DELETE FROM {}", self.name)).await;
        if !items.is_empty() {
            let values: Vec<String> = items.iter().map(Item::values).collect();
            self.database.execute(&format!("INSERT INTO {} VALUES {}", self.name, values.join(", "))).await;
        }
    }

    async fn page(&self, sort: Option<&Sort>, last: Option<&Row>, limit: u64) -> Vec<Row> {
        let page = match last {
            Some(row) => after(limit, sort, place(row, sort, &["a", "b"])),
            None => PageRequest::new(0, limit).with_sort(sort.cloned()),
        };
        let rows = read(&*self.query, &Value::Null, page).await;
        rows.unwrap_or_else(|error| panic!("{}", chain(&error))).read().unwrap()
    }
}

fn distinct(random: &mut Random, count: u64) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for _ in 0..count {
        let item = Item::random(random);
        if !items.iter().any(|other| other.key() == item.key()) {
            items.push(item);
        }
    }
    items
}

#[tokio::test]
async fn pages_in_a_row_are_the_whole_in_order() {
    for database in Database::all().await {
        let table = Table::new(database).await;
        for seed in 0..12 {
            let mut random = Random(seed);
            let count = random.below(25);
            let items = distinct(&mut random, count);
            table.fill(&items).await;
            for sort in sorts() {
                let mut expected = items.clone();
                expected.sort_by(|left, right| compare(sort.as_ref(), left, right));
                let limit = 1 + random.below(7);
                let mut found: Vec<Row> = Vec::new();
                loop {
                    let page = table.page(sort.as_ref(), found.last(), limit).await;
                    assert!(page.len() as u64 <= limit);
                    if page.is_empty() {
                        break;
                    }
                    found.extend(page);
                    assert!(found.len() <= items.len(), "seed {seed}, {sort:?}: pages repeat");
                }
                let found: Vec<Item> = found.iter().map(Item::of).collect();
                assert_eq!(found, expected, "seed {seed}, {sort:?}, {limit} a page");
            }
        }
    }
}

#[tokio::test]
async fn rows_that_come_and_go_between_pages_neither_repeat_nor_hide_others() {
    for database in Database::all().await {
        let table = Table::new(database).await;
        for (seed, sort) in (100..).zip(sorts().into_iter().cycle().take(18)) {
            let mut random = Random(seed);
            let items = distinct(&mut random, 25);
            table.fill(&items).await;
            let mut stayed: Vec<Item> = items.clone();
            let mut present = items.clone();
            let limit = 1 + random.below(7);
            let mut seen = BTreeSet::new();
            let mut last: Option<Row> = None;
            loop {
                let page = table.page(sort.as_ref(), last.as_ref(), limit).await;
                for row in &page {
                    let item = Item::of(row);
                    assert!(
                        seen.insert((item.a, item.b.clone())),
                        "seed {seed}, {sort:?}: {item:?} came twice"
                    );
                }
                let Some(row) = page.last() else { break };
                last = Some(row.clone());
                // Somebody deletes a row, perhaps the very one that the next page goes on from.
                let gone = if random.below(2) == 0 { Some(Item::of(row)) } else { present.pop() };
                if let Some(gone) = gone {
                    let sql = format!("DELETE FROM {} WHERE a = {} AND b = '{}'", table.name, gone.a, gone.b);
                    table.database.execute(&sql).await;
                    stayed.retain(|item| item.key() != gone.key());
                    present.retain(|item| item.key() != gone.key());
                }
                // Somebody adds one that was never there.
                let new = Item { b: format!("n{}", seen.len()), ..Item::random(&mut random) };
                if !present.iter().any(|item| item.key() == new.key()) && seen.len() < 60 {
                    let mut sql = format!("INSERT INTO {} VALUES ", table.name);
                    write!(sql, "{}", new.values()).unwrap();
                    table.database.execute(&sql).await;
                }
            }
            for item in stayed {
                assert!(
                    seen.contains(&(item.a, item.b.clone())),
                    "seed {seed}, {sort:?}: {item:?} was missed"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_place_to_go_on_from_must_be_of_the_query() {
    for database in Database::all().await {
        let table = Table::new(database).await;
        let sort = Sort::ascending("number");
        let check = async |sort: Option<&Sort>, values: Vec<Value>| {
            read(&*table.query, &Value::Null, after(5, sort, values)).await.unwrap_err().to_string()
        };
        let wrong = "the cursor does not belong to this query";
        assert_eq!(check(None, vec![]).await, wrong);
        assert_eq!(check(None, vec![json!(1)]).await, wrong);
        assert_eq!(check(None, vec![json!(1), json!("a"), json!(2)]).await, wrong);
        assert_eq!(check(Some(&sort), vec![json!(1), json!("a")]).await, wrong);
        let invalid = "the cursor has an invalid value for column `a`";
        assert_eq!(check(None, vec![json!(null), json!("a")]).await, invalid);
        assert_eq!(check(None, vec![json!([1]), json!("a")]).await, invalid);
    }
}

//! What a spreadsheet finds in a workbook.

use std::{
    collections::HashMap,
    io::{Cursor, Read as _},
    sync::Arc,
};

use antiphon_results::{
    DualResponseError,
    snapshot::{ExportFormat, ExportRequest, SnapshotStore as _},
};
use antiphon_snapshot::arrow::array::{ArrayRef, RecordBatch, StringArray};
use zip::ZipArchive;

use crate::read_support::{Disk, Shelves, every_kind, exported, id, numbered, write};

/// The files in an archive, by their names.
fn unzip(archive: &[u8]) -> HashMap<String, String> {
    let mut archive = ZipArchive::new(Cursor::new(archive)).unwrap();
    (0..archive.len())
        .map(|at| {
            let mut file = archive.by_index(at).unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            (file.name().unwrap().into_owned(), text)
        })
        .collect()
}

/// The value of an attribute of a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut pieces = tag.split('"');
    loop {
        let (key, value) = (pieces.next()?, pieces.next()?);
        if key.trim().strip_suffix('=') == Some(name) {
            return Some(value);
        }
    }
}

/// The elements of this name that have attributes: these, and what is inside.
fn elements<'a>(xml: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    let (open, close) = (format!("<{name} "), format!("</{name}>"));
    let pieces = xml.split(open.as_str()).skip(1).map(|piece| piece.split_once('>').unwrap());
    pieces
        .map(|(tag, rest)| match tag.strip_suffix('/') {
            Some(tag) => (tag, ""),
            None => (tag, rest.split_once(close.as_str()).map_or(rest, |(inside, _)| inside)),
        })
        .collect()
}

/// A cell as a spreadsheet sees it.
#[derive(Debug, PartialEq)]
enum Cell {
    Text(String),
    Number(f64),
    Truth(bool),
    /// A number that is shown as a moment, and how.
    Moment(f64, String),
}

/// The cells of the first sheet, by where they are.
fn cells(files: &HashMap<String, String>) -> HashMap<String, Cell> {
    let styles = &files["xl/styles.xml"];
    let formats: HashMap<&str, &str> = elements(styles, "numFmt")
        .into_iter()
        .map(|(tag, _)| (attribute(tag, "numFmtId").unwrap(), attribute(tag, "formatCode").unwrap()))
        .collect();
    let uses = styles.split_once("<cellXfs ").unwrap().1.split_once("</cellXfs>").unwrap().0;
    let uses: Vec<&str> =
        elements(uses, "xf").into_iter().map(|(tag, _)| attribute(tag, "numFmtId").unwrap()).collect();
    let cell = |(tag, inside): (&str, &str)| {
        let place = attribute(tag, "r").unwrap().to_owned();
        assert!(!inside.contains("<f"), "{place} is a formula: {inside}");
        let value = || inside.split_once("<v>").unwrap().1.split_once("</v>").unwrap().0;
        let style = attribute(tag, "s").map_or(0, |style| style.parse::<usize>().unwrap());
        let cell = match (attribute(tag, "t"), formats.get(uses[style])) {
            (Some("inlineStr"), _) => {
                let text = inside.split_once("<t").unwrap().1.split_once('>').unwrap().1;
                Cell::Text(text.split_once("</t>").unwrap().0.to_owned())
            }
            (Some("b"), _) => Cell::Truth(value() == "1"),
            (None, Some(format)) => Cell::Moment(value().parse().unwrap(), (*format).to_owned()),
            (None, None) => Cell::Number(value().parse().unwrap()),
            other => panic!("{place} is {other:?}"),
        };
        (place, cell)
    };
    elements(&files["xl/worksheets/sheet1.xml"], "c").into_iter().map(cell).collect()
}

#[tokio::test]
async fn workbook_has_the_cells() {
    let mut shelves = Shelves::new();
    while let Some(shelf) = shelves.next().await {
        write(&shelf.snapshots, "rs_kinds", vec![every_kind()]).await;
        let book = exported(&shelf.snapshots, "rs_kinds", ExportRequest::new(ExportFormat::Xlsx)).await;
        let files = unzip(&book);
        let sheets = elements(&files["xl/workbook.xml"], "sheet");
        let names: Vec<_> = sheets.iter().map(|(tag, _)| attribute(tag, "name").unwrap()).collect();
        assert_eq!(names, ["Sheet1"]);

        let mut cells = cells(&files);
        let text = |text: &str| Cell::Text(text.to_owned());
        let header = every_kind().schema();
        for (column, field) in ('A'..).zip(header.fields()) {
            assert_eq!(cells.remove(&format!("{column}1")), Some(text(field.name())));
        }
        // Numbers are numbers as long as a cell can hold all their digits.
        for (place, expected) in [
            ("A2", text("9223372036854775807")),
            ("B2", Cell::Truth(true)),
            ("C2", Cell::Number(0.1)),
            ("D2", text("12345678901234567890123456.7890")),
            // What looks like a formula is none.
            ("H2", text("=1+1")),
            ("I2", text("AP8=")),
            ("J2", text(r#"{"b": [1, 2]}"#)),
            ("K2", text(r#"{"a":1,"é":"x"}"#)),
            ("A3", text("-9223372036854775808")),
            ("B3", Cell::Truth(false)),
            ("D3", Cell::Number(-0.5)),
            ("J3", text("not json")),
            ("K3", text(r#"{"a":null,"é":"ü"}"#)),
        ] {
            assert_eq!(cells.remove(place), Some(expected), "{place}");
        }
        // Moments are days since the end of 1899, and parts of days.
        let evening = 45_244.0 + (22.0 * 3600.0 + 13.0 * 60.0 + 20.25) / 86_400.0;
        for (place, expected, shown) in [
            ("E2", 44_569.0, "yyyy-mm-dd"),
            ("F2", evening, "yyyy-mm-dd hh:mm:ss"),
            ("G2", evening, "yyyy-mm-dd hh:mm:ss"),
            ("E3", 25_568.0, "yyyy-mm-dd"),
            ("F3", 25_569.0, "yyyy-mm-dd hh:mm:ss"),
            ("G3", 25_569.0, "yyyy-mm-dd hh:mm:ss"),
        ] {
            let Some(Cell::Moment(found, format)) = cells.remove(place) else {
                panic!("{place} is no moment")
            };
            assert!((found - expected).abs() < 1e-6, "{place}: {found}");
            assert_eq!(format, shown, "{place}");
        }
        let Some(Cell::Text(odd)) = cells.remove("H3") else { panic!("H3 is no text") };
        assert!(odd.starts_with("\u{2028}\"\\") && odd.ends_with(",🎉"), "{odd:?}");
        // A text of no letters may be a cell or none; what is nothing is none.
        cells.remove("I3");
        assert!(cells.is_empty(), "{cells:?}");
    }
}

#[tokio::test]
async fn text_that_no_cell_can_hold_is_refused_by_its_column() {
    let disk = Disk::new();
    let long = numbered(0..1);
    let wide = StringArray::from(vec!["x".repeat(40_000)]);
    let columns: Vec<ArrayRef> = vec![Arc::clone(long.column(0)), Arc::new(wide), Arc::clone(long.column(2))];
    let batch = RecordBatch::try_new(long.schema(), columns).unwrap();
    write(&disk.snapshots, "rs_long", vec![batch]).await;
    let error =
        disk.snapshots.export(&id("rs_long"), &ExportRequest::new(ExportFormat::Xlsx)).await.unwrap_err();
    assert!(matches!(&error, DualResponseError::Invalid(text) if text.contains("`name`")), "{error:?}");
}

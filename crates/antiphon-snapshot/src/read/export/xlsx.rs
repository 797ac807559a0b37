//! Exports a snapshot as an Excel workbook. The index of a workbook is at the start of the file, but is known only at
//! the end. So an export writes the workbook to a temporary file.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    ops::ControlFlow,
};

use antiphon_results::{
    DualResponseError,
    snapshot::{ByteRange, Export},
};
use arrow::{
    datatypes::{DataType, Field, SchemaRef},
    json::writer::make_encoder,
    record_batch::RecordBatch,
};
use bytes::Bytes;
use chrono::{Datelike as _, NaiveDate, NaiveDateTime, NaiveTime, Timelike as _};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rust_xlsxwriter::{DocProperties, ExcelDateTime, Format, Workbook, Worksheet, XlsxError};

use super::{
    super::{
        decode::{Decoder, Wanted},
        json,
    },
    Job,
};
use crate::{
    error::{Error, Result},
    inner::blocking,
};

/// The maximum number of rows in a spreadsheet, without the header.
const MAX_ROWS: u64 = 1_048_575;
const MAX_COLUMNS: usize = 16_384;

/// The maximum length of a cell in UTF-16 code units.
const MAX_TEXT: usize = 32_767;

/// The number of digits that a spreadsheet cell preserves for any number.
const DIGITS: usize = 15;

/// The number of bytes that are read from the temporary file at a time.
const PART: u64 = 256 * 1024;

pub(super) async fn export(job: Job, range: Option<ByteRange>) -> Result<Export, DualResponseError> {
    let rows = job.opened.starts[job.chunks.end] - job.opened.starts[job.chunks.start];
    let columns = job.columns.schema().fields().len();
    if rows > MAX_ROWS || columns > MAX_COLUMNS {
        return Err(Error::Invalid(format!(
            "the result has {rows} rows and {columns} columns, and the maximum of xlsx is {MAX_ROWS} rows and {MAX_COLUMNS} columns; use csv, parquet, arrow or ndjson, or filter the rows"
        ))
        .into());
    }
    // The whole workbook would have to be written again for every range. So the response is the whole workbook,
    // without a length. The workbook is written only if the body is read.
    if range.is_some() {
        let tag = job.tag.clone();
        let whole = async move { write(&job).await.map(|whole| whole.body) };
        return Ok(Export::new(tag, None, stream::once(whole).try_flatten().boxed()));
    }
    write(&job).await
}

async fn write(job: &Job) -> Result<Export, DualResponseError> {
    let file = written(job).await?;
    let total = file.metadata().map_err(broken)?.len();
    job.opened.known.total(&job.tag, total);
    let begin = Some((file, 0, total));
    let body = stream::unfold(begin, |state| async move {
        let (mut file, at, end) = state?;
        if at >= end {
            return None;
        }
        let read = blocking(move || {
            file.seek(SeekFrom::Start(at)).map_err(broken)?;
            let mut bytes = Vec::new();
            (&mut file).take(PART.min(end - at)).read_to_end(&mut bytes).map_err(broken)?;
            match bytes.len() as u64 {
                0 => Err(Error::Broken("the temporary xlsx file is truncated".into())),
                length => Ok((Bytes::from(bytes), file, at + length)),
            }
        });
        match read.await {
            Ok((bytes, file, at)) => Some((Ok(bytes), Some((file, at, end)))),
            Err(error) => Some((Err(DualResponseError::from(error)), None)),
        }
    });
    Ok(Export::new(&job.tag, Some(total), body.boxed()))
}

struct Book {
    workbook: Workbook,
    schema: SchemaRef,
    row: u32,
    day: Format,
    moment: Format,
}

async fn written(job: &Job) -> Result<File> {
    let mut workbook = Workbook::new();
    let at = job.opened.manifest.written_at;
    // The creation time of the workbook is the creation time of the snapshot, so that the same rows produce the same
    // file.
    let created = u16::try_from(at.year())
        .ok()
        .and_then(|year| ExcelDateTime::from_ymd(year, small(at.month()), small(at.day())).ok())
        .and_then(|day| {
            day.and_hms(u16::from(small(at.hour())), small(at.minute()), small(at.second())).ok()
        });
    if let Some(created) = created {
        workbook.set_properties(&DocProperties::new().set_creation_datetime(&created));
    }
    let schema = SchemaRef::clone(job.columns.schema());
    let sheet = workbook.add_worksheet_with_constant_memory().map_err(unwritten)?;
    sheet.set_freeze_panes(1, 0).map_err(unwritten)?;
    let bold = Format::new().set_bold();
    for (column, field) in (0_u16..).zip(schema.fields()) {
        fits(field.name(), field.name(), 0)?;
        sheet.write_string_with_format(0, column, field.name(), &bold).map_err(unwritten)?;
    }
    let mut book = Book {
        workbook,
        schema,
        row: 1,
        day: Format::new().set_num_format("yyyy-mm-dd"),
        moment: Format::new().set_num_format("yyyy-mm-dd hh:mm:ss"),
    };
    for chunk in job.chunks.clone() {
        let decoder = Decoder::new(&job.inner, &job.opened, &job.columns, Wanted::chunk(chunk)).await?;
        (_, book) = decoder.drive(book, Book::add).await?;
    }
    let rows = job.opened.starts[job.chunks.end] - job.opened.starts[job.chunks.start];
    if u64::from(book.row) != rows + 1 {
        let found = book.row - 1;
        return Err(Error::Altered(format!(
            "the Parquet file is damaged: it has {found} rows, but the footer lists {rows} rows"
        )));
    }
    blocking(move || {
        let file = tempfile::tempfile().map_err(broken)?;
        book.workbook.save_to_writer(&file).map_err(unwritten)?;
        Ok(file)
    })
    .await
}

impl Book {
    fn add(&mut self, batch: &RecordBatch) -> Result<ControlFlow<()>> {
        let options = json::options();
        let columns = self.schema.fields().iter().zip(batch.columns());
        let mut encoders = columns
            .map(|(field, array)| make_encoder(field, array, &options))
            .collect::<Result<Vec<_>, _>>()?;
        let sheet = self.workbook.worksheet_from_index(0).map_err(unwritten)?;
        let mut cell = Vec::new();
        for row in 0..batch.num_rows() {
            for (column, encoder) in (0_u16..).zip(&mut encoders) {
                if encoder.is_null(row) {
                    continue;
                }
                cell.clear();
                encoder.encode(row, &mut cell);
                let text = std::str::from_utf8(&cell).map_err(|error| Error::Broken(error.into()))?;
                let field = self.schema.field(usize::from(column));
                let format = match field.data_type() {
                    DataType::Date32 | DataType::Date64 => Some(&self.day),
                    DataType::Timestamp(..) => Some(&self.moment),
                    _ => None,
                };
                put(sheet, (self.row, column), field, text, format)?;
            }
            self.row += 1;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Writes a JSON value as a spreadsheet cell of the matching type.
fn put(
    sheet: &mut Worksheet,
    (row, column): (u32, u16),
    field: &Field,
    json: &str,
    format: Option<&Format>,
) -> Result<()> {
    let written = match json.as_bytes() {
        b"null" => return Ok(()),
        b"true" | b"false" => sheet.write_boolean(row, column, json == "true"),
        [b'"', ..] => {
            let text: String = serde_json::from_str(json).map_err(|error| Error::Broken(error.into()))?;
            if let Some(format) = format
                && let Some(moment) = serial(&text)
            {
                sheet.write_number_with_format(row, column, moment, format)
            } else {
                fits(&text, field.name(), row)?;
                sheet.write_string(row, column, text)
            }
        }
        [b'{' | b'[', ..] => {
            fits(json, field.name(), row)?;
            sheet.write_string(row, column, json)
        }
        // A spreadsheet cell stores every number as a float. A number with too many digits for a float is written as
        // text.
        _ => match json.parse::<f64>() {
            Ok(number)
                if number.is_finite() && (field.data_type().is_floating() || significant(json) <= DIGITS) =>
            {
                sheet.write_number(row, column, number)
            }
            _ => sheet.write_string(row, column, json),
        },
    };
    written.map(|_| ()).map_err(unwritten)
}

/// Converts a date or a timestamp to a spreadsheet serial number, rounded to milliseconds. Spreadsheets treat 1900
/// as a leap year, so times before March 1900 are not converted.
fn serial(text: &str) -> Option<f64> {
    let moment = match NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        Ok(day) => day.and_time(NaiveTime::MIN),
        Err(_) => NaiveDateTime::parse_from_str(text.trim_end_matches('Z'), "%Y-%m-%dT%H:%M:%S%.f").ok()?,
    };
    let from = |year, month, day| Some(NaiveDate::from_ymd_opt(year, month, day)?.and_time(NaiveTime::MIN));
    if moment < from(1900, 3, 1)? || moment >= from(10_000, 1, 1)? {
        return None;
    }
    let passed = moment - from(1899, 12, 30)?;
    Some((passed.as_seconds_f64() * 1_000.0).round() / 86_400_000.0)
}

/// Returns the number of significant digits of a number.
fn significant(number: &str) -> usize {
    let mantissa = number.split(['e', 'E']).next().unwrap_or(number);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').len()
}

/// Returns an error if the text is too long for a cell. The function does not truncate a long text, because a
/// truncated cell would be wrong.
fn fits(text: &str, column: &str, row: u32) -> Result<()> {
    if text.len() <= MAX_TEXT || text.encode_utf16().count() <= MAX_TEXT {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "the text of column `{column}` in row {row} is longer than {MAX_TEXT} characters, the maximum of an xlsx cell; omit the column, or use csv, parquet, arrow or ndjson"
    )))
}

/// Converts a month, day, hour, minute or second to `u8`. The result is exact, because a month, day, hour, minute or
/// second is always below 256.
fn small(number: u32) -> u8 {
    u8::try_from(number).unwrap_or_default()
}

fn unwritten(error: XlsxError) -> Error {
    Error::Broken(error.into())
}

fn broken(error: std::io::Error) -> Error {
    Error::Broken(error.into())
}

#[cfg(test)]
mod tests {
    use super::{serial, significant};

    #[test]
    fn moments_are_days_since_the_end_of_1899() {
        for (text, expected) in [
            ("2022-01-08", Some(44_569.0)),
            ("1970-01-01T12:00:00Z", Some(25_569.5)),
            ("1969-12-31T23:59:59.999999Z", Some(25_569.0)),
            ("1900-03-01", Some(61.0)),
            ("1900-02-28", None),
            ("9999-12-31T23:59:59", Some(2_958_465.999_988_425_7)),
            ("+12022-01-08", None),
            ("now", None),
        ] {
            let found = serial(text);
            let close = found.zip(expected).is_some_and(|(found, expected)| (found - expected).abs() < 1e-9);
            assert!(close || found == expected, "{text}: {found:?}");
        }
    }

    #[test]
    fn digits_count_if_they_are_not_only_there_for_the_point() {
        for (number, expected) in [
            ("0", 0),
            ("-1500", 2),
            ("0.0012", 2),
            ("1.50", 2),
            ("1e300", 1),
            ("1234567890123456", 16),
            ("-1234567890123.45", 15),
            ("1234567890123450", 15),
        ] {
            assert_eq!(significant(number), expected, "{number}");
        }
    }
}

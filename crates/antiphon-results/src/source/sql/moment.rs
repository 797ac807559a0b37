use std::io::Write as _;

/// A date and time, with the parts that a database provides.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    pub(super) year: i32,
    pub(super) month: u8,
    pub(super) day: u8,
    pub(super) hour: u8,
    pub(super) minute: u8,
    pub(super) second: u8,
    pub(super) micros: u32,
    /// Whether the year is before Christ.
    pub(super) is_bc: bool,
}

impl Moment {
    /// Writes the date in the format `2025-01-15`. For a year before Christ, `write_era` adds ` BC` at the end, as
    /// PostgreSQL does.
    pub(super) fn write_date(self, json: &mut Vec<u8>) {
        // Writing to memory does not fail.
        let _ = write!(json, "{:04}-{:02}-{:02}", self.year, self.month, self.day);
    }

    /// Writes the time in the format `10:30:00`. A fraction of a second adds three or six digits.
    pub(super) fn write_time(self, json: &mut Vec<u8>) {
        let _ = write!(json, "{:02}:{:02}:{:02}", self.hour, self.minute, self.second);
        if !self.micros.is_multiple_of(1000) {
            let _ = write!(json, ".{:06}", self.micros);
        } else if self.micros != 0 {
            let _ = write!(json, ".{:03}", self.micros / 1000);
        }
    }

    pub(super) fn write_era(self, json: &mut Vec<u8>) {
        if self.is_bc {
            json.extend_from_slice(b" BC");
        }
    }

    /// Writes the date and time. With `is_utc`, the format is RFC 3339 in UTC.
    pub(super) fn write(self, is_utc: bool, json: &mut Vec<u8>) {
        json.push(b'"');
        self.write_date(json);
        json.push(b'T');
        self.write_time(json);
        if is_utc {
            json.push(b'Z');
        }
        self.write_era(json);
        json.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::{super::write::written, *};

    #[test]
    fn moments_are_written_with_as_many_digits_as_they_have() {
        let moment =
            Moment { year: 2025, month: 1, day: 15, hour: 10, minute: 30, second: 5, ..Moment::default() };
        assert_eq!(written(|json| moment.write(true, json)), "\"2025-01-15T10:30:05Z\"");
        let moment = Moment { micros: 120_000, ..moment };
        assert_eq!(written(|json| moment.write(false, json)), "\"2025-01-15T10:30:05.120\"");
        let moment = Moment { micros: 1, year: 44, is_bc: true, ..moment };
        assert_eq!(written(|json| moment.write(false, json)), "\"0044-01-15T10:30:05.000001 BC\"");
    }
}

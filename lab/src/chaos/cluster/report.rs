//! Prints what was found.

use std::time::Duration;

use crate::table::Table;

/// How many complaints are printed for each rule.
const SHOWN: usize = 5;

/// The result of a rule.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) law: &'static str,
    pub(crate) examined: usize,
    pub(crate) complaints: Vec<String>,
}

/// The rules that were broken, and the rules that applied to nothing.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) broken: Vec<&'static str>,
    pub(crate) idle: Vec<&'static str>,
}

/// The numbers and the rules that a command prints.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) title: &'a str,
    pub(crate) engine: &'a str,
    pub(crate) rows: Vec<(&'a str, u64)>,
    pub(crate) time: Duration,
    pub(crate) verdicts: Vec<Verdict>,
}

impl Report<'_> {
    /// Prints the numbers, and one line for each rule.
    pub(crate) fn print(&self) -> Found {
        let mut table = Table::new([self.title, self.engine]);
        for (name, value) in &self.rows {
            table.row([(*name).into(), value.to_string()]);
        }
        table.row(["wall time".into(), format!("{:.1} s", self.time.as_secs_f64())]);
        println!("{table}");
        for Verdict { law, examined, complaints } in &self.verdicts {
            let result = if complaints.is_empty() {
                "ok".into()
            } else {
                format!("BROKEN {} times", complaints.len())
            };
            println!("  {law:<58} {examined:>7} {result:>4}");
            for complaint in complaints.iter().take(SHOWN) {
                println!("    {complaint}");
            }
        }
        let named = |is_meant: fn(&Verdict) -> bool| {
            let meant = self.verdicts.iter().filter(|verdict| is_meant(verdict));
            meant.map(|verdict| verdict.law).collect::<Vec<_>>()
        };
        let broken = named(|verdict| !verdict.complaints.is_empty());
        println!("\n{} passed, {} failed", self.verdicts.len() - broken.len(), broken.len());
        Found { broken, idle: named(|verdict| verdict.examined == 0) }
    }
}

use std::path::Path;

use super::*;
use crate::bench::figures::{Asked, CPU};

fn section(part: Part, commit: &str, ratio: f64) -> Section {
    let source = Source { commit: commit.repeat(40), dirty: false, date: "2026-01-02".into() };
    let machine = Machine {
        cpu: "Some processor".into(),
        cores: 2,
        memory_mib: 8000,
        kernel: "6.1".into(),
        rustc: "rustc 1.95.0".into(),
    };
    let figure = Figure::new("a call", CPU, ratio * 50.0).beside("bare rmcp", 50.0);
    let figures =
        vec![figure.asked(Asked::RatioAtMost(1.25)).sizing("a call"), Figure::new("memory", "KiB", 2.0)];
    let length = Length { quick: false, restate: false };
    let commands = part.commands(length).iter().map(|words| words.join(" ")).collect();
    Section { part, source, machine, quick: false, commands, figures }
}

/// The text of the file that ends so.
fn file(report: &Report, end: &str) -> Option<String> {
    let guide = "# Deploying\n<!-- sizing:begin -->\n<!-- sizing:end -->\n";
    let files = report.files(guide).unwrap();
    files.into_iter().find(|(path, _)| path.ends_with(end)).map(|(_, text)| text)
}

#[test]
fn a_part_that_is_repeated_replaces_itself_and_keeps_the_others_with_their_commits() {
    let mut report = Report::default();
    report.put(section(Part::Store, "a", 1.1));
    report.put(section(Part::Call, "a", 1.1));
    report.put(section(Part::Store, "b", 1.5));
    assert_eq!(report.sections.iter().map(|it| it.part).collect::<Vec<_>>(), [Part::Call, Part::Store]);
    let page = file(&report, "benchmarks.md").unwrap();
    assert!(page.contains("(#a-tool-call-over-http) | 1 of 1 | `aaaaaaaaaa` | 2026-01-02 |"), "{page}");
    assert!(page.contains("(#stores) | 0 of 1 | `bbbbbbbbbb` | 2026-01-02 |"), "{page}");
    assert!(page.contains("(#tasks) | not measured yet | | |"), "{page}");
    assert!(page.contains("Machine: Some processor, 2 cores, 8000 MiB of memory, Linux 6.1"), "{page}");
}

#[test]
fn a_figure_shows_its_ratio_its_limit_and_whether_it_is_met() {
    let mut report = Report::default();
    report.put(section(Part::Store, "a", 1.5));
    let page = file(&report, "benchmarks.md").unwrap();
    let row = "| a call | µs of CPU | 75.0 | bare rmcp | 50.0 | 1.50 |  | ratio at most 1.25 | **not met** |";
    assert!(page.contains(row), "{page}");
    assert!(page.contains("| memory | KiB | 2.00 |  |  |  |  |  |  |"), "{page}");
    assert!(page.contains("Measured by `cargo xtask bench store`."), "{page}");
    assert!(page.contains("](images/bench-store.svg)"), "{page}");
    assert!(file(&report, "images/bench-store.svg").unwrap().contains("1.50 (≤ 1.25)"));
    let guide = file(&report, "deploying.md").unwrap();
    assert!(
        guide.contains(
            "| a call | 75.0 µs of CPU: 13,333 operations per second use one core | `aaaaaaaaaa` |"
        ),
        "{guide}"
    );
}

#[test]
fn what_was_measured_in_a_hurry_or_elsewhere_says_so() {
    let mut report = Report::default();
    report.put(section(Part::Call, "a", 1.1));
    let mut hurried = section(Part::Store, "a", 1.1);
    (hurried.quick, hurried.source.dirty, hurried.machine.cores) = (true, true, 8);
    report.put(hurried);
    let page = file(&report, "benchmarks.md").unwrap();
    assert!(page.contains("**Parts marked quick"), "{page}");
    assert!(page.contains("`aaaaaaaaaa and changes`, quick |"), "{page}");
    assert!(page.contains("Machine for call: Some processor, 2 cores"), "{page}");
    assert!(page.contains("Machine for store: Some processor, 8 cores"), "{page}");
}

#[test]
fn figures_are_read_again_as_they_were_written() {
    let mut report = Report::default();
    report.put(section(Part::Call, "a", 1.1));
    let text = file(&report, "bench-figures.json").unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
}

/// Whoever edits the page by hand, or changes how it is written, is told here.
#[test]
fn page_pictures_and_guide_say_what_the_figures_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let report = Report::load(root).unwrap();
    let guide = fs::read_to_string(root.join(GUIDE)).unwrap();
    for (path, text) in report.files(&guide).unwrap() {
        let found = fs::read_to_string(root.join(&path)).unwrap_or_default();
        assert_eq!(
            found,
            text,
            "{} differs from {FIGURES}; `cargo xtask bench report --render` writes it",
            path.display()
        );
    }
}

//! One page, as far as it is checked.

use std::collections::BTreeSet;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// What a page has.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub links: Vec<Link>,
    pub headings: BTreeSet<String>,
    pub snippets: Vec<Snippet>,
}

/// Where somebody is led, or a picture is taken from.
#[derive(Debug)]
pub(super) struct Link {
    pub line: usize,
    pub to: String,
}

/// A block of code.
#[derive(Debug, Default)]
pub(super) struct Snippet {
    pub line: usize,
    /// What stands behind the fence: the language and what is to be done with it.
    pub info: String,
    pub code: String,
    /// What the comment right above says, if there is one.
    pub comment: Option<String>,
}

impl Snippet {
    pub(super) fn is_rust(&self) -> bool {
        self.words().any(|word| word == "rust")
    }

    pub(super) fn is_ignored(&self) -> bool {
        self.words().any(|word| word == "ignore")
    }

    /// Which part of which source it repeats, if it says so.
    pub(super) fn source(&self) -> Option<&str> {
        self.comment.as_deref()?.strip_prefix("from: ")
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.info.split([',', ' ']).map(str::trim)
    }
}

impl Page {
    pub(super) fn read(text: &str) -> Self {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        let (mut page, mut heading, mut snippet) = (Self::default(), None, None);
        let mut comment: Option<String> = None;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(Link { line: line(range.start), to: dest_url.into_string() });
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let name = anchor(&heading.take().unwrap_or_default());
                    page.name(&name);
                }
                Event::Start(Tag::CodeBlock(kind)) => {
                    let info = match kind {
                        CodeBlockKind::Fenced(info) => info.into_string(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    let (line, comment) = (line(range.start), comment.take());
                    snippet = Some(Snippet { line, info, comment, ..Snippet::default() });
                }
                Event::End(TagEnd::CodeBlock) => page.snippets.extend(snippet.take()),
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                    if let Some(snippet) = &mut snippet {
                        snippet.code.push_str(&words);
                    }
                }
                Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
                Event::Html(html) => {
                    page.links.extend(pictures(&html, line(range.start)));
                    comment = said(&html);
                }
                Event::InlineHtml(html) => {
                    page.links.extend(pictures(&html, line(range.start)));
                    comment = None;
                }
                _ => comment = None,
            }
        }
        page
    }

    /// A second heading of the same name has a number.
    fn name(&mut self, name: &str) {
        let mut numbered = name.to_owned();
        for number in 1.. {
            if self.headings.insert(numbered) {
                return;
            }
            numbered = format!("{name}-{number}");
        }
    }
}

/// The pictures of an HTML element.
fn pictures(html: &str, line: usize) -> Vec<Link> {
    let values = [" src=\"", " srcset=\""].into_iter().flat_map(|name| html.split(name).skip(1));
    let paths = values.filter_map(|rest| rest.split('"').next());
    paths.map(|path| Link { line, to: path.to_owned() }).collect()
}

/// What a comment says.
fn said(html: &str) -> Option<String> {
    let inner = html.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
    Some(inner.trim().to_owned())
}

/// How mdBook, and GitHub, name a heading in an address.
fn anchor(heading: &str) -> String {
    let letters = heading.trim().chars().filter_map(|letter| match letter {
        letter if letter.is_alphanumeric() || matches!(letter, '-' | '_') => Some(letter),
        letter if letter.is_whitespace() => Some('-'),
        _ => None,
    });
    letters.collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_headings_and_snippets_are_read() {
        let page = Page::read(
            "# Yours, `first`?\n\nSee [it](a.md).\n\n## Twice\n\n## Twice\n\n\
             <!-- ignored: a sketch -->\n```rust,ignore\nlet a = [1](b.md);\n```\n\nText.\n\n```rust\nfn a() {}\n```\n",
        );
        assert_eq!(page.links.len(), 1, "what stands in code is no link: {:?}", page.links);
        assert_eq!((page.links[0].line, &*page.links[0].to), (3, "a.md"));
        let headings: Vec<&str> = page.headings.iter().map(String::as_str).collect();
        assert_eq!(headings, ["twice", "twice-1", "yours-first"]);
        let [ignored, plain] = &page.snippets[..] else { panic!("{:?}", page.snippets) };
        assert!(ignored.is_rust() && ignored.is_ignored());
        assert_eq!(ignored.comment.as_deref(), Some("ignored: a sketch"));
        assert!(plain.is_rust() && !plain.is_ignored() && plain.comment.is_none());
        assert_eq!(plain.code, "fn a() {}\n");
    }

    #[test]
    fn pictures_in_html_are_links() {
        let page = Page::read(
            "Text.\n\n<picture><source media=\"m\" srcset=\"dark.png\"><img src=\"a.png\" alt=\"A\"></picture>\n\n\
             <picture>\n<img alt=\"B\" src=\"b.png\">\n</picture>\n",
        );
        let links: Vec<(usize, &str)> = page.links.iter().map(|link| (link.line, &*link.to)).collect();
        assert_eq!(links, [(3, "dark.png"), (3, "a.png"), (6, "b.png")]);
    }
}

//! The paper the report is written on: a width, colour or none, and the few shapes of line every section uses.

use std::io::{self, Write};

use anstyle::{AnsiColor, Effects, Style as Ansi};

use super::super::Style;
use super::super::escape::{UnicodeWidthStr, fit};

const MIN_WIDTH: usize = 60;
const MAX_WIDTH: usize = 160;

/// A blank at which no line ends. Names cannot hold one: it is escaped in them.
const HELD: char = '\u{a0}';

/// `text` whose numbers keep their units, and their groups of digits, on one line.
fn held(text: &str) -> String {
    const UNITS: [&str; 15] =
        ["ns", "µs", "ms", "s", "min", "h", "d", "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "%"];
    let mut held = String::with_capacity(text.len() + 16);
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        held.push_str(word);
        let Some(next) = words.peek() else { break };
        let bare = next.trim_matches(|c: char| matches!(c, '(' | ')' | ',' | '.' | ';' | ':'));
        let group = bare.len() == 3 && bare.bytes().all(|b| b.is_ascii_digit());
        let number = word.ends_with(|c: char| c.is_ascii_digit());
        held.push(if number && (group || UNITS.contains(&bare)) { HELD } else { ' ' });
    }
    held
}

/// How a piece of text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ink {
    /// As the terminal writes.
    #[default]
    Plain,
    /// Headings and totals.
    Bold,
    /// Bars, rules, what is there for orientation only.
    Dim,
    /// Losses and errors.
    Red,
}

/// The output with its width and colour.
pub struct Page<'a> {
    out: &'a mut dyn Write,
    /// Columns a line may take.
    pub width: usize,
    /// Processes shown in full.
    pub top: usize,
    /// Everything asked for.
    pub verbose: bool,
    colour: bool,
}

impl<'a> Page<'a> {
    /// A page in `style` written to `out`.
    pub fn new(style: &Style, out: &'a mut dyn Write) -> Self {
        Self {
            out,
            width: style.width_columns.clamp(MIN_WIDTH, MAX_WIDTH),
            top: style.top,
            verbose: style.verbose,
            colour: style.colour,
        }
    }

    /// `text` in `ink`, if this page has colour.
    pub fn paint(&self, ink: Ink, text: &str) -> String {
        let style = match ink {
            Ink::Plain => Ansi::new(),
            Ink::Bold => Ansi::new().effects(Effects::BOLD),
            Ink::Dim => Ansi::new().effects(Effects::DIMMED),
            Ink::Red => AnsiColor::Red.on_default().effects(Effects::BOLD),
        };
        if self.colour && ink != Ink::Plain && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// One line as it is.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", text.trim_end())
    }

    /// An empty line.
    pub fn blank(&mut self) -> io::Result<()> {
        writeln!(self.out)
    }

    /// An empty line, then `title` with a rule to the right edge.
    pub fn heading(&mut self, title: &str) -> io::Result<()> {
        let title = fit(title, self.width - 4);
        let rule = "─".repeat(self.width - 4 - title.width());
        let text = format!(
            "{} {} {}",
            self.paint(Ink::Dim, "──"),
            self.paint(Ink::Bold, &title),
            self.paint(Ink::Dim, &rule)
        );
        self.blank()?;
        self.line(&text)
    }

    /// `text` broken between words, every line but the first indented by `hang` columns more than `indent`.
    pub fn paragraph(&mut self, ink: Ink, indent: usize, hang: usize, text: &str) -> io::Result<()> {
        let (first, rest) = (" ".repeat(indent), " ".repeat(indent + hang));
        let options = textwrap::Options::new(self.width).initial_indent(&first).subsequent_indent(&rest);
        for line in textwrap::wrap(&held(text), options) {
            let line = self.paint(ink, &line.replace(HELD, " "));
            self.line(&line)?;
        }
        Ok(())
    }

    /// `label` and then `items` side by side with `separator` between, on as many lines as they need, none of them cut in two.
    pub fn flow(&mut self, label: &str, separator: &str, items: &[String]) -> io::Result<()> {
        let indent = label.width();
        let room = self.width - indent;
        // A comma belongs to the word before it, also at the end of a line; a dot between items stands between or not at all.
        let (comma, lead) = separator.split_at(separator.find(' ').unwrap_or(separator.len()));
        let mut lines = vec![String::new()];
        for (index, item) in items.iter().enumerate() {
            let comma = if index + 1 < items.len() { comma } else { "" };
            let item = format!("{}{comma}", fit(item, room - comma.width()));
            match lines.last_mut() {
                Some(line) if line.is_empty() => line.push_str(&item),
                Some(line) if line.width() + lead.width() + item.width() <= room => {
                    line.push_str(lead);
                    line.push_str(&item);
                }
                _ => lines.push(item),
            }
        }
        for (index, line) in lines.iter().enumerate() {
            let lead = if index == 0 { label.to_owned() } else { " ".repeat(indent) };
            self.line(&format!("{lead}{line}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_units() {
        let text = "took 2.14 s (7.1 % of it), 20 000 reads of 4 KiB; pid 51210, 300 writes by 5 B";
        let kept = "took 2.14_s (7.1_% of it), 20_000 reads of 4_KiB; pid 51210, 300 writes by 5_B";
        assert_eq!(held(text).replace(HELD, "_"), kept);
        assert_eq!(held(""), "");
    }
}

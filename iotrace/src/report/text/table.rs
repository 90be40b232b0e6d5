//! Tables without frames: columns two spaces apart, numbers to the right, names to the left. What does not fit the page
//! goes in order of the columns' rank, so one table serves every width.

use std::io;

use super::super::escape::{UnicodeWidthStr, fit, fit_middle};
use super::page::{Ink, Page};

const GAP: usize = 2;

/// One column.
pub struct Column {
    header: String,
    /// Columns in a row with one group share a line over their headers.
    group: String,
    left: bool,
    /// What is too long loses its middle instead of its end.
    middle: bool,
    /// Least width, for a column of names that may be cut.
    shrinks_to: Option<usize>,
    /// The columns of the highest rank go first, together, when the page is too narrow; 0 stays.
    rank: u8,
}

impl Column {
    /// A column of numbers.
    pub fn number(header: &str) -> Self {
        Self {
            header: header.to_owned(),
            group: String::new(),
            left: false,
            middle: false,
            shrinks_to: None,
            rank: 0,
        }
    }

    /// A column of names.
    pub fn name(header: &str) -> Self {
        Self { left: true, ..Self::number(header) }
    }

    /// A column of paths, which may be cut in their middle.
    pub fn path(header: &str) -> Self {
        Self { middle: true, shrinks_to: Some(24), ..Self::name(header) }
    }

    /// Names may be cut to `columns`.
    pub fn shrinks_to(mut self, columns: usize) -> Self {
        self.shrinks_to = Some(columns);
        self
    }

    /// Puts the column under `group`.
    pub fn under(mut self, group: &str) -> Self {
        self.group = group.to_owned();
        self
    }

    /// Lets the column go on narrow pages, the highest `rank` first.
    pub fn rank(mut self, rank: u8) -> Self {
        self.rank = rank;
        self
    }
}

/// A table being filled.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<(Ink, Vec<String>)>,
    indent: usize,
}

impl Table {
    /// An empty table, `indent` columns in.
    pub fn new(indent: usize, columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new(), indent }
    }

    /// No row was added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row, one cell a column.
    pub fn row(&mut self, ink: Ink, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push((ink, cells));
    }

    /// Writes headers and rows.
    pub fn write(mut self, page: &mut Page) -> io::Result<()> {
        self.drop_empty_columns();
        let widths = self.fit_to(page.width);
        if self.columns.iter().any(|c| !c.group.is_empty()) {
            let groups = self.group_line(&widths);
            let groups = page.paint(Ink::Dim, &fit(&groups, page.width));
            page.line(&groups)?;
        }
        if self.columns.iter().any(|c| !c.header.is_empty()) {
            let headers: Vec<_> = self.columns.iter().map(|c| c.header.clone()).collect();
            let headers = self.layout(&headers, &widths);
            let headers = page.paint(Ink::Dim, &fit(headers.trim_end(), page.width));
            page.line(&headers)?;
        }
        for (ink, cells) in &self.rows {
            let line = self.layout(cells, &widths);
            let line = page.paint(*ink, &fit(line.trim_end(), page.width));
            page.line(&line)?;
        }
        Ok(())
    }

    fn drop_empty_columns(&mut self) {
        for index in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|(_, cells)| cells[index].is_empty()) {
                self.drop(index);
            }
        }
    }

    fn drop(&mut self, index: usize) {
        self.columns.remove(index);
        self.rows.iter_mut().for_each(|(_, cells)| {
            cells.remove(index);
        });
    }

    fn drop_rank(&mut self, rank: u8) {
        for index in (0..self.columns.len()).rev() {
            if self.columns[index].rank == rank {
                self.drop(index);
            }
        }
    }

    /// Cuts names, the last column's first, then drops columns, then cuts names to the bone, until the table fits `page` columns.
    fn fit_to(&mut self, page: usize) -> Vec<usize> {
        loop {
            let mut widths = self.natural_widths();
            let total = self.indent + widths.iter().sum::<usize>() + GAP * (widths.len().saturating_sub(1));
            let mut over = total.saturating_sub(page);
            for (width, column) in widths.iter_mut().zip(&self.columns).rev() {
                let give = column.shrinks_to.map_or(0, |least| width.saturating_sub(least)).min(over);
                *width -= give;
                over -= give;
            }
            if over == 0 {
                return widths;
            }
            match self.columns.iter().map(|c| c.rank).max().filter(|&rank| rank > 0) {
                Some(rank) => self.drop_rank(rank),
                None => {
                    for (width, _) in
                        widths.iter_mut().zip(&self.columns).filter(|(_, c)| c.shrinks_to.is_some())
                    {
                        let give = width.saturating_sub(1).min(over);
                        *width -= give;
                        over -= give;
                    }
                    return widths;
                }
            }
        }
    }

    fn natural_widths(&self) -> Vec<usize> {
        let mut widths: Vec<_> = self.columns.iter().map(|c| c.header.width()).collect();
        for (_, cells) in &self.rows {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.width());
            }
        }
        widths
    }

    fn layout(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = " ".repeat(self.indent);
        for ((cell, &width), column) in cells.iter().zip(widths).zip(&self.columns) {
            let cell = if column.middle { fit_middle(cell, width) } else { fit(cell, width) };
            let pad = " ".repeat(width - cell.width());
            if column.left {
                line.push_str(&cell);
                line.push_str(&pad);
            } else {
                line.push_str(&pad);
                line.push_str(&cell);
            }
            line.push_str(&" ".repeat(GAP));
        }
        line
    }

    /// `──── reads ────` over each run of columns with the same group.
    fn group_line(&self, widths: &[usize]) -> String {
        let mut line = " ".repeat(self.indent);
        let mut index = 0;
        while index < widths.len() {
            let group = &self.columns[index].group;
            let run = self.columns[index..].iter().take_while(|c| c.group == *group).count();
            let span = widths[index..index + run].iter().sum::<usize>() + GAP * (run - 1);
            if group.is_empty() {
                line.push_str(&" ".repeat(span));
            } else {
                let spaced = format!(" {group} ");
                let label =
                    if spaced.width() <= span { spaced } else { format!("{:>span$}", fit(group, span)) };
                let rule = span - label.width();
                line.push_str(&"─".repeat(rule / 2));
                line.push_str(&label);
                line.push_str(&"─".repeat(rule - rule / 2));
            }
            line.push_str(&" ".repeat(GAP));
            index += run;
        }
        line.trim_end().to_owned()
    }
}

//! Names from the traced machine are bytes that anybody may have chosen. Here they become text that cannot move the
//! cursor, colour the terminal, reorder a line or forge a second one, and that says every byte it stood for.

use unicode_width::UnicodeWidthChar;
pub use unicode_width::UnicodeWidthStr;

/// `bytes` for a terminal: printable text as it is, `\\` for a backslash, `\n \r \t`, `\x1b` for other control and
/// for invalid bytes, `\u{202e}` for characters that print nothing or change the direction of what follows.
pub fn visible(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                c if printable(c) => text.push(c),
                c if c.is_ascii() => push_byte(&mut text, c as u8),
                c => text.extend(c.escape_unicode()),
            }
        }
        chunk.invalid().iter().for_each(|&byte| push_byte(&mut text, byte));
    }
    text
}

/// `bytes` as a string that can be turned back: `\\` for a backslash and `\xNN` (two lower-case hex digits) for a
/// byte that is not part of valid UTF-8; all else as it is.
pub fn reversible(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' {
                text.push('\\');
            }
            text.push(c);
        }
        chunk.invalid().iter().for_each(|&byte| push_byte(&mut text, byte));
    }
    text
}

/// Whether a terminal shows `c` in its place. Controls, format characters (bidi overrides, zero-width marks), private and
/// unassigned code points are not; combining marks are.
pub fn printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // The standard library escapes a combining mark only at the start of a string, hence the letter before it.
    let mut pair = String::from("x");
    pair.push(c);
    pair.escape_debug().nth(1) == Some(c)
}

/// A command line as one would type it: arguments with blanks or quotes in single quotes, all of it [`visible`].
pub fn command_line(args: &[Vec<u8>]) -> String {
    let quoted = |arg: &Vec<u8>| {
        let text = visible(arg);
        if arg.is_empty() || arg.iter().any(|b| b.is_ascii_whitespace() || b"'\"$&|;<>()*?`".contains(b)) {
            format!("'{}'", text.replace('\'', "'\\''"))
        } else {
            text
        }
    };
    args.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// `text` in at most `columns`, an ellipsis in place of what did not fit.
pub fn fit(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut used = 0;
    let mut kept = String::new();
    for c in text.chars() {
        let width = c.width().unwrap_or(0);
        if used + width + 1 > columns {
            break;
        }
        used += width;
        kept.push(c);
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// `text` in at most `columns`, an ellipsis in the middle in place of what did not fit: of a path the end tells most, and its
/// beginning where it lies.
pub fn fit_middle(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    // A third for the beginning; what it leaves, and the ellipsis's column, for the end.
    let head = fit(text, columns / 3);
    let mut room = columns.saturating_sub(head.width().max(1));
    let mut tail = Vec::new();
    for c in text.chars().rev() {
        let width = c.width().unwrap_or(0);
        if width > room {
            break;
        }
        room -= width;
        tail.push(c);
    }
    // A mark without its letter would join the ellipsis.
    while tail.last().is_some_and(|c| c.width() == Some(0)) {
        tail.pop();
    }
    let head = if head.is_empty() && columns > 0 { "…" } else { &head };
    format!("{head}{}", tail.iter().rev().collect::<String>())
}

fn push_byte(text: &mut String, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    text.push_str("\\x");
    text.push(HEX[usize::from(byte >> 4)] as char);
    text.push(HEX[usize::from(byte & 15)] as char);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        assert_eq!(visible(b"evil\x1b[31m\n\xff"), r"evil\x1b[31m\n\xff");
        assert_eq!(visible("a\u{202e}b\u{200b}\u{9b}c".as_bytes()), r"a\u{202e}b\u{200b}\u{9b}c");
        assert_eq!(visible(br"C:\n"), r"C:\\n", "a backslash is not an escape");
        assert_eq!(visible("模型 ü e\u{301}".as_bytes()), "模型 ü e\u{301}");
        for c in (0..=0x10ffffu32).filter_map(char::from_u32) {
            let shown = visible(c.to_string().as_bytes());
            assert!(!shown.chars().any(char::is_control), "{c:?}");
        }
    }

    #[test]
    fn every_byte_string_comes_back() {
        fn back(text: &str) -> Vec<u8> {
            let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
            while let [first, tail @ ..] = rest {
                rest = match (first, tail) {
                    (b'\\', [b'x', a, b, tail @ ..]) => {
                        let hex = std::str::from_utf8(&[*a, *b]).unwrap().to_owned();
                        bytes.push(u8::from_str_radix(&hex, 16).unwrap());
                        tail
                    }
                    (b'\\', [b'\\', tail @ ..]) => {
                        bytes.push(b'\\');
                        tail
                    }
                    (&byte, tail) => {
                        bytes.push(byte);
                        tail
                    }
                };
            }
            bytes
        }
        for bytes in
            [&b"plain"[..], b"\xff\\x41\\", b"\\xff", b"\\\\x\xf0\x9f", "ü\\ü".as_bytes(), b"\n\x1b\0"]
        {
            assert_eq!(back(&reversible(bytes)), bytes);
        }
    }

    #[test]
    fn truncation_counts_columns() {
        assert_eq!(fit("模型模型", 5), "模型…");
        assert_eq!(fit("模型模型", 8), "模型模型");
        assert_eq!(fit("abc", 2), "a…");
        assert_eq!(fit("abc", 0), "");
    }

    #[test]
    fn paths_lose_their_middle() {
        assert_eq!(
            fit_middle("/data/imagenet/train/n01440764/n01440764_10026.JPEG", 30),
            "/data/ima…n01440764_10026.JPEG"
        );
        assert_eq!(fit_middle("/short", 30), "/short");
        for columns in 0..30 {
            let fitted = fit_middle("/数据/图像/模型/e\u{301}/文件/模型-00001-of-00002.safetensors", columns);
            assert!(
                fitted.width() <= columns && (columns == 0 || fitted.contains('…')),
                "{columns}: {fitted}"
            );
        }
    }

    #[test]
    fn a_command_line_can_be_read_back() {
        let args = ["python", "-c", "import os\nprint('x')", ""].map(|a| a.as_bytes().to_vec());
        assert_eq!(command_line(&args), r"python -c 'import os\nprint('\''x'\'')' ''");
    }
}

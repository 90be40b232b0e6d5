//! Numbers with their units, as a person reads them: durations and sizes to three significant digits, counts exact.

/// A duration: `987 ns`, `1.23 ms`, `30.0 s`, `16.7 min`.
pub fn duration(ns: u64) -> String {
    const UNITS: [(f64, &str); 6] = [
        (1e3, "µs"),
        (1e6, "ms"),
        (1e9, "s"),
        // Seconds run to 999 s; an hour-long trace is said in minutes.
        (60e9, "min"),
        (3600e9, "h"),
        (86400e9, "d"),
    ];
    if ns < 1000 {
        return format!("{ns} ns");
    }
    let value = ns as f64;
    // 999.5 of a unit would round to four digits, so the next unit takes over there.
    let fits = |size: f64| value / size < 999.5;
    let (size, name) = UNITS.into_iter().find(|&(size, _)| fits(size)).unwrap_or(UNITS[5]);
    format!("{} {name}", three_digits(value / size))
}

/// A size in IEC units: `512 B`, `64.0 KiB`, `1.50 GiB`.
pub fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    for unit in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 1023.5 {
            return format!("{} {unit}", three_digits(value));
        }
        value /= 1024.0;
    }
    format!("{} EiB", three_digits(value))
}

/// A count, grouped by threes: `61 204`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// `count` of a thing: `1 file`, `61 204 files`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A share of a whole in per cent: `39.7 %`; `-` of nothing; never rounded to 0 or 100 when it is neither.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let percent = part as f64 / whole as f64 * 100.0;
    match percent {
        0.0 => "0 %".to_owned(),
        100.0 => "100 %".to_owned(),
        p if p < 0.05 => "<0.1 %".to_owned(),
        p if p > 99.9 && p < 100.0 => ">99.9 %".to_owned(),
        p if p < 100.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

fn three_digits(value: f64) -> String {
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_three_digits_across_every_unit() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (9_996_000, "10.0 ms"),
            (30_000_000_000, "30.0 s"),
            (999_000_000_000, "999 s"),
            (1_000_000_000_000, "16.7 min"),
            (u64::MAX, "213504 d"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn sizes_are_iec() {
        for (size, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (64 << 10, "64.0 KiB"),
            (1000 << 10, "1000 KiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (3 << 29, "1.50 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn counts_are_grouped_and_shares_never_lie_at_the_ends() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1 000", "1 234 567"]);
        assert_eq!(share(0, 10), "0 %");
        assert_eq!(share(1, 1_000_000), "<0.1 %");
        assert_eq!(share(999_999, 1_000_000), ">99.9 %");
        assert_eq!(share(10, 10), "100 %");
        assert_eq!(share(237, 100), "237 %");
        assert_eq!(share(1, 0), "-");
        assert_eq!(counted(1, "file", "files"), "1 file");
    }
}

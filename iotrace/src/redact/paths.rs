//! Components of paths as keyed hashes.

/// What keys are derived for: a key used elsewhere too gives other hashes there.
const CONTEXT: &str = "iotrace 2026 path components";

/// Bytes of a hash that are kept: among a million names two are alike with a chance of 1 to 500.
const HASH_BYTES: usize = 6;

/// As long as an extension gets, with its dot; what is longer is part of a name. As in the list of extensions.
const EXTENSION_BYTES: usize = 16;

/// Stands for a key that was given, wherever it would show.
const KEY_SHOWN: &[u8] = b"[redact key]";

/// Turns path components into hashes.
#[derive(Clone)]
pub struct Redactor {
    key: [u8; 32],
    /// The key as given on a command line, which a report of that very command would show.
    given: Vec<u8>,
}

impl Redactor {
    /// By a key that was given: the same components have the same hashes in every report with it.
    pub fn with_key(key: &str) -> Self {
        Self { key: blake3::derive_key(CONTEXT, key.as_bytes()), given: key.as_bytes().to_vec() }
    }

    /// By random bytes: hashes mean something within one report only.
    pub fn random(bytes: [u8; 32]) -> Self {
        Self { key: blake3::derive_key(CONTEXT, &bytes), given: Vec::new() }
    }

    /// `path` with each component hashed, its extension kept. What is no name stays: slashes, `.` and `..`, and marks in
    /// brackets such as `[unmounted]`.
    pub fn path(&self, path: &[u8]) -> Vec<u8> {
        let mut redacted = Vec::with_capacity(path.len());
        for (index, component) in path.split(|&b| b == b'/').enumerate() {
            if index > 0 {
                redacted.push(b'/');
            }
            self.component(component, &mut redacted);
        }
        redacted
    }

    /// `argument` as [`Redactor::path`] when it holds a slash; of `--option=value` the value alone.
    pub fn argument(&self, argument: &[u8]) -> Vec<u8> {
        if self.holds_key(argument) {
            return KEY_SHOWN.to_vec();
        }
        if !argument.contains(&b'/') {
            return argument.to_vec();
        }
        let value = match argument.iter().position(|&b| b == b'=') {
            Some(equals) if argument.starts_with(b"-") && !argument[..equals].contains(&b'/') => equals + 1,
            _ => 0,
        };
        [&argument[..value], &self.path(&argument[value..])].concat()
    }

    /// Does [`Redactor::argument`] change it?
    pub fn changes(&self, argument: &[u8]) -> bool {
        argument.contains(&b'/') || self.holds_key(argument)
    }

    fn holds_key(&self, argument: &[u8]) -> bool {
        !self.given.is_empty() && argument.windows(self.given.len()).any(|window| window == self.given)
    }

    fn component(&self, component: &[u8], redacted: &mut Vec<u8>) {
        if matches!(component, b"" | b"." | b"..") || is_mark(component) {
            return redacted.extend_from_slice(component);
        }
        // The whole name is hashed: `a.pt` and `a.json` share nothing that shows.
        let hash = blake3::keyed_hash(&self.key, component);
        redacted.extend_from_slice(&hash.to_hex().as_bytes()[..2 * HASH_BYTES]);
        redacted.extend_from_slice(extension(component));
    }
}

/// Marks of what is not known, made by iotrace: `[unmounted]`, `[unreachable]`, `[...]`, `[inode 12]`.
fn is_mark(component: &[u8]) -> bool {
    matches!(component, b"[unmounted]" | b"[unreachable]" | b"[...]")
        || component
            .strip_prefix(b"[inode ")
            .and_then(|rest| rest.strip_suffix(b"]"))
            .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// From the last dot on; empty when there is none, nothing before it, or more than letters and digits after it.
fn extension(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|&b| b == b'.') {
        Some(dot) if dot > 0 && name.len() - dot <= EXTENSION_BYTES => {
            let extension = &name[dot..];
            if extension[1..].iter().all(u8::is_ascii_alphanumeric) { extension } else { &[] }
        }
        _ => &[],
    }
}

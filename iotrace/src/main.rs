//! Stand-in until the first module lands.
fn main() {}

//! Types and bucket math shared by the kernel programs and the program that reads them.
//!
//! Everything here is plain old data with a fixed layout: no `bool`, `usize` or `Option` crosses the boundary.
#![no_std]

pub mod hist;

//! Types and bucket math shared by the kernel programs and the program that reads them.
#![no_std]

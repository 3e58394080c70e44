//! Writes a tar archive of one executable file: the whole root file system of the demo image.
//!
//! The format is POSIX ustar: a header of one 512-byte block, the file padded to whole blocks, two empty blocks.

const BLOCK: usize = 512;

/// An archive that holds `contents` as the executable `name` (at most 100 bytes), owned by root.
pub fn of_one_executable(name: &str, contents: &[u8]) -> Vec<u8> {
    let mut archive = header(name, contents.len()).to_vec();
    archive.extend_from_slice(contents);
    archive.resize(archive.len().next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    archive
}

fn header(name: &str, length: usize) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &name.as_bytes()[..name.len().min(100)]);
    put(100, b"0000755\0"); // mode
    put(108, b"0000000\0"); // user
    put(116, b"0000000\0"); // group
    put(124, format!("{length:011o}\0").as_bytes());
    put(136, b"00000000000\0"); // time: always the same, so that equal files make equal images
    put(148, b"        "); // the checksum counts itself as blanks
    put(156, b"0"); // a regular file
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn an_archive_is_whole_blocks() {
        for length in [0, 1, 511, 512, 513] {
            let archive = of_one_executable("demo", &vec![7; length]);
            assert_eq!(archive.len() % BLOCK, 0);
            assert_eq!(archive.len(), BLOCK + length.next_multiple_of(BLOCK) + 2 * BLOCK);
        }
    }

    #[test]
    fn the_system_tar_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut tar =
            Command::new("tar").args(["-xf", "-", "-C"]).arg(dir.path()).stdin(Stdio::piped()).spawn().unwrap();
        tar.stdin.take().unwrap().write_all(&of_one_executable("demo", b"#!/bin/sh\necho hello\n")).unwrap();
        assert!(tar.wait().unwrap().success());
        let said = Command::new(dir.path().join("demo")).output().unwrap();
        assert_eq!(said.stdout, b"hello\n", "it is executable");
    }
}

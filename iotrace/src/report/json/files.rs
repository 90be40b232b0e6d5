//! Files and other operations in JSON.

use super::shape::{
    CheckpointInfo, ClassInfo, Dist, ExtensionInfo, FailureInfo, FileInfo, FileSystemInfo, FileUseInfo,
    FilesInfo, FolderInfo, MetaInfo, SessionsInfo, TotalsInfo,
};
use crate::{
    model::{
        Checkpoint, Class, Extension, Failure, File, FileSystem, FileUse, Files, Folder, MetaStats, Sessions,
        wait_ns,
    },
    report::{errno, escape::reversible},
};
use iotrace_common::file::FileTotals;

impl TotalsInfo {
    fn of(totals: &FileTotals) -> Self {
        macro_rules! all {
            ($($field:ident)*) => { Self { $($field: totals.$field,)* wait_ns: wait_ns(totals) } };
        }
        all!(reads read_bytes read_ns read_wait_ns waited_reads waited_bytes sequential_reads strided_reads
            random_reads tiny_reads writes written_bytes write_ns write_wait_ns tiny_writes open_ns open_wait_ns syncs
            sync_ns faults fault_wait_ns cached_bytes)
    }
}

impl MetaInfo {
    pub(super) fn of(stats: &MetaStats) -> Self {
        Self {
            count: stats.count,
            error_count: stats.errors.values().sum(),
            errors: stats.errors.iter().map(|(&errno, &count)| (errno::name(errno), count)).collect(),
            forms: stats.forms.iter().copied().collect(),
            waited: stats.waited,
            wait_ns: stats.wait_ns,
            cached_bytes: stats.cached_bytes,
            latency: Dist::of(&stats.latency_ns),
        }
    }
}

impl FileUseInfo {
    pub(super) fn of(of: &FileUse) -> Self {
        Self {
            files: of.files,
            opens: of.opens,
            whole_file: of.whole_file,
            totals: TotalsInfo::of(&of.totals),
        }
    }
}

impl<'a> FilesInfo<'a> {
    pub(super) fn of(files: &'a Files) -> Self {
        let Sessions { opened, closed, open_before, open_at_end, whole_file } = files.sessions;
        Self {
            distinct: files.distinct,
            sessions: SessionsInfo { opened, closed, open_before, open_at_end, whole_file },
            size_classes: files.classes.iter().enumerate().map(class).collect(),
            top: files.top.iter().map(file).collect(),
            folders: files.folders.iter().map(folder).collect(),
            folder_count: files.folder_count,
            extensions: files.extensions.iter().map(extension).collect(),
            file_systems: files.file_systems.iter().map(file_system).collect(),
            checkpoint_count: files.checkpoint_count,
            checkpoints: files.checkpoints.iter().map(checkpoint).collect(),
            failures: files.failures.iter().map(failure).collect(),
            records_lost: files.records_lost,
        }
    }
}

fn class((index, class): (usize, &Class)) -> ClassInfo {
    let (low, high) = Class::bounds(index);
    ClassInfo { low, high, files: class.files, opens: class.opens, totals: TotalsInfo::of(&class.totals) }
}

fn file(file: &File) -> FileInfo {
    FileInfo {
        path: reversible(&file.path),
        deleted: file.deleted,
        major: file.device.0,
        minor: file.device.1,
        ino: file.ino,
        size: file.size,
        opens: file.opens,
        reads: file.reads,
        read_bytes: file.read_bytes,
        written_bytes: file.written_bytes,
        wait_ns: file.wait_ns,
        pid: file.pid,
    }
}

fn folder(folder: &Folder) -> FolderInfo {
    FolderInfo {
        path: reversible(&folder.path),
        files: folder.files,
        opens: folder.opens,
        totals: TotalsInfo::of(&folder.totals),
    }
}

fn extension(of: &Extension) -> ExtensionInfo {
    ExtensionInfo {
        extension: reversible(&of.extension),
        files: of.files,
        opens: of.opens,
        read_bytes: of.read_bytes,
        written_bytes: of.written_bytes,
        wait_ns: of.wait_ns,
    }
}

fn file_system(of: &FileSystem) -> FileSystemInfo<'_> {
    FileSystemInfo {
        mount_point: reversible(&of.mount_point),
        fs_type: &of.fs_type,
        backing: of.backing,
        source: reversible(&of.source),
        major: of.device.0,
        minor: of.device.1,
        files: of.files,
        opens: of.opens,
        totals: TotalsInfo::of(&of.totals),
    }
}

fn checkpoint(of: &Checkpoint) -> CheckpointInfo<'_> {
    CheckpointInfo {
        path: reversible(&of.path),
        temporary: of.temporary.as_deref().map(reversible),
        rules: &of.rules,
        pid: of.pid,
        bytes: of.bytes,
        writes: of.writes,
        syncs: of.syncs,
        duration_ns: of.duration_ns,
        stall_ns: of.stall_ns,
        began_ns: of.began_ns,
    }
}

fn failure(of: &Failure) -> FailureInfo {
    FailureInfo {
        pid: of.pid,
        op: of.op,
        errno: errno::name(of.errno),
        count: of.count,
        path: reversible(&of.path),
    }
}

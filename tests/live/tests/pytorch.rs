//! A real torch.save and a real DataLoader, where PyTorch is installed: found as what they are.

use std::process::Command;

use iotrace_live::{live, num, text};

/// Saves 64 MiB to the path given, then reads 200 files of a folder by two workers.
const JOB: &str = r#"
import os, sys, torch
from torch.utils.data import DataLoader, Dataset

folder = sys.argv[1]
torch.save(torch.ones(16 << 20, dtype=torch.float32), os.path.join(folder, "model.pt"))
names = []
for i in range(200):
    names.append(os.path.join(folder, f"sample-{i}.bin"))
    with open(names[-1], "wb") as file:
        file.write(bytes(20000))

class Files(Dataset):
    def __len__(self):
        return len(names)

    def __getitem__(self, index):
        with open(names[index], "rb") as file:
            return len(file.read())

assert sum(int(batch.sum()) for batch in DataLoader(Files(), batch_size=10, num_workers=2)) == 200 * 20000
"#;

#[test]
fn a_pytorch_job_is_seen_as_one() {
    let Some(live) = live!() else { return };
    let found = Command::new("python3").args(["-c", "import torch"]).output();
    match found {
        Err(error) => return live.skip(&format!("no python3: {error}")),
        Ok(output) if !output.status.success() => return live.skip("PyTorch is not installed"),
        Ok(_) => {}
    }
    let report = live.run().args(["--", "python3", "-c", JOB, live.dir_arg()]).outcome().report();
    report.assert_nothing_lost();
    let model = format!("{}/model.pt", live.dir_arg());
    let checkpoints = report.list("/files/checkpoints");
    let saved = checkpoints.iter().find(|c| text(c, "/path") == model).expect("torch.save is a checkpoint");
    assert!(num(saved, "/bytes") >= 64 << 20, "{saved}");
    let samples = report.list("/files/extensions").iter().find(|extension| extension["extension"] == ".bin");
    let samples = samples.expect("the samples' extension");
    assert_eq!((num(samples, "/files"), num(samples, "/read_bytes")), (200, 200 * 20_000), "{samples}");
    let loaders = report.list("/ledger/roles").iter().find(|role| role["role"] == "loader");
    let loaders = loaders.expect("two workers are loaders");
    assert!(loaders["pids"].as_array().is_some_and(|pids| pids.len() >= 2), "{loaders}");
}

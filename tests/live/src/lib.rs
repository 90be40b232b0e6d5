//! Helpers of the live tests: run iotrace beside a workload and read its JSON.

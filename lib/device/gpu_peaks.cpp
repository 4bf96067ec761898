#include "lib/device/gpu_peaks.h"

namespace tang {

namespace {

struct Row {
  std::string_view name;  // the driver's, whole
  GpuPeak peak;
};

// NVIDIA's datasheets; figures given with sparsity are halved. GeForce rows are the f32-accumulate rates.
constexpr Row rows[] = {
    {"NVIDIA B200", {2250, 1125, 75}},
    {"NVIDIA H200", {989.4, 494.7, 66.9}},
    {"NVIDIA H200 NVL", {835.5, 417.5, 60}},
    {"NVIDIA GH200 480GB", {989.4, 494.7, 66.9}},
    {"NVIDIA H100 80GB HBM3", {989.4, 494.7, 66.9}},
    {"NVIDIA H100 NVL", {835.5, 417.5, 60}},
    {"NVIDIA H100 PCIe", {756, 378, 51.2}},
    {"NVIDIA A100-SXM4-40GB", {312, 156, 19.5}},
    {"NVIDIA A100-SXM4-80GB", {312, 156, 19.5}},
    {"NVIDIA A100-PCIE-40GB", {312, 156, 19.5}},
    {"NVIDIA A100 80GB PCIe", {312, 156, 19.5}},
    {"NVIDIA A40", {149.7, 74.8, 37.4}},
    {"NVIDIA A10", {125, 62.5, 31.2}},
    {"NVIDIA L40S", {362.05, 183, 91.6}},
    {"NVIDIA L4", {121, 60, 30.3}},
    {"NVIDIA GeForce RTX 5090", {209.5, 104.8, 104.8}},
    {"NVIDIA GeForce RTX 4090", {165.2, 82.6, 82.6}},
    {"NVIDIA GeForce RTX 3090", {71, 35.6, 35.6}},
};

}  // namespace

std::optional<GpuPeak> gpu_peak(std::string_view name) {
  for (const Row& row : rows) {
    if (row.name == name) return row.peak;
  }
  return std::nullopt;
}

}  // namespace tang

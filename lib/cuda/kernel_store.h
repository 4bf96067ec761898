// The kernels that a device asked for: compiled on background threads, one compilation for all entries of a
// source under the same constants.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "lib/cuda/jit.h"
#include "lib/device/cuda_device.h"

namespace tang {

/// A source under one set of constants.
struct KernelModule {
  JitRequest request;
  std::shared_future<JitResult> result;  // get() throws what the compilation threw, each time
  cudaLibrary_t library = nullptr;       // once a device loaded it
};

struct KernelState {
  KernelSpec spec;
  std::shared_ptr<KernelModule> module;
  cudaKernel_t function = nullptr;  // once a device loaded it

  /// Waits for the compilation. A check error when the source lacks the entry or its parameters are not
  /// exactly one struct of spec.param_bytes.
  const JitEntry& entry() const;
};

/// Threads that run jobs in order of arrival. Jobs still waiting at the end are dropped.
class JobQueue {
 public:
  explicit JobQueue(int threads);
  ~JobQueue();
  void add(std::function<void()> job);

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> jobs_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

class KernelStore {
 public:
  KernelStore(const SourceSet& sources, std::string architecture, JitCache cache);

  /// Equal specs give the same handle.
  Kernel get(const KernelSpec& spec);
  /// All so far, in the order they were first asked for.
  const std::vector<Kernel>& all() const { return all_; }

 private:
  std::shared_ptr<KernelModule> module(const KernelSpec& spec);

  const SourceSet& sources_;
  std::string architecture_;
  JitCache cache_;
  std::map<std::string, std::shared_ptr<KernelModule>> modules_;
  std::map<std::string, Kernel> kernels_;
  std::vector<Kernel> all_;
  JobQueue queue_;  // last: its threads end first
};

}  // namespace tang

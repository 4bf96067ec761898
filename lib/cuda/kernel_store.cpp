#include "lib/cuda/kernel_store.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/error.h"
#include "lib/cuda/nvrtc.h"

namespace tang {

const JitEntry& KernelState::entry() const {
  const JitResult& result = module->result.get();
  std::vector<std::string> names;
  for (const JitEntry& entry : result.entries) {
    names.push_back(entry.name);
    if (entry.name != spec.entry) continue;
    if (entry.parameters != 1 || entry.param_bytes != spec.param_bytes) {
      fail_check("kernel {} of {} takes {} parameter(s) of {} bytes; the host passes one struct of {}",
                 spec.entry, spec.source, entry.parameters, entry.param_bytes, spec.param_bytes);
    }
    return entry;
  }
  fail_check("{} ({}) has no kernel '{}'; it has: {}", spec.source, describe(spec.constants), spec.entry,
             fmt::join(names, ", "));
}

JobQueue::JobQueue(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

JobQueue::~JobQueue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    jobs_.clear();
  }
  arrived_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void JobQueue::add(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  arrived_.notify_one();
}

void JobQueue::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
    if (closing_) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
  }
}

KernelStore::KernelStore(const SourceSet& sources, std::string architecture, JitCache cache)
    : sources_(sources),
      architecture_(std::move(architecture)),
      cache_(std::move(cache)),
      queue_(static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u))) {
  if (!nvrtc_supports(architecture_)) {
    fail_machine("NVRTC {} ({}) cannot compile for {}: install a newer CUDA toolkit", nvrtc_version(),
                 nvrtc_path(), architecture_);
  }
}

std::shared_ptr<KernelModule> KernelStore::module(const KernelSpec& spec) {
  std::shared_ptr<KernelModule>& module =
      modules_[fmt::format("{} {} {}", spec.source, describe(spec.constants), spec.text)];
  if (module) return module;
  module = std::make_shared<KernelModule>();
  module->request = {spec.source, spec.constants, architecture_, spec.text};
  const auto promise = std::make_shared<std::promise<JitResult>>();
  module->result = promise->get_future().share();
  queue_.add([this, promise, request = module->request] {
    try {
      promise->set_value(jit_compile(sources_, request, cache_));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  return module;
}

Kernel KernelStore::get(const KernelSpec& spec) {
  Kernel& kernel =
      kernels_[fmt::format("{} {} {} {} {} {}", spec.source, spec.entry, describe(spec.constants),
                           spec.param_bytes, spec.shared_bytes, spec.text)];
  if (!kernel) {
    kernel = std::make_shared<KernelState>(KernelState{spec, module(spec)});
    all_.push_back(kernel);
  }
  return kernel;
}

}  // namespace tang

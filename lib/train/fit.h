// A configuration meets a device: implementations, micro-batch, memory.
#pragma once

#include <string>
#include <vector>

#include "lib/train/run_config.h"

namespace tang {

/// "op=implementation" each: an input error unless the op has the implementation and `device` can run it.
void check_implementations(const std::vector<std::string>& choices, const Device& device);
/// Checks them, and from now on the models run them.
void choose_implementations(const std::vector<std::string>& choices, const Device& device);

/// Bytes a training step's plan may take on this device: what is there, less what samples take.
int64_t memory_budget(const RunConfig& config, const Device& device);

/// Fills in a micro-batch of "auto": the largest that fits, on the CPU one that suits its caches.
void resolve_micro_batch(RunConfig& config, const Device& device);

/// A machine error for a plan that does not fit, before any of it is taken. The micro-batch is resolved.
void check_memory(const RunConfig& config, const Device& device);

/// Dense FLOP/s by the datasheet in this precision; 0 where there is none to go by.
double datasheet_flops(const Device& device, Precision precision);

}  // namespace tang

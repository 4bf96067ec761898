// tang-train as one call.
#pragma once

#include <string>
#include <vector>

namespace tang {

struct TrainRequest {
  std::string config;                  // the YAML file
  std::vector<std::string> overrides;  // key=value
  std::string resume;                  // "", "auto", or a folder
  std::vector<std::string> impls;      // op=implementation
  bool plan = false;                   // print the memory plan and stop
  bool print_config = false;           // print the resolved configuration and stop
  bool tell_start_up = false;          // print where the time to the end of the first step went
};

/// Returns the exit code; what is wrong with the request is an input error, raised before anything is
/// created.
int run_training(const TrainRequest& request);

}  // namespace tang
